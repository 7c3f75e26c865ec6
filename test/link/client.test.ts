/** The cloud's contract over real sockets: what each call says, and what becomes of every answer. */
import t from 'tap';
import { CLOUD_ANSWER_BYTES_MAX, CLOUD_DOCUMENT_BYTES_MAX, HOUR_MS } from '../../src/base/limits.js';
import { CloudError } from '../../src/base/retry/call-error.js';
import { createConnect } from '../../src/base/system/connect.js';
import { openHttps } from '../../src/base/system/https.js';
import { CloudClient } from '../../src/device/link/client.js';
import type { CloudMail, ShortMessage } from '../../src/mail/message/message.js';
import { FakeClock } from '../support/clock.js';
import { type CloudAnswer, DEVICE, fakeCloud, HTML, KEY, problem } from '../support/cloud.js';
import { serve } from '../support/serve.js';

const REPORT = {
  bootId: 'b0070001',
  sequence: 1,
  uptimeMs: 61_000,
  state: 'running',
  intervalMs: 30_000,
  queue: { queued: 3, deferred: 2, failed: 1 },
  version: '1.2.3',
} as const;
const SMS: ShortMessage = { id: 'id-1', type: 2, destination: '+31612345678', message: 'Water!' };
const ENTRY = { uid: 'u1', type: 1, destination: 'a@example.com', lang: 'nl', name: 'A' };
const BREAKS = /^the cloud breaks its contract/;
const ALWAYS = new AbortController().signal;

/** A client of the cloud, and what it is made of. */
function clientOf(cloud: { url: string }, key = KEY) {
  const clock = new FakeClock();
  const https = openHttps({ ca: null, clientCertificate: null, clock, connect: createConnect({ clock }) });
  const client = new CloudClient(
    { url: cloud.url, deviceId: DEVICE, key },
    { send: https.send, clock, version: '1.2.3' },
  );
  return { client, [Symbol.dispose]: () => https.close() };
}

/** What the call was rejected with. */
async function failureOf(call: Promise<unknown>): Promise<CloudError> {
  try {
    await call;
  } catch (error) {
    if (error instanceof CloudError) return error;
    throw error;
  }
  throw new Error('the call did not fail');
}

const CALLS: Readonly<Record<string, (client: CloudClient) => Promise<unknown>>> = {
  heartbeat: (client) => client.heartbeat(REPORT, ALWAYS),
  getDestinations: (client) => client.getDestinations('"v1"', ALWAYS),
  putDestinations: (client) => client.putDestinations([ENTRY], '"v1"', ALWAYS),
  sendMessage: (client) => client.sendMessage(SMS, ALWAYS),
};

t.test('a heartbeat says what the contract asks for and reads what it allows', async (t) => {
  await using cloud = await fakeCloud();
  using made = clientOf(cloud);
  cloud.answer = () => ({ status: 200, body: {} });
  t.strictSame(await made.client.heartbeat(REPORT, ALWAYS), {}, 'no member is required');
  const [call] = cloud.calls;
  t.match(call, { method: 'PUT', path: 'heartbeat', body: REPORT });
  t.match(call?.headers, {
    authorization: `Bearer ${KEY}`,
    'content-type': 'application/json',
    'user-agent': 'fieldpost/1.2.3',
  });
  const body = {
    destinations: '"a b?"',
    heartbeatMs: 60_000,
    serverTime: '2026-11-20T10:00:00+01:00',
    zone: 'Europe/Amsterdam',
    more: { is: 'ignored' },
  };
  cloud.answer = () => ({ status: 200, body });
  t.strictSame(await made.client.heartbeat(REPORT, ALWAYS), {
    destinations: '"a b?"',
    heartbeatMs: 60_000,
    serverTimeMs: Date.UTC(2026, 10, 20, 9),
    zone: 'Europe/Amsterdam',
  });
  for (const zone of [5, null, [], 'x'.repeat(65)]) {
    cloud.answer = () => ({ status: 200, body: { zone } });
    t.strictSame(await made.client.heartbeat(REPORT, ALWAYS), {}, 'a zone that is none ends no link');
  }
});

t.test('the calls about destinations keep to preconditions', async (t) => {
  await using cloud = await fakeCloud();
  using made = clientOf(cloud);
  const { client } = made;
  const { screen } = cloud;
  const stored = () => ({ kind: 'stored', etag: screen.etag });
  const document = (entries: unknown[], more?: object) => ({
    kind: 'document',
    etag: screen.etag,
    entries,
    ...(more && { more }),
  });
  t.strictSame(await client.getDestinations(null, ALWAYS), { kind: 'none' });
  t.strictSame(await client.putDestinations([ENTRY], null, ALWAYS), stored());
  t.match(cloud.calls[1], { headers: { 'if-none-match': '*' }, body: { destinations: [ENTRY] } });
  t.strictSame(await client.putDestinations([], null, ALWAYS), { kind: 'changed' });
  t.strictSame(await client.getDestinations(null, ALWAYS), document([ENTRY]));
  const { etag } = screen;
  t.strictSame(await client.getDestinations(etag, ALWAYS), { kind: 'unchanged' });
  const more = { name: 'Pump 3' };
  t.strictSame(await client.putDestinations([], etag, ALWAYS, more), stored());
  t.strictSame(await client.putDestinations([], etag, ALWAYS), { kind: 'changed' });
  t.strictSame(await client.getDestinations(null, ALWAYS), document([], more), 'other members are kept');
  cloud.answer = () => ({ status: 200, headers: { ETag: '"v3"' }, body: { some: 'thing' } });
  t.strictSame(await client.putDestinations([], '"v2"', ALWAYS), { kind: 'stored', etag: '"v3"' });
});

t.test('a message goes out with its id as key, and is taken only under that id', async (t) => {
  await using cloud = await fakeCloud();
  using made = clientOf(cloud);
  const push = {
    ...SMS,
    type: 4,
    destination: 'OWNER',
    title: 'T',
    auto_open: true,
    app_data: { a: [1] },
  } as const;
  t.strictSame(await made.client.sendMessage(push, ALWAYS), { kind: 'taken', reply: '202 taken' });
  t.match(cloud.calls[0], {
    method: 'POST',
    path: 'messages',
    headers: { 'idempotency-key': 'id-1' },
    body: push,
  });
  cloud.answer = () => ({ status: 200, body: { id: 'id-2' } });
  t.match(await made.client.sendMessage(SMS, ALWAYS), {
    kind: 'later',
    reply: "it answered 200 with another id than the message's",
  });
});

t.test('every status of an answer to a message', async (t) => {
  await using cloud = await fakeCloud();
  using made = clientOf(cloud);
  const refused = [400, 413, 415, 422];
  const later = [
    300, 304, 401, 402, 403, 404, 405, 406, 408, 409, 410, 412, 418, 425, 429, 451, 500, 501, 502,
  ];
  for (const status of [...refused, ...later, 503, 504, 507, 599]) {
    cloud.answer = () => problem(status, 'said why', { 'Retry-After': '7' });
    const answer = await made.client.sendMessage(SMS, ALWAYS);
    if (refused.includes(status)) t.strictSame(answer, { kind: 'refused', reply: `${status} said why` });
    else t.match(answer, { kind: 'later', reply: String(status), retryAfterMs: 7000 }, String(status));
    cloud.answer = () => ({ ...HTML, status });
    const page = await made.client.sendMessage(SMS, ALWAYS);
    t.match(page, { kind: 'later', reply: String(status) }, `${status} with a page refuses nothing`);
  }
  for (const status of [200, 201, 202, 299]) {
    cloud.answer = ({ body }) => ({ status, body: { id: body.id } });
    t.match(await made.client.sendMessage(SMS, ALWAYS), { kind: 'taken' }, String(status));
  }
});

t.test('an answer that is not from the cloud fails every call', async (t) => {
  await using cloud = await fakeCloud();
  using made = clientOf(cloud);
  const cases: [CloudAnswer | 'reset' | 'cut', words: RegExp][] = [
    [HTML, /\(200, text\/html\) is not from the cloud's API: perhaps a login page/],
    [{ status: 200, headers: { ETag: '"x"' }, body: '' }, /not from the cloud's API/],
    [{ status: 200, headers: { ETag: '"x"' }, body: '[]' }, /not from the cloud's API/],
    [{ status: 200, headers: { ETag: '"x"' }, body: '{"id":"id-1"' }, /not from the cloud's API/],
    ['cut', /127\.0\.0\.1: its answer was cut short/],
    ['reset', /127\.0\.0\.1: the connection was lost/],
  ];
  for (const [answer, words] of cases) {
    cloud.answer = () => answer as CloudAnswer;
    for (const [name, call] of Object.entries(CALLS)) {
      // The answer to a PUT need not have a body.
      if (name === 'putDestinations' && typeof answer === 'object' && answer.body === '') continue;
      if (name === 'sendMessage') {
        t.match(await call(made.client), { kind: 'later', reply: words, isReached: true });
        continue;
      }
      const error = await failureOf(call(made.client));
      t.match(error.message, words, `${name}: ${words}`);
    }
  }
  const redirect = { status: 302, headers: { Location: 'http://login.example/' } };
  for (const answer of [redirect, { ...HTML, status: 404 }, { ...HTML, status: 511 }, { status: 304 }]) {
    cloud.answer = () => answer;
    for (const name of ['heartbeat', 'putDestinations'])
      t.ok(await failureOf(CALLS[name]?.(made.client) as Promise<unknown>), `${name} ${answer.status}`);
    if (answer.status !== 304) t.ok(await failureOf(made.client.getDestinations('"v1"', ALWAYS)));
    t.ok(await failureOf(made.client.getDestinations(null, ALWAYS)), `a ${answer.status} nobody asked for`);
  }
  for (const [status, words] of [
    [304, /304: perhaps a cache on the way/],
    [407, /407: a proxy on the way wants a login/],
    [511, /511: the network of this device wants a login/],
  ] as const) {
    cloud.answer = () => ({ status });
    t.match((await failureOf(made.client.getDestinations(null, ALWAYS))).message, words);
  }
  t.equal(cloud.calls.filter(({ path }) => !/^\w+$/.test(path)).length, 0, 'no redirect is followed');
});

t.test('members of the wrong kind and bad ETags break the contract', async (t) => {
  await using cloud = await fakeCloud();
  using made = clientOf(cloud);
  for (const body of [
    { destinations: 5 },
    { heartbeatMs: '30' },
    { heartbeatMs: -1 },
    { serverTime: 'noon' },
    { serverTime: 1e12 },
  ]) {
    cloud.answer = () => ({ status: 200, body });
    t.match((await failureOf(made.client.heartbeat(REPORT, ALWAYS))).message, BREAKS, JSON.stringify(body));
  }
  for (const etag of [undefined, 'W/"v1"', 'v1', '"a"b"']) {
    const headers: Record<string, string> = etag === undefined ? {} : { ETag: etag };
    cloud.answer = () => ({ status: 200, headers, body: { destinations: [] } });
    t.match((await failureOf(made.client.getDestinations(null, ALWAYS))).message, /contract.* ETag/);
    t.match((await failureOf(made.client.putDestinations([], null, ALWAYS))).message, BREAKS);
  }
  cloud.answer = () => ({ status: 200, headers: { ETag: '"v1"' }, body: { destinations: {} } });
  t.match((await failureOf(made.client.getDestinations(null, ALWAYS))).message, BREAKS);
});

t.test('statuses in words, and how long to leave the cloud alone', async (t) => {
  await using cloud = await fakeCloud();
  using made = clientOf(cloud, 'wrong');
  const refused = await failureOf(made.client.heartbeat(REPORT, ALWAYS));
  t.match(refused.message, /^the cloud refuses this device's key \(401: This device is not known, /);
  t.equal(refused.retryAfterMs, null);
  const date = 'Sat, 01 Jan 2050 00:00:00 GMT';
  const cases: [Record<string, string>, number | null][] = [
    [{ 'Retry-After': '7' }, 7000],
    [{ 'Retry-After': '99999999999999999999' }, HOUR_MS],
    // By the cloud's own clock: ours may show anything.
    [{ 'Retry-After': 'Sat, 01 Jan 2050 00:02:00 GMT', Date: date }, 120_000],
    [{ 'Retry-After': 'Sat, 01 Jan 2049 00:02:00 GMT', Date: date }, 0],
    [{ 'Retry-After': 'Mon, 01 Jan 2052 00:02:00 GMT', Date: date }, HOUR_MS],
    [{ 'Retry-After': 'soon' }, null],
    [{ 'Retry-After': '-5' }, null],
  ];
  for (const [headers, retryAfterMs] of cases) {
    cloud.answer = () => problem(503, '', headers);
    const error = await failureOf(made.client.heartbeat(REPORT, ALWAYS));
    t.equal(error.retryAfterMs, retryAfterMs, JSON.stringify(headers));
    cloud.answer = () => ({ status: 200, headers, body: {} });
    const answer = await made.client.heartbeat(REPORT, ALWAYS);
    t.equal(answer.retryAfterMs ?? null, retryAfterMs, 'a good answer may ask for it as well');
  }
});

t.test('a drill: the people, no drill, a refusal, or a failed call', async (t) => {
  await using cloud = await fakeCloud();
  using made = clientOf(cloud);
  const { client } = made;
  for (const [answer, expected] of [
    [
      { status: 202, body: { people: 3 } },
      { kind: 'begun', people: 3 },
    ],
    [
      { status: 202, body: { people: 0, more: 1 } },
      { kind: 'begun', people: 0 },
    ],
    [problem(404, 'There is nothing here'), { kind: 'unknown' }],
    [{ status: 404, body: '<html>' }, { kind: 'unknown' }],
    [problem(405, 'Not here'), { kind: 'unknown' }],
    [problem(501, 'Not here'), { kind: 'unknown' }],
    [problem(409, 'It has never called'), { kind: 'refused', reply: 'It has never called' }],
    [problem(429, 'One an hour'), { kind: 'refused', reply: 'One an hour' }],
  ] as const) {
    cloud.answer = () => answer as CloudAnswer;
    t.strictSame(await client.drill(null, ALWAYS), expected, JSON.stringify(answer));
  }
  await client.drill('u1', ALWAYS);
  t.match(cloud.calls.at(-2), { method: 'POST', path: 'drill', body: {} });
  t.strictSame(cloud.calls.at(-1)?.body, { uid: 'u1' });
  cloud.answer = () => problem(422, 'Nobody with this uid would be told');
  t.strictSame(await client.drill('u1', ALWAYS), { kind: 'begun', people: 0 });
  t.match(await client.drill(null, ALWAYS), { kind: 'refused' });
  for (const [answer, words] of [
    [HTML, /unexpected answer \(200/],
    [{ status: 202, body: {} }, BREAKS],
    [{ status: 202, body: { people: '3' } }, BREAKS],
    [{ status: 202, body: 'taken' }, /not from the cloud's API/],
    [{ status: 409, body: '<html>' }, /\(409\)/],
    [problem(503, 'Later'), /\(503: Later\)/],
    [problem(401, 'Who?'), /refuses this device's key/],
  ] as const) {
    cloud.answer = () => answer as CloudAnswer;
    t.match((await failureOf(client.drill(null, ALWAYS))).message, words);
  }
});

t.test('a huge answer is not read to its end', async (t) => {
  await using cloud = await fakeCloud();
  using made = clientOf(cloud);
  for (const [name, limit] of [
    ['heartbeat', CLOUD_ANSWER_BYTES_MAX],
    ['getDestinations', CLOUD_DOCUMENT_BYTES_MAX],
  ] as const) {
    const filled = (bytes: number) => ({
      status: 200,
      headers: { ETag: '"v2"' },
      body: `{"destinations":${name === 'heartbeat' ? '""' : '[]'}}`.padEnd(bytes),
    });
    const call = CALLS[name] as (client: CloudClient) => Promise<unknown>;
    cloud.answer = () => filled(limit);
    await call(made.client);
    cloud.answer = () => filled(limit + 1);
    const error = await failureOf(call(made.client));
    t.match(error.message, `larger than ${limit} bytes`);
  }
});

t.test('a mail goes out with its recipients, under its id, and is taken only under that id', async (t) => {
  await using cloud = await fakeCloud();
  using made = clientOf(cloud);
  const octets = 'Subject: Żółw\r\n\r\nx\r\n';
  const mail = {
    id: 'id-1',
    to: ['ann+x@example.com', 'jö@exämple.com'] as unknown as CloudMail['to'],
    ...{ size: Buffer.byteLength(octets), octets: Buffer.from(octets), timeoutMs: 60_000, answerMs: 60_000 },
  };
  const asked: { url?: string; headers?: object; text?: string } = {};
  let answer: [status: number, body: object] = [202, { id: 'id-1' }];
  await using server = await serve(async (req, res) => {
    let text = '';
    for await (const chunk of req) text += chunk;
    Object.assign(asked, { url: req.url, headers: req.headers, text });
    res.writeHead(answer[0], { 'Content-Type': 'application/json' }).end(JSON.stringify(answer[1]));
  });
  using other = clientOf(server);
  t.strictSame(await other.client.sendMail(mail, ALWAYS), { kind: 'taken', reply: '202 taken' });
  t.match(asked, {
    url: '/devices/pump-3/mails?to=ann%2Bx%40example.com&to=j%C3%B6%40ex%C3%A4mple.com',
    headers: {
      authorization: `Bearer ${KEY}`,
      'content-type': 'message/rfc822',
      'idempotency-key': 'id-1',
      'content-length': String(mail.size),
    },
    text: octets,
  });
  for (const [status, body, expected] of [
    [202, { id: 'id-2' }, { kind: 'later', status: 202, isReached: true }],
    [422, { detail: 'no' }, { kind: 'refused', reply: '422 no' }],
    [422, {}, { kind: 'later', status: 422 }],
    [
      501,
      { detail: 'no mails' },
      { kind: 'later', status: 501, reply: /does not do this \(501: no mails\)/ },
    ],
  ] as const) {
    answer = [status, body];
    t.match(await other.client.sendMail(mail, ALWAYS), expected);
  }
  cloud.answer = () => 'reset' as never;
  t.match(await made.client.sendMessage(SMS, ALWAYS), { kind: 'later', status: undefined, isReached: true });
});
