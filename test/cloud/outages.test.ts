/** The outages of each device, and who was told of them when. */
import t from 'tap';
import { DAY_MS, HOUR_MS, KIB, MIB, MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import type { DeviceNews } from '../../src/cloud/fleet-store.js';
import {
  OUTAGE_BYTES_MAX,
  OUTAGES_KEPT_MS,
  OUTAGES_MAX,
  OutageLog,
  type ToldNews,
} from '../../src/cloud/outages.js';
import type { Happening } from '../../src/cloud/texts/texts.js';
import { FakeClock } from '../support/clock.js';
import { FaultyDisk } from '../support/faulty-disk.js';
import { DEVICE, EWA, JAN, startCloud, through } from '../support/reference-cloud.js';
import { fakeRelay } from '../support/relay.js';
import { keptLog } from '../support/system.js';

const OUTAGES = `${DEVICE}/outages`;
const DIRECTORY = '/var/lib/outages';

t.test('an outage, who was told of it, and when, also after a restart', async (t) => {
  await using relay = await fakeRelay();
  const disk = new FaultyDisk({ directories: ['/var/lib'] });
  const clock = new FakeClock();
  const cloud = await startCloud({ disk, env: through(relay), clock });
  const now = () => new Date(clock.wallMs()).toISOString();
  t.equal((await cloud.call('GET', OUTAGES)).status, 404, 'a device that nobody knows');
  await cloud.putFirst({ destinations: [JAN, EWA] });
  const began = now();
  await cloud.beat();
  t.same((await cloud.call('GET', OUTAGES)).json, { scope: 'cloud', outages: [], total: 0, others: [] });
  await cloud.passUntil(() => relay.mails.length === 2);
  const [first] = (await cloud.call('GET', OUTAGES)).json.outages;
  t.match(first, { kind: 'silent', began, ended: null, lastedS: null });
  t.same(
    first.told.map(({ of, type, name, destination }: never) => [of, type, name, destination]),
    [
      ['offline', 1, 'Jan', JAN.destination],
      ['offline', 1, JAN.name, EWA.destination],
    ],
  );
  const toldMs = Date.parse(first.told[0].at);
  t.ok(toldMs > Date.parse(began) && toldMs <= clock.wallMs());
  for (const { message } of first.told)
    t.ok(
      cloud.lines.some((line) => line.includes(message)),
      'as the log has it',
    );
  await clock.advance(HOUR_MS);
  const ended = now();
  await cloud.beat();
  await cloud.passUntil(() => relay.mails.length === 4);
  const { outages } = (await cloud.call('GET', OUTAGES)).json;
  t.equal(outages.length, 1);
  t.match(outages[0], {
    kind: 'silent',
    began,
    ended,
    lastedS: (Date.parse(ended) - Date.parse(began)) / SECOND_MS,
  });
  t.same(
    outages[0].told.map(({ of }: { of: string }) => of),
    ['offline', 'offline', 'online', 'online'],
  );
  t.same(
    outages[0].told.map(({ news, status }: never) => [news, status]),
    [...Array(2).fill(['silent', 'sent']), ...Array(2).fill(['back', 'sent'])],
  );
  await cloud.stop();
  await using again = await startCloud({ disk, env: through(relay), clock });
  t.same((await again.call('GET', OUTAGES)).json.outages, outages);
  await again.call('DELETE', DEVICE);
  t.equal((await again.call('GET', OUTAGES)).status, 404);
});

t.test('an outage of which nobody is told is one, too', async (t) => {
  await using cloud = await startCloud();
  await cloud.beat('pump-3', 'any', { state: 'stopping' });
  await cloud.passUntil(() => cloud.lines.some((line) => line.includes('device offline')));
  for (let i = 0; i < 3; i++) await cloud.clock.advance(MINUTE_MS);
  t.match((await cloud.call('GET', OUTAGES)).json.outages, [{ kind: 'stopped', ended: null, told: [] }]);
});

const about = (id: string, happening: Happening, device = 'pump-3'): ToldNews => ({
  news: { ...happening, id, device, atMs: 0 } as DeviceNews,
  told: [],
});
const news = (id: number, kind: 'silent' | 'back' = 'silent', device = 'pump-3'): ToldNews =>
  about(`${kind}${id}`, kind === 'back' ? { kind, sinceMs: id, lastedMs: 5 } : { kind, sinceMs: id }, device);
const toldOf = (one: ToldNews, ...ids: string[]): ToldNews => ({
  ...one,
  told: ids.map((id) => ({ type: 1, name: 'Jan', destination: 'jan@example.com', id })),
});

async function opened(clock = new FakeClock()) {
  const disk = new FaultyDisk({ directories: ['/var/lib'] });
  const { log, lines } = keptLog();
  const open = () => new OutageLog({ disk, clock, log, directory: DIRECTORY });
  return { disk, clock, lines, open, outages: open() };
}

t.test('news that are told in parts are one outage; each message counts once', async (t) => {
  const { outages, open } = await opened();
  await outages.record([toldOf(news(1), 'a'), toldOf(news(1, 'silent', 'pump-4'), 'x')]);
  await outages.record([toldOf(news(1), 'a', 'b')]);
  await open().record([toldOf(news(9, 'back'), 'c')]);
  await outages.record([news(20, 'back'), news(30)]);
  const { outages: found, total } = await open().of('pump-3');
  t.equal(total, 3);
  t.match(found, [
    { kind: 'silent', beganMs: 30, endedMs: null, told: [] },
    { kind: null, beganMs: 15, endedMs: 20, lastedMs: 5 },
    { kind: 'silent', beganMs: 1, endedMs: 9, told: [{ id: 'a' }, { id: 'b' }, { id: 'c', of: 'online' }] },
  ]);
  t.same(
    found.map(({ told }) => told.length),
    [0, 0, 3],
  );
  t.equal((await outages.of('pump-4')).total, 1);
  t.equal((await outages.of('pump')).total, 0);
});

t.test('a torn line, and one that is none, are skipped', async (t) => {
  const { outages, disk } = await opened();
  await outages.record([news(1)]);
  const [name] = await disk.list(DIRECTORY);
  const path = `${DIRECTORY}/${name}`;
  const file = await disk.open(path, 'update');
  await file.write(
    Buffer.from('\n{"device":"pump-3"}\n{"atMs":1,"news":{"device":"pump-3"'),
    await file.size(),
  );
  await file.close();
  await outages.record([news(2)]);
  t.same(
    (await outages.of('pump-3')).outages.map(({ beganMs }) => beganMs),
    [2, 1],
  );
});

t.test('a disk that refuses does not keep people from being told, and is logged once', async (t) => {
  const { outages, disk, lines } = await opened();
  disk.onOperation = () => 'error:ENOSPC';
  await outages.record([news(1)]);
  await outages.record([news(2)]);
  t.equal(lines.length, 1);
  t.match(lines[0], /outages not kept/);
  disk.onOperation = () => 'ok';
  await outages.record([news(3)]);
  t.equal((await outages.of('pump-3')).total, 1);
});

t.test('what became of a message, and what is no longer known', async (t) => {
  let reply: string | undefined = '550 5.1.1 no such user';
  await using relay = await fakeRelay({ rcpt: () => reply });
  const env = { ...through(relay), FIELDPOST_HISTORY: '1' };
  await using cloud = await startCloud({ env });
  await cloud.putFirst({ destinations: [JAN] });
  await cloud.beat();
  // The store keeps one message that was sent, and those that failed.
  const statuses = async () =>
    (await cloud.call('GET', OUTAGES)).json.outages[0]?.told.map(({ status }: { status: string }) => status);
  await cloud.passUntil(() => cloud.lines.some((line) => line.startsWith('<4>failed')));
  t.same(await statuses(), ['failed']);
  reply = undefined;
  await cloud.beat();
  await cloud.passUntil(() => relay.mails.length === 1);
  await cloud.clock.advance(MINUTE_MS);
  t.same(await statuses(), ['failed', 'sent']);
  await cloud.passUntil(() => relay.mails.length === 2);
  await cloud.clock.advance(MINUTE_MS);
  const { outages } = (await cloud.call('GET', OUTAGES)).json;
  t.match(outages, [{ told: [{ status: 'sent' }] }, { told: [{ status: 'failed' }, { status: null }] }]);
});

t.test('CSV has a line for each message and for each outage without one, and no formulas', async (t) => {
  await using relay = await fakeRelay();
  await using cloud = await startCloud({ env: through(relay) });
  t.equal((await cloud.call('GET', `${OUTAGES}?format=csv`)).status, 404);
  await cloud.beat();
  const columns =
    'kind,began,ended,lastedS,why,word,quietUntil,quietWhy,at,of,news,type,name,destination,message,status\r\n';
  const empty = await cloud.call('GET', `${OUTAGES}?format=csv`);
  t.equal(empty.text, columns);
  t.equal(empty.headers.get('content-type'), 'text/csv; charset=utf-8; header=present');
  t.equal(empty.headers.get('content-disposition'), 'attachment; filename="outages-pump-3.csv"');
  await cloud.passUntil(() => cloud.lines.some((line) => line.includes('device offline')));
  await cloud.clock.advance(2 * MINUTE_MS);
  await cloud.putFirst({ destinations: [{ ...JAN, name: '=HYPERLINK("x")' }, EWA] });
  await cloud.beat();
  await cloud.clock.advance(HOUR_MS);
  await cloud.passUntil(() => relay.mails.length === 2);
  const { text } = await cloud.call('GET', OUTAGES, { headers: { Accept: 'text/csv' } });
  const lines = text.split('\r\n');
  // Their messages are queued in any order.
  if (lines[1]?.includes('ewa@')) lines.splice(1, 2, lines[2] ?? '', lines[1]);
  t.equal(lines.length, 5, 'the columns, two, one, and the end');
  const row = (of: string, rest: string) => new RegExp(`^silent,${of},,,,,${rest}$`);
  const time = '2026-11-20T[\\d:.]+Z';
  t.match(
    lines[1],
    row(`${time},,`, `${time},offline,silent,1,"'=HYPERLINK\\(""x""\\)",jan@example.com,\\S+,sent`),
  );
  t.match(lines[2], row(`${time},,`, `${time},offline,silent,1,Jan,ewa@example.com,\\S+,sent`));
  t.match(lines[3], row(`${time},${time},\\d+`, ',,,,,,,'));
});

t.test('a limit; what is no format, and what is no limit', async (t) => {
  const disk = new FaultyDisk({ directories: ['/var/lib'] });
  await using cloud = await startCloud({ disk });
  await cloud.beat();
  const clock = new FakeClock();
  const { log } = keptLog();
  await disk.makeDirectory('/var/lib/fieldpost/cloud/outages');
  const kept = new OutageLog({ disk, clock, log, directory: '/var/lib/fieldpost/cloud/outages' });
  await kept.record(
    Array.from({ length: 150 }, (_, n) => [
      news(n),
      news(n, 'back'),
      toldOf(about(`drill${n}`, { kind: 'drill', key: '', uid: null }), `${n}`),
    ]).flat(),
  );
  const { json } = await cloud.call('GET', OUTAGES);
  t.equal(json.outages.length, 100);
  t.equal(json.others.length, 100);
  t.match(json.others[0], { news: 'drill', of: null, message: '149', status: null });
  t.equal(json.total, 150);
  t.equal((await cloud.call('GET', `${OUTAGES}?limit=1000`)).json.outages.length, 150);
  t.equal((await cloud.call('GET', `${OUTAGES}?format=csv`)).text.split('\r\n').length, 302);
  t.equal((await cloud.call('GET', `${OUTAGES}?format=csv&limit=2`)).text.split('\r\n').length, 6);
  for (const query of ['format=xml', 'limit=0', 'limit=1001', 'limit=x'])
    t.match(await cloud.call('GET', `${OUTAGES}?${query}`), { status: 422 }, query);
});

/** The size of each file. */
async function sizesOf(disk: FaultyDisk): Promise<number[]> {
  const names = await disk.list(DIRECTORY);
  return Promise.all(names.map(async (name) => (await disk.look(`${DIRECTORY}/${name}`))?.bytes ?? 0));
}

t.test('a year is kept, in a file for each week', async (t) => {
  const clock = new FakeClock();
  const { outages, disk } = await opened(clock);
  for (let day = 0; day < 400; day++) {
    await outages.record([news(day)]);
    await clock.advance(DAY_MS);
  }
  const { length } = await disk.list(DIRECTORY);
  t.ok(length >= 53 && length <= 55, `${length} files`);
  t.equal((await outages.of('pump-3')).total, OUTAGES_KEPT_MS / DAY_MS);
});

t.test('all files together have a bound, and each file has one; weeks with little stay', async (t) => {
  const clock = new FakeClock();
  const { outages, disk } = await opened(clock);
  const storm = Array.from({ length: 12 }, () => toldOf(news(1, 'silent', 'pump-4'), 'x'.repeat(300 * KIB)));
  await outages.record([news(1)]);
  for (let week = 0; week < 20; week++) {
    await outages.record(storm);
    await clock.advance(8 * DAY_MS);
    await outages.record([news(week + 2)]);
    await clock.advance(8 * DAY_MS);
  }
  const sizes = await sizesOf(disk);
  const bytes = sizes.reduce((sum, size) => sum + size, 0);
  t.ok(bytes <= OUTAGE_BYTES_MAX, `${bytes} bytes`);
  t.ok(bytes > OUTAGE_BYTES_MAX - 2 * MIB, 'and it is used');
  t.ok(Math.max(...sizes) <= 1.5 * MIB, `${Math.max(...sizes)} bytes in a file`);
  t.ok(sizes.length > 64, 'files of quiet weeks count by their size');
  const { total } = await outages.of('pump-3');
  t.ok(total >= 16, `${total} outages`);
});

t.test('a device that comes and goes has a bounded answer', async (t) => {
  const { outages } = await opened();
  const count = 5 * OUTAGES_MAX;
  await outages.record(
    Array.from({ length: count }, (_, i) => [
      toldOf(news(i), `${i}`),
      news(i, 'back'),
      about(`w${i}`, { kind: 'flows', sinceMs: i }),
    ]).flat(),
  );
  const { outages: found, total, others } = await outages.of('pump-3');
  t.equal(found.length, OUTAGES_MAX);
  t.equal(total, count);
  t.match(found[0], { beganMs: count - 1, told: [{ id: `${count - 1}` }] }, 'the newest');
  t.equal(others.length, 0);
});

t.test('a fleet that falls silent at once is written and read in parts', async (t) => {
  const { outages, disk } = await opened();
  const count = 30_000;
  await outages.record(Array.from({ length: count }, (_, n) => toldOf(news(n, 'silent', `pump-${n}`), 'id')));
  const sizes = await sizesOf(disk);
  t.ok(sizes.length > 3 && Math.max(...sizes) < 1.5 * MIB, `${sizes}`);
  const lengths: number[] = [];
  const { open } = disk;
  disk.open = async (path, how) => {
    const file = await open.call(disk, path, how);
    const { read } = file;
    return Object.assign(file, {
      read(offset: number, length: number) {
        lengths.push(length);
        return read.call(file, offset, length);
      },
    });
  };
  for (let n = 0; n < count; n += 3333)
    t.match(await outages.of(`pump-${n}`), { total: 1, outages: [{ beganMs: n, told: [{ id: 'id' }] }] });
  // After each part other work gets its turn.
  t.ok(Math.max(...lengths) <= 64 * KIB);
});

t.test('a file that makes way while it is looked for is skipped', async (t) => {
  const { outages, disk, clock } = await opened();
  await outages.record([news(1)]);
  await clock.advance(8 * DAY_MS);
  await outages.record([news(2)]);
  const names = await disk.list(DIRECTORY);
  t.equal(names.length, 2);
  disk.list = async () => ['000000000000001.log', ...names];
  t.equal((await outages.of('pump-3')).total, 2);
});

t.test('words, quiet times and reminders belong to an outage; other news do not', async (t) => {
  const silent = (sinceMs: number, word?: string) =>
    about(`s${sinceMs}`, { kind: 'silent', sinceMs, ...(word !== undefined && { word }) });
  const back = (sinceMs: number, why?: 'ran' | 'restarted') =>
    about(`b${sinceMs}`, {
      ...{ kind: 'back', sinceMs, lastedMs: 5 },
      ...(why !== undefined && { why: why === 'ran' ? { kind: why } : { kind: why, upMs: 4 } }),
    });
  const word = (sinceMs: number, text = 'mains failed') =>
    toldOf(about(`w${sinceMs}`, { kind: 'word', sinceMs, word: text }), 'of-word');
  const quiet = (untilMs: number) =>
    toldOf(about(`q${untilMs}`, { kind: 'quiet', untilMs, why: 'battery swap' }), 'of-quiet');
  const still = toldOf(about('still', { kind: 'still', sinceMs: 10, lastedMs: 90 }), 'of-still');
  const drill = toldOf(about('drill', { kind: 'drill', key: 'secret', uid: null }), 'of-drill');
  const stuck = toldOf(about('stuck', { kind: 'stuck', sinceMs: 1, relay: null, failed: 3 }), 'of-stuck');
  const { log } = keptLog();
  const past = new FakeClock().wallMs() - 1;
  const ahead = past + DAY_MS;
  const rows: [name: string, all: ToldNews[], outages: object[], others: string[]][] = [
    [
      'the word that the outage has',
      [word(9), toldOf(silent(10, 'mains failed'), 'of-silent')],
      [{ word: 'mains failed', told: [{ id: 'of-word', news: 'word', of: 'offline' }, { id: 'of-silent' }] }],
      [],
    ],
    ['the last heartbeat had the word', [word(10), silent(10)], [{ word: 'mains failed', told: [{}] }], []],
    ['a word that it survived', [word(5), silent(10)], [{ word: null, told: [] }], ['of-word']],
    [
      'a word of which people hear later',
      [word(10), silent(10), toldOf(word(10), 'of-word', 'later')],
      [{ told: [{ id: 'of-word' }, { id: 'later' }] }],
      [],
    ],
    ['a word alone', [word(10)], [], ['of-word']],
    [
      'a word before the last outage',
      [word(8), silent(9), back(10), silent(20, 'mains failed')],
      [{ word: 'mains failed', told: [] }, { word: null }],
      ['of-word'],
    ],
    [
      'an outage that began in a quiet time, told at its end',
      [quiet(past), silent(past - 9)],
      [{ quiet: { untilMs: past, why: 'battery swap' }, told: [] }],
      ['of-quiet'],
    ],
    [
      'told before the end of the quiet time, so that was taken back',
      [quiet(ahead), silent(past)],
      [{ quiet: null }],
      ['of-quiet'],
    ],
    ['a quiet time that was over', [quiet(past - 10), silent(past - 9)], [{ quiet: null }], ['of-quiet']],
    ['quiet during an outage', [silent(10), quiet(ahead)], [{ quiet: { untilMs: ahead } }], ['of-quiet']],
    ['quiet after an outage', [silent(10), back(15), quiet(ahead)], [{ quiet: null }], ['of-quiet']],
    ['a reminder', [silent(10), still], [{ told: [{ id: 'of-still', news: 'still', of: 'offline' }] }], []],
    ['a reminder of an outage that the log has lost', [still], [], ['of-still']],
    [
      'why it was away',
      [silent(10), back(15, 'ran'), silent(20), back(25, 'restarted'), silent(30), back(35)],
      [
        { why: null, beganMs: 30 },
        { why: 'restarted' },
        { why: 'ran', beganMs: 10, endedMs: 15, lastedMs: 5 },
      ],
      [],
    ],
    ['what is no outage', [drill, silent(10), stuck, back(15)], [{ told: [] }], ['of-stuck', 'of-drill']],
  ];
  for (const [name, all, outages, others] of rows) {
    const disk = new FaultyDisk({ directories: ['/var/lib'] });
    const kept = new OutageLog({ disk, clock: new FakeClock(), log, directory: DIRECTORY });
    for (const one of all) await kept.record([one]);
    const history = await kept.of('pump-3');
    t.match(history.outages, outages, name);
    t.strictSame(
      history.outages.map(({ told }) => told.length),
      outages.map((outage) => (outage as { told?: [] }).told?.length ?? 0),
      name,
    );
    t.strictSame(
      history.others.map(({ id }) => id),
      others,
      name,
    );
    for (const { of } of history.others) t.equal(of, null, name);
  }
  const { outages, disk } = await opened();
  await outages.record([drill]);
  const [file = ''] = await disk.list(DIRECTORY);
  t.notMatch(String(await disk.readWhole(`${DIRECTORY}/${file}`)), 'secret');
});

t.test('a person who gets a digest was told of each of its devices, by the same message', async (t) => {
  await using relay = await fakeRelay();
  await using cloud = await startCloud({ env: through(relay) });
  const ids = Array.from({ length: 25 }, (_, n) => `pump-${n}`);
  for (const id of ids) {
    await cloud.putFirst({ destinations: [JAN] }, id);
    await cloud.beat(id);
  }
  await cloud.passUntil(() => relay.mails.length > 0);
  t.equal(relay.mails.length, 1, 'one digest');
  const messages = new Set<string>();
  for (const id of ids) {
    const { outages } = (await cloud.call('GET', `/devices/${id}/outages`)).json;
    t.match(outages, [{ told: [{ of: 'offline', destination: JAN.destination }] }], id);
    messages.add(outages[0]?.told[0]?.message);
  }
  t.equal(messages.size, 1);
});
