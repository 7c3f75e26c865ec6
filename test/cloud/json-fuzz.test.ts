/**
 * Any JSON value in any field of what devices send to the cloud is answered 2xx or 4xx, never 5xx, and what the cloud then
 * tells of them is not either. FIELDPOST_TEST_SEED repeats a run.
 */
import { test } from 'tap';
import { ask } from '../support/ask.js';
import { anyValue, DEEP, textOf } from '../support/json-values.js';
import { pick, seededRandom, testSeed } from '../support/random.js';
import { DESTINATIONS, DEVICE, JAN, startCloud, type TestCloud } from '../support/reference-cloud.js';

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

/** Puts a body on a door of the cloud; gives the status. */
async function send(
  cloud: TestCloud,
  method: string,
  path: string,
  body: string,
  more = {},
): Promise<number> {
  const headers = { Authorization: 'Bearer any', ...more };
  return (await ask(cloud.url + path, method, { headers, body })).status;
}

const put = async (cloud: TestCloud, body: string) => {
  const { headers } = await ask(cloud.url + DESTINATIONS, 'GET', {
    headers: { Authorization: 'Bearer any' },
  });
  const etag = headers.get('etag');
  const condition = etag === null ? { 'If-None-Match': '*' } : { 'If-Match': etag };
  return await send(cloud, 'PUT', DESTINATIONS, body, condition);
};

test('any value in any field of what a device sends', async (t) => {
  const seed = testSeed();
  t.comment(`FIELDPOST_TEST_SEED=${seed}`);
  const random = seededRandom(seed);
  await using cloud = await startCloud({ send: async () => ({ kind: 'sent', reply: 'ok' }) as never });
  let n = 0;
  const whole = {
    heartbeat: (body: string) => send(cloud, 'PUT', `${DEVICE}/heartbeat`, body),
    document: (body: string) => put(cloud, body),
    entry: (body: string) => put(cloud, body),
    message: (body: string) =>
      send(cloud, 'POST', `${DEVICE}/messages`, body, { 'Idempotency-Key': `m${n}` }),
  };
  const doors = {
    heartbeat: (body: object) => whole.heartbeat(textOf({ ...HEARTBEAT, ...body })),
    document: (body: object) => whole.document(textOf({ name: 'Pump', destinations: [JAN], ...body })),
    entry: (body: object) => whole.entry(textOf({ destinations: [{ ...JAN, ...body }, body] })),
    message: (body: object) =>
      whole.message(textOf({ id: `m${++n}`, ...pick(random, [SMS, PUSH]), ...body })),
  };
  const names = ['heartbeat', 'document', 'entry', 'message'] as const;
  const isFine = (status: number, what: string) => {
    if (status < 200 || status >= 500) t.fail(`${status} for ${what}`);
  };
  for (const name of names) {
    const door = doors[name];
    t.ok((await door({})) < 300, `${name}: what is right is taken`);
    // In a list that the cloud reads, and in a member that it only keeps.
    for (const field of FIELDS) isFine(await door({ [field]: DEEP }), `${name} with a deep ${field}`);
    for (let tries = 0; tries < TRIES / 4; tries++) {
      const body = Object.fromEntries([[pick(random, FIELDS), anyValue(random)]]);
      isFine(await door(body), `${name} with ${textOf(body).slice(0, 300)}`);
      const text = name === 'entry' ? textOf({ destinations: anyValue(random) }) : textOf(anyValue(random));
      isFine(await whole[name](text), `${name} with ${text.slice(0, 300)}`);
    }
    for (const path of ['/metrics', '/healthz', '/devices', DESTINATIONS, '/'])
      isFine(
        (await ask(cloud.url + path, 'GET', { headers: { Authorization: 'Bearer any' } })).status,
        `${path} after ${name}`,
      );
  }
  t.same(
    cloud.lines.filter((line) => line.startsWith('<3>')),
    [],
    'no internal error was logged',
  );
});
