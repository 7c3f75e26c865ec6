/**
 * Random and mutilated HTTP: none is answered 500, nothing hangs, and the store has exactly the messages that
 * were answered with 202. FIELDPOST_TEST_LONG=1 makes it long, FIELDPOST_TEST_SEED repeats a run.
 */
// A process of its own: it takes long.
import { test } from 'tap';
import { SECOND_MS } from '../../src/base/limits.js';
import { EMAIL, MESSAGES, type RawClient, type TestApi } from '../support/api.js';
import { fuzz, type Heard, IS_LONG, mutilate, type Random } from '../support/fuzz.js';
import { pick } from '../support/random.js';

const CONNECTIONS = IS_LONG ? 60_000 : 3_000;
const PIECES = ['\r\n', '\n', '\0', ' ', ':', '%', '"', ']', '0', '\r\n\r\n'];

const METHODS = ['POST', 'POST', 'GET', 'HEAD', 'DELETE', 'PUT', 'OPTIONS', 'CONNECT', 'post', 'QUERY'];
const PATHS = [
  MESSAGES,
  MESSAGES,
  MESSAGES,
  `${MESSAGES}?status=queued&limit=3`,
  `${MESSAGES}?limit=%`,
  `${MESSAGES}/00000001`,
  `${MESSAGES}/00000001/retry`,
  `${MESSAGES}/%2e%2e/%00`,
  '/api/internal/queue/flush',
  '/api/internal/queue/purge',
  '/api/internal/state',
  '/api/internal/history?step=%',
  '/healthz',
  '/metrics',
  '*',
  'http://localhost/healthz',
];
const HEADERS = [
  'Host: localhost',
  'Host: 127.0.0.1:43770',
  'Host: evil.example',
  'Origin: null',
  'Sec-Fetch-Site: cross-site',
  'Content-Type: application/json',
  'Content-Type: application/json; charset=utf-16',
  'Content-Encoding: gzip',
  'Expect: 100-continue',
  'Expect: what',
  'Connection: close',
  'Connection: keep-alive, Upgrade',
  'Upgrade: websocket',
  'Transfer-Encoding: chunked',
  'Transfer-Encoding: gzip, chunked',
  'Content-Length: 3',
  'Content-Length: 99999999999999999999',
  'Idempotency-Key: a',
  'Idempotency-Key: b c',
  'X-Nothing:',
  'Cookie: \x01\xff',
];
const VALUES = [
  EMAIL,
  null,
  0,
  -1,
  1e308,
  '',
  'a@b.c',
  '\ud800',
  'x\r\ny',
  [],
  {},
  [EMAIL],
  true,
  'x'.repeat(2000),
];
const FIELDS = [
  'type',
  'destination',
  'subject',
  'plain',
  'html',
  'message',
  'app_data',
  '__proto__',
  'cc',
  '',
];

/** A body: mostly good messages, often with something put in that does not belong. */
function makeBody(random: Random): string {
  const messages = Array.from({ length: 1 + Math.floor(random() * 3) }, () => {
    if (random() < 0.7) return EMAIL;
    const odd: Record<string, unknown> = { ...EMAIL, type: pick(random, [1, 1, 2, 3, 4, 5, '1']) };
    odd[pick(random, FIELDS)] = pick(random, VALUES);
    return odd;
  });
  return JSON.stringify(random() < 0.9 ? messages : pick(random, VALUES)) ?? '';
}

/** A request: more often than not a good one to begin with. */
function makeRequest(random: Random): string {
  const body = makeBody(random);
  const chunked = random() < 0.2;
  const framing = chunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${Buffer.byteLength(body)}`;
  const isPlain = random() < 0.5;
  const method = isPlain ? 'POST' : pick(random, METHODS);
  const path = isPlain ? MESSAGES : pick(random, PATHS);
  const headers = ['Host: localhost', 'Content-Type: application/json', framing];
  while (random() < 0.4)
    headers.splice(Math.floor(random() * 4), Math.floor(random() * 2), pick(random, HEADERS));
  const sent = chunked ? `${Buffer.byteLength(body).toString(16)}\r\n${body}\r\n0\r\n\r\n` : body;
  return `${method} ${path} HTTP/1.${random() < 0.9 ? 1 : 0}\r\n${headers.join('\r\n')}\r\n\r\n${sent}`;
}

/** Every answer on a connection that has ended. One to HEAD has no body, whatever its length says. */
async function answersOf(client: RawClient): Promise<Heard[]> {
  const heard: Heard[] = [];
  while (client.rest !== '') {
    const [, next = ''] = client.rest.split('\r\n\r\n', 2);
    const { status, headers, json } = await client.answer(next === '' || next.startsWith('HTTP/1.1 '));
    const isNew = status === 202 && Array.isArray(json) && !('idempotency-replayed' in headers);
    heard.push({ status, queued: isNew ? json.length : 0 });
  }
  return heard;
}

/** Sends a few requests on one connection. */
async function tryOne(api: TestApi, random: Random): Promise<Heard[]> {
  const requests = Array.from({ length: 1 + Math.floor(random() ** 2 * 4) }, () => makeRequest(random));
  const bytes = Buffer.from(requests.join(''), 'utf8');
  await using client = await api.connect();
  client.socket.end(random() < 0.3 ? bytes : mutilate(random, bytes, PIECES));
  // Node reports no broken chunk behind an Upgrade: only the timeout ends such a request.
  const pauses = setInterval(() => void api.clock.advance(SECOND_MS), 50);
  await client.ended;
  clearInterval(pauses);
  return await answersOf(client);
}

test(`mutated requests are answered, never with a 500 (${CONNECTIONS} connections)`, async (t) => {
  const settings = { maxBodyBytes: 3000, maxBatch: 2 };
  const statuses = [202, 400, 403, 404, 405, 413, 415, 422];
  await fuzz(t, { settings, tries: CONNECTIONS, statuses }, tryOne);
});
