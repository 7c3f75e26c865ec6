/** Quiet, drills and last words, as devices, the operator and people call for them. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import t, { type Test } from 'tap';
import type { Environment } from '../../src/base/config/types.js';
import { FieldpostError } from '../../src/base/errors.js';
import type { Exchange } from '../../src/base/http/exchange.js';
import {
  DAY_MS,
  HOUR_MS,
  MINUTE_MS,
  QUIET_MS_MAX,
  REASON_CHARS_MAX,
  SECOND_MS,
} from '../../src/base/limits.js';
import type { CloudParts } from '../../src/cloud/calls.js';
import { confirmDrill } from '../../src/cloud/drill.js';
import { NO_MARKS } from '../../src/cloud/marks.js';
import { drillToken } from '../../src/cloud/notification.js';
import type { ShortMessage } from '../../src/mail/message/message.js';
import { FakeClock } from '../support/clock.js';
import { FaultyDisk } from '../support/faulty-disk.js';
import { DESTINATIONS, DEVICE, EWA, JAN, startCloud, type TestCloud } from '../support/reference-cloud.js';
import { keptLog } from '../support/system.js';

const KEYS = '* boss\npump-3 three\n';
const QUIET = `${DEVICE}/quiet`;
const DRILL = `${DEVICE}/drill`;
const SMS = { ...JAN, type: 2, destination: '+31612345678' };

const isoNow = ({ clock }: TestCloud) => new Date(clock.wallMs()).toISOString();

/** Lets a little time pass until the answer is there: what is decided is kept once a second. */
async function passing<Answered>(cloud: TestCloud, asked: Promise<Answered>): Promise<Answered> {
  let isOver = false;
  const over = () => {
    isOver = true;
  };
  void asked.then(over, over);
  while (!isOver) {
    await nextTurn();
    await cloud.clock.advance(20);
  }
  return await asked;
}

/** The calls of a cloud for whose answers time passes. */
async function world(env: Environment = {}) {
  const cloud = await startCloud({ keys: KEYS, env });
  const call = (method: string, path: string, body: object, key: string | null = 'three') =>
    passing(cloud, cloud.call(method, path, { key, body }));
  return {
    ...cloud,
    [Symbol.asyncDispose]: () => cloud.stop(),
    putQuiet: (body: object, key?: string | null) => call('PUT', QUIET, body, key),
    say: (more: object) => call('PUT', `${DEVICE}/heartbeat`, { state: 'running', ...more }),
    shown: async () => (await cloud.boss('GET', DEVICE)).json,
  };
}

t.test('quiet: for a while, with a reason, and ended; it is shown', async (t) => {
  await using cloud = await world();
  t.match(await cloud.putQuiet({ quietMs: HOUR_MS }), { status: 409, json: { detail: /never called/ } });
  await cloud.beat('pump-3', 'three');
  t.equal((await cloud.shown()).quiet, null);
  const sinceMs = cloud.clock.wallMs();
  const answer = await cloud.putQuiet({ quietMs: HOUR_MS, why: ' battery\n swap ' });
  t.equal(answer.status, 200);
  const { until } = answer.json;
  t.ok(Date.parse(until) >= sinceMs + HOUR_MS && Date.parse(until) <= cloud.clock.wallMs() + HOUR_MS, until);
  t.strictSame((await cloud.shown()).quiet, { until, why: 'battery swap' });
  const { text } = await cloud.boss('GET', '/devices?format=csv');
  t.match(text, `,${until},battery swap,\r\n`);
  const longer = await cloud.putQuiet({ quietMs: 2 * HOUR_MS }, 'boss');
  t.strictSame((await cloud.shown()).quiet, { until: longer.json.until, why: null });
  t.ok(longer.json.until > until);
  t.match(await cloud.putQuiet({ quietMs: 0 }), { status: 200, json: { until: null } });
  t.equal((await cloud.shown()).quiet, null);
  const most = { quietMs: QUIET_MS_MAX, why: 'x'.repeat(REASON_CHARS_MAX) };
  t.match(await cloud.putQuiet(most), { status: 200 });
});

t.test('quiet: what is wrong is named, and changes nothing', async (t) => {
  await using cloud = await world();
  await cloud.beat('pump-3', 'three');
  for (const [body, pointer] of [
    [{}, '/quietMs'],
    [{ quietMs: -1 }, '/quietMs'],
    [{ quietMs: 1.5 }, '/quietMs'],
    [{ quietMs: '1' }, '/quietMs'],
    [{ quietMs: QUIET_MS_MAX + 1 }, '/quietMs'],
    [{ quietMs: 1000, why: 'x'.repeat(REASON_CHARS_MAX + 1) }, '/why'],
    [{ quietMs: 1000, why: 7 }, '/why'],
  ] as const) {
    const wanted = { status: 422, json: { errors: [{ pointer }] } };
    t.match(await cloud.putQuiet(body), wanted, JSON.stringify(body));
  }
  t.equal((await cloud.shown()).quiet, null);
  for (const key of ['x', null]) {
    t.equal((await cloud.putQuiet({ quietMs: 1000 }, key)).status, 401);
    t.equal((await cloud.call('POST', DRILL, { key, body: {} })).status, 401);
  }
});

t.test('a heartbeat asks for quiet and names late programs; what it gets wrong is ignored', async (t) => {
  await using cloud = await world();
  const said = async (more: object) => {
    t.equal((await cloud.say(more)).status, 200, JSON.stringify(more));
    return await cloud.shown();
  };
  await said({});
  const { quiet } = await said({ quietMs: HOUR_MS, why: 'swap' });
  t.equal(quiet.why, 'swap');
  const restMs = Date.parse(quiet.until) - cloud.clock.wallMs();
  t.ok(restMs > HOUR_MS - MINUTE_MS && restMs <= HOUR_MS, `${restMs} ms are left`);
  t.strictSame((await said({})).quiet, quiet, 'a heartbeat without it changes nothing');
  for (const quietMs of [-1, 1.5, '0', null, QUIET_MS_MAX + 1, Number.MAX_VALUE])
    t.strictSame((await said({ quietMs, why: 'x', last: 7 })).quiet, quiet, `${quietMs}`);
  for (const why of [7, null, 'x'.repeat(REASON_CHARS_MAX + 1), ' \u0000 ', {}])
    t.match(await said({ quietMs: 2 * HOUR_MS, why }), { quiet: { why: null } }, 'the quiet is worth more');
  t.match(await said({ quietMs: 0 }), { quiet: null });
  const late = Array.from({ length: 25 }, (_, n) => `reader-${n}`);
  t.strictSame((await said({ late })).late, late.slice(0, 20));
  t.strictSame((await said({ late: ['a', 7, 'x'.repeat(65), 'b'] })).late, ['a', 'b']);
  t.match((await cloud.boss('GET', '/devices?attention=true')).json, { total: 1, counts: { attention: 1 } });
  for (const wrong of [7, {}, 'a', [[]]]) t.strictSame((await said({ late: wrong })).late, []);
});

t.test('the answer to a heartbeat follows a shorter delay of the device, and tells the zone', async (t) => {
  const env = { FIELDPOST_CLOUD_SERVER_DELAY: '10m', FIELDPOST_CLOUD_SERVER_TIME_ZONE: 'Europe/Paris' };
  await using cloud = await startCloud({ env });
  const answered = async () => (await cloud.beat()).json;
  t.match(await answered(), { heartbeatMs: 200_000, zone: 'Europe/Paris' });
  const { headers } = await cloud.putFirst({ destinations: [], delay: '90s' });
  t.match(await answered(), { heartbeatMs: 30_000 });
  await cloud.call('PUT', DESTINATIONS, {
    body: { destinations: [], delay: '7d' },
    headers: { 'If-Match': headers.get('etag') ?? '' },
  });
  t.match(await answered(), { heartbeatMs: 200_000 }, 'it knows by itself how often it wakes');
  await using other = await startCloud();
  t.notOk('zone' in (await other.beat()).json);
});

/** A cloud with a drill: the messages that it has sent, and the path of the page for each person by uid. */
async function drilled(t: Test, document: object = { destinations: [SMS, EWA] }, disk?: FaultyDisk) {
  const sent: ShortMessage[] = [];
  const cloud = await startCloud({
    ...{ keys: KEYS, ...(disk && { disk }) },
    // Of the page's URL the links have the scheme and the host.
    env: { FIELDPOST_CLOUD_SERVER_PUBLIC_URL: 'https://cloud.example/fleet/page#all' },
    send: async (message) => {
      sent.push(message);
      return { kind: 'taken', reply: '200' };
    },
  });
  t.teardown(() => cloud.stop());
  await cloud.putFirst(document, 'pump-3', 'three');
  await cloud.beat('pump-3', 'three');
  const drill = (body: object = {}, key = 'boss') => passing(cloud, cloud.call('POST', DRILL, { key, body }));
  const link = async () => {
    await cloud.passUntil(() => sent.some(({ message }) => message.includes('/drill/')));
    const [, path] = /https:\/\/cloud\.example(\/drill\/\S+)/.exec(sent.at(-1)?.message ?? '') ?? [];
    return path ?? '';
  };
  const ask = (method: string, path: string, headers: Record<string, string> = {}) =>
    cloud.call(method, path, { key: null, headers });
  const confirmed = async () =>
    (await cloud.boss('GET', DESTINATIONS)).json.destinations.map(
      ({ confirmedAt }: { confirmedAt?: string }) => confirmedAt ?? null,
    );
  return { cloud, sent, drill, link, ask, confirmed };
}

t.test('a drill: the link opens a page, only its button confirms, and the entry shows when', async (t) => {
  const other = { fieldpost: { counter: 7 }, name: 'Sluis <1> & 2' };
  const { cloud, sent, drill, link, ask, confirmed } = await drilled(t, {
    ...{ ...other, destinations: [{ ...SMS, extra: [1] }, EWA, { type: 99 }] },
  });
  t.match(await drill(), { status: 202, json: { people: 1 } }, 'the others have no way');
  const path = await link();
  t.equal(sent.length, 1);
  for (const method of ['GET', 'HEAD', 'GET']) {
    const { status, text, headers } = await ask(method, path, { Origin: 'https://scanner.example' });
    t.equal(status, 200);
    t.equal(headers.get('cache-control'), 'no-store');
    t.equal(headers.get('referrer-policy'), 'no-referrer');
    t.match(headers.get('content-security-policy'), /^default-src 'none'; style-src 'sha256-[^;]+'; /);
    t.notMatch(headers.get('content-security-policy'), /unsafe|\*|https?:/);
    if (method === 'HEAD') continue;
    t.match(text, '<html lang="nl">');
    t.match(text, 'Sluis &lt;1&gt; &amp; 2');
    t.match(text, '<form method="post"><button>');
    t.notMatch(text, /<script|\son\w+=|Jan|31612345678/);
  }
  t.strictSame(await confirmed(), [null, null, null], 'scanners follow links');
  await cloud.clock.advance(MINUTE_MS);
  const now = isoNow(cloud);
  const form = { 'Content-Type': 'application/x-www-form-urlencoded', Origin: 'https://cloud.example' };
  t.match(await ask('POST', path, form), { status: 200, text: /bevestigd/ });
  t.strictSame(await confirmed(), [now, null, null]);
  const { json } = await cloud.boss('GET', DESTINATIONS);
  t.match(json, { ...other, destinations: [{ ...SMS, extra: [1] }, EWA, { type: 99 }] }, 'all else stays');
  t.match(cloud.lines.join(''), new RegExp(`drill confirmed device=pump-3 uid=${JAN.uid}`));
  const { headers } = await cloud.boss('GET', DESTINATIONS);
  t.match(await ask('POST', path), { status: 200 }, 'once more');
  t.equal((await cloud.boss('GET', DESTINATIONS)).headers.get('etag'), headers.get('etag'), 'writes nothing');
  await cloud.clock.advance(HOUR_MS);
  await ask('POST', path);
  t.strictSame(await confirmed(), [isoNow(cloud), null, null], 'another drill of the day');
});

t.test('a drill for one, for nobody, and for a device that never called', async (t) => {
  const { cloud, sent, drill } = await drilled(t, { destinations: [SMS, { ...SMS, uid: EWA.uid, type: 3 }] });
  t.match(await drill({ uid: EWA.uid }, 'three'), { status: 202, json: { people: 1 } });
  await cloud.passUntil(() => sent.length > 0);
  t.strictSame(
    sent.map(({ type }) => type),
    [3],
  );
  for (const uid of ['x', 7, 'a3bb189e-8bf9-4888-9912-ace4e6543003'])
    t.match(await cloud.boss('POST', DRILL, { body: { uid } }), {
      status: 422,
      json: { errors: [{ pointer: '/uid' }] },
    });
  await cloud.boss('POST', '/devices/pump-4/key');
  t.equal((await cloud.boss('POST', '/devices/pump-4/drill', { body: {} })).status, 409);
  const { key } = (await cloud.boss('POST', '/devices/pump-5/key')).json;
  await cloud.beat('pump-5', key);
  t.match(await cloud.boss('POST', '/devices/pump-5/drill', { body: {} }), { json: { people: 0 } });
});

t.test('a link that is wrong, of another person, or old is no longer valid, and says nothing', async (t) => {
  const { cloud, drill, link, ask, confirmed } = await drilled(t);
  await drill();
  const path = await link();
  const [, , device, uid = '', token = ''] = path.split('/');
  const plain = (await ask('GET', '/drill/pump-9/x/y')).text;
  t.match(plain, 'This link is no longer valid.');
  t.notMatch(plain, /pump|<form/);
  for (const wrong of [
    `/drill/${device}/${EWA.uid}/${token}`,
    `/drill/pump-4/${uid}/${token}`,
    `/drill/${device}/${uid}/${token.slice(1)}x`,
    `/drill/${device}/${uid}/${token}x`,
    `/drill/${device}/${uid}/${token.slice(1)}`,
    `/drill/${device}/${uid}/${drillToken('', uid)}`,
    `/drill/${device}/${uid}/%C3%A9${token.slice(1)}`,
    '/drill/*/x/y',
  ])
    for (const method of ['GET', 'POST'])
      t.match(await ask(method, wrong), { status: 404, text: plain }, `${method} ${wrong}`);
  t.equal((await ask('GET', `${path}/x`)).status, 404);
  t.equal((await ask('PUT', path)).status, 405);
  t.equal((await ask('GET', path)).status, 200, 'the right one');
  cloud.clock.leap(2 * DAY_MS);
  await cloud.beat('pump-3', 'three');
  await drill();
  t.equal((await ask('POST', path)).status, 404, 'there was another drill');
  const second = await link();
  t.not(second, path);
  cloud.clock.leap(30 * DAY_MS + SECOND_MS);
  t.equal((await ask('POST', second)).status, 404, 'it is too old');
  t.strictSame(await confirmed(), [null, null]);
});

t.test('a person who is gone confirms nothing', async (t) => {
  const { cloud, drill, link, ask } = await drilled(t);
  await drill();
  const path = await link();
  const { headers } = await cloud.boss('GET', DESTINATIONS);
  const rest = { 'If-Match': headers.get('etag') ?? '' };
  await cloud.boss('PUT', DESTINATIONS, { body: { destinations: [EWA] }, headers: rest });
  for (const method of ['GET', 'POST']) t.equal((await ask(method, path)).status, 404);
});

t.test(
  'a device that edits its document meanwhile loses nothing, and keeps nobody from confirming',
  async (t) => {
    for (const [conflicts, status] of [
      [0, 200],
      [7, 200],
      [8, 503],
    ] as const) {
      let stored = { destinations: [SMS, EWA] as object[], edits: 0 };
      const answers: number[] = [];
      const key = 'k';
      const exchange = {
        segments: ['pump-3', SMS.uid, drillToken(key, SMS.uid)],
        send: (answered: number) => answers.push(answered),
      };
      const clock = new FakeClock();
      const marks = { ...NO_MARKS, drill: { key, atMs: clock.wallMs() } };
      const documents = {
        about: () => null,
        read: async () => ({ document: stored, text: '', etag: `"${stored.edits}"` }),
        async put(_id: string, body: object, conditions: object) {
          t.strictSame(conditions, { 'if-match': `"${stored.edits}"` });
          if (stored.edits < conflicts) {
            stored = { ...stored, edits: stored.edits + 1 };
            throw new FieldpostError('precondition-failed', 'It has changed');
          }
          stored = body as typeof stored;
          return '""';
        },
      };
      const parts = {
        fleet: { watch: { sighting: () => ({ marks }) }, documents },
        system: { clock, log: keptLog().log },
      };
      await confirmDrill(exchange as unknown as Exchange, parts as unknown as CloudParts);
      t.strictSame(answers, [status], `${conflicts} conflicts`);
      const confirmedAt = new Date(clock.wallMs()).toISOString();
      const own = status === 200 ? { ...SMS, confirmedAt } : SMS;
      t.strictSame(stored, { destinations: [own, EWA], edits: conflicts });
    }
  },
);

t.test(
  'on a full disk the page says so, in the language of the person, and it can be done later',
  async (t) => {
    const disk = new FaultyDisk({ directories: ['/var/lib'] });
    const { drill, link, ask, confirmed } = await drilled(t, undefined, disk);
    await drill();
    const path = await link();
    disk.onOperation = (_n, { kind }) => (kind === 'write' ? 'error:ENOSPC' : 'ok');
    t.match(await ask('POST', path), { status: 503, text: /niet worden opgeslagen.*<form method="post">/s });
    disk.onOperation = () => 'ok';
    t.strictSame(await confirmed(), [null, null]);
    t.equal((await ask('POST', path)).status, 200);
    t.match(await confirmed(), [/Z$/, null]);
  },
);

t.test('the page has words in each language, and English for others', async (t) => {
  const langs = ['nl', 'fr', 'de', 'en', 'it', 'pl', 'es'];
  const uidOf = (n: number) => `${JAN.uid.slice(0, -2)}1${n}`;
  const destinations = langs.map((lang, n) => ({
    ...{ ...SMS, destination: `+3161234567${n}`, lang, uid: uidOf(n) },
  }));
  const { cloud, sent, drill, ask } = await drilled(t, { destinations });
  await drill();
  await cloud.passUntil(() => sent.length === langs.length);
  const pages = new Set<string>();
  for (const lang of langs) {
    const own = sent.find(({ message }) => message.includes(`/${uidOf(langs.indexOf(lang))}/`));
    const [, path = ''] = /https:\/\/cloud\.example(\/drill\/\S+)/.exec(own?.message ?? '') ?? [];
    const { text } = await ask('GET', path);
    t.match(text, `<html lang="${lang}">`);
    t.match(text, 'pump-3');
    pages.add(text.replace(/lang="\w+"/, ''));
    pages.add((await ask('POST', path)).text.replace(/lang="\w+"/, ''));
  }
  t.equal(pages.size, 2 * langs.length, 'all are different');
});
