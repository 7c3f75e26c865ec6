/**
 * Any JSON value in any field of what devices send to the cloud is answered 2xx or 4xx, never 5xx, and what the cloud then
 * tells of them is not either. FIELDPOST_TEST_SEED repeats a run.
 */
import { test } from 'tap';
import { ask } from '../support/ask.js';
import { anyValue, DEEP, textOf } from '../support/json-values.js';
import { pick, seededRandom, testSeed } from '../support/random.js';
import { DESTINATIONS, DEVICE, JAN, startCloud } from '../support/reference-cloud.js';

const TRIES = 400;
const HEARTBEAT = {
  state: 'running',
  intervalMs: 10_000,
  bootId: 'b',
  uptimeMs: 5,
  version: '1',
  queue: { queued: 1, deferred: 0, failed: 0 },
  relay: 'ok',
  link: 'online',
};
const SMS = { type: 2, destination: '+31612345678', message: 'x' };
const PUSH = { type: 4, destination: 'OWNER', message: 'x', title: 'T', auto_open: true, app_data: 1 };
const FIELDS = [
  ...Object.keys({ ...HEARTBEAT, ...PUSH, ...JAN }),
  'site',
  'contact',
  'fieldpost',
  '__proto__',
];

test('any value in any field of what a device sends', async (t) => {
  const seed = testSeed();
  t.comment(`FIELDPOST_TEST_SEED=${seed}`);
  const random = seededRandom(seed);
  await using cloud = await startCloud({ send: async () => ({ kind: 'sent', reply: 'ok' }) as never });
  /** Not by `call`, which holds each request against the description. */
  const send = (method: string, path: string, body?: string, more = {}) =>
    ask(cloud.url + path, method, { headers: { Authorization: 'Bearer any', ...more }, body });
  let n = 0;
  const put = async (body: string) => {
    const etag = (await send('GET', DESTINATIONS)).headers.get('etag');
    return await send('PUT', DESTINATIONS, body, etag ? { 'If-Match': etag } : { 'If-None-Match': '*' });
  };
  /** What takes a body, and a body with these members. */
  const doors = {
    heartbeat: [
      (body: string) => send('PUT', `${DEVICE}/heartbeat`, body),
      (more: object) => ({ ...HEARTBEAT, ...more }),
    ],
    document: [put, (more: object) => ({ name: 'Pump', destinations: [JAN], ...more })],
    entry: [put, (more: object) => ({ destinations: [{ ...JAN, ...more }, more] })],
    message: [
      (body: string) => send('POST', `${DEVICE}/messages`, body, { 'Idempotency-Key': `m${n}` }),
      (more: object) => ({ id: `m${++n}`, ...pick(random, [SMS, PUSH]), ...more }),
    ],
  } as const;
  const isFine = async (answer: ReturnType<typeof send>, what: string) => {
    const { status } = await answer;
    if (status < 200 || status >= 500) t.fail(`${status} for ${what}`);
  };
  for (const [name, [whole, bodyWith]] of Object.entries(doors)) {
    const door = (more: object) => whole(textOf(bodyWith(more)));
    t.ok((await door({})).status < 300, `${name}: what is right is taken`);
    // In a list that the cloud reads, and in a member that it only keeps.
    for (const field of FIELDS) await isFine(door({ [field]: DEEP }), `${name} with a deep ${field}`);
    for (let tries = 0; tries < TRIES / 4; tries++) {
      const body = Object.fromEntries([[pick(random, FIELDS), anyValue(random)]]);
      await isFine(door(body), `${name} with ${textOf(body).slice(0, 300)}`);
      const text = name === 'entry' ? textOf({ destinations: anyValue(random) }) : textOf(anyValue(random));
      await isFine(whole(text), `${name} with ${text.slice(0, 300)}`);
    }
    for (const path of ['/metrics', '/healthz', '/devices', DESTINATIONS, '/'])
      await isFine(send('GET', path), `${path} after ${name}`);
  }
  t.same(
    cloud.lines.filter((line) => line.startsWith('<3>')),
    [],
    'no internal error was logged',
  );
});
