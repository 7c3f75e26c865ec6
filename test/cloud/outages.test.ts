/** The outages of each device, and who was told of them when. */
import t from 'tap';
import { DAY_MS, HOUR_MS, KIB, MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import type { DeviceNews } from '../../src/cloud/fleet-store.js';
import {
  OUTAGE_FILES_MAX,
  OUTAGES_KEPT_MS,
  OUTAGES_MAX,
  OutageLog,
  type ToldNews,
} from '../../src/cloud/outages.js';
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
  t.same((await cloud.call('GET', OUTAGES)).json, { scope: 'cloud', outages: [] });
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

const news = (id: number, kind: 'silent' | 'back' = 'silent', device = 'pump-3'): ToldNews => {
  const times = kind === 'back' ? { kind, sinceMs: id, lastedMs: 5 } : { kind, sinceMs: id };
  return { news: { ...times, id: `${kind}${id}`, device } as DeviceNews, told: [] };
};
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
  const found = await open().of('pump-3');
  t.match(found, [
    { kind: 'silent', beganMs: 30, endedMs: null, told: [] },
    { kind: null, beganMs: 15, endedMs: 20, lastedMs: 5 },
    { kind: 'silent', beganMs: 1, endedMs: 9, told: [{ id: 'a' }, { id: 'b' }, { id: 'c', of: 'online' }] },
  ]);
  t.same(
    found.map(({ told }) => told.length),
    [0, 0, 3],
  );
  t.equal((await outages.of('pump-4')).length, 1);
  t.equal((await outages.of('pump')).length, 0);
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
    (await outages.of('pump-3')).map(({ beganMs }) => beganMs),
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
  t.equal((await outages.of('pump-3')).length, 1);
});

t.test('thirty days are kept, and a bounded number of files and outages', async (t) => {
  const clock = new FakeClock();
  const { outages, disk } = await opened(clock);
  for (let day = 0; day < 40; day++) {
    await outages.record([news(day)]);
    await clock.advance(DAY_MS);
  }
  t.ok((await disk.list(DIRECTORY)).length <= 32);
  t.equal((await outages.of('pump-3')).length, OUTAGES_KEPT_MS / DAY_MS);
  const long = toldOf(news(1, 'silent', 'pump-4'), 'x'.repeat(1100 * KIB));
  for (let i = 0; i < OUTAGE_FILES_MAX + 5; i++) await outages.record([long]);
  t.equal((await disk.list(DIRECTORY)).length, OUTAGE_FILES_MAX);
  for (let i = 0; i < 120; i++) await outages.record([news(1000 + i), news(1000 + i, 'back')]);
  const found = await outages.of('pump-3');
  t.equal(found.length, OUTAGES_MAX);
  t.equal(found[0]?.beganMs, 1119, 'the newest');
});

t.test('a fleet that falls silent at once is written in several files', async (t) => {
  const { outages, disk } = await opened();
  await outages.record(
    Array.from({ length: 30_000 }, (_, n) => toldOf(news(n, 'silent', `pump-${n}`), 'id')),
  );
  const names = await disk.list(DIRECTORY);
  t.ok(names.length > 3, `${names.length} files`);
  t.equal((await outages.of('pump-29999')).length, 1);
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
