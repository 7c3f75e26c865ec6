/** The HTTP of the local API (local-api §4, §5): limits, refusals, timeouts, odd clients, and the stop. */
import { once } from 'node:events';
import { type Test, test } from 'tap';
import type { ErrorCode } from '../../src/base/errors.js';
import { CONNECTIONS_MAX, REFUSED_LINGER_MS } from '../../src/base/http/connection.js';
import {
  ANSWERS_BYTES_MAX,
  BODIES_BYTES_MAX,
  CONNECTIONS_WAITING_MAX,
  NEW_CONNECTION_MS,
  PLACE_WAIT_MS,
} from '../../src/base/http/connections.js';
import { KEEP_ALIVE_MS } from '../../src/base/http/http.js';
import {
  HEADER_SECTION_BYTES_MAX,
  HEADERS_TIMEOUT_MS,
  MIB,
  REQUEST_IDLE_MS,
  REQUEST_TIMEOUT_MS,
  SECOND_MS,
} from '../../src/base/limits.js';
import {
  type Answer,
  EMAIL,
  isProblem,
  MESSAGES,
  type RawClient,
  requestText,
  startApi,
  type TestApi,
} from '../support/api.js';
import { settled } from '../support/clock.js';
import { socketPath } from '../support/short-directory.js';
import { stall } from '../support/stall.js';

const JSON_TYPE = { 'Content-Type': 'application/json' };
const GOOD = JSON.stringify([EMAIL]);
const SHORT_PATIENCE = { headersMs: 50, requestMs: 50, checkMs: 10 };

const postText = (bodyBytes: number, headers: Record<string, string> = {}) =>
  requestText('POST', MESSAGES, { ...JSON_TYPE, ...headers }, bodyBytes);

const GOOD_POST = postText(GOOD.length) + GOOD;

/** The client gets this problem, and its connection is then ended without a reset or anything more. */
async function isRefused(t: Test, client: RawClient, status: number, code: ErrorCode): Promise<Answer> {
  const answer = await client.answer();
  isProblem(t, answer, status, code);
  t.equal(await client.ended, false);
  t.equal(client.rest, '');
  return answer;
}

/** Every place is taken by a client whose request is heard and, until `release` is called, not answered. */
async function takeAllPlaces(api: TestApi): Promise<{ clients: RawClient[]; release: () => void }> {
  const { arrived, release } = stall(api.disk);
  const clients = await connectAll(api, CONNECTIONS_MAX);
  for (const client of clients) client.write(GOOD_POST);
  await arrived;
  for (const client of clients) await api.heard(client);
  return { clients, release };
}

test('paths and methods', async (t) => {
  await using api = await startApi();
  for (const path of [
    '/api',
    `${MESSAGES}/`,
    `${MESSAGES}//`,
    `${MESSAGES}/a/b`,
    '/api%2Finternal%2Fmessages',
    '*',
    '//healthz',
    '/HEALTHZ',
  ]) {
    isProblem(t, await api.call('GET', path), 404, 'not-found');
  }
  for (const path of [
    '/healthz?x=%',
    '/%68ealthz',
    'http://localhost/healthz',
    'HTTP://127.0.0.1:1/healthz?x',
  ]) {
    t.equal((await api.call('GET', path)).status, 200, path);
  }
  t.equal((await api.call('GET', '/api/internal/mess%61ges')).status, 200);
  for (const path of ['/%', '/%zz', `${MESSAGES}/%ff`]) {
    isProblem(t, await api.call('GET', path), 400, 'malformed-request');
  }
  isProblem(t, await api.call('GET', 'ftp://localhost/healthz'), 400, 'malformed-request');
  const allowed: [string, string][] = [
    [MESSAGES, 'POST, GET, HEAD, DELETE'],
    [`${MESSAGES}/x`, 'GET, HEAD, DELETE'],
    [`${MESSAGES}/x/retry`, 'POST'],
    ['/api/internal/queue/flush', 'POST'],
    ['/api/internal/queue/purge', 'POST'],
    ['/healthz', 'GET, HEAD'],
  ];
  for (const [path, allow] of allowed) {
    for (const method of ['PUT', 'PATCH', 'OPTIONS', 'TRACE']) {
      const answer = await api.call(method, path);
      isProblem(t, answer, 405, 'method-not-allowed');
      t.equal(answer.headers.allow, allow);
    }
  }
  isProblem(t, await api.call('CONNECT', 'example.com:443'), 405, 'method-not-allowed');
});

test('HEAD is GET without the body', async (t) => {
  await using api = await startApi();
  await api.post([EMAIL]);
  for (const path of [
    MESSAGES,
    `${MESSAGES}/00000001`,
    `${MESSAGES}/nope`,
    '/healthz',
    '/openapi.json',
    '/none',
  ]) {
    const get = await api.call('GET', path);
    await using client = await api.connect();
    client.write(requestText('HEAD', path, { Connection: 'close' }));
    const head = await client.answer(true);
    await client.ended;
    t.equal(head.status, get.status, path);
    for (const name of ['content-type', 'content-length']) t.equal(head.headers[name], get.headers[name]);
    t.equal(client.rest, '');
  }
});

test('every answer has its length and no header that tells or allows too much', async (t) => {
  await using api = await startApi();
  for (const answer of [
    await api.post([EMAIL]),
    await api.call('GET', '/healthz'),
    await api.call('GET', '/x'),
  ]) {
    t.match(answer.headers, { date: /GMT$/, 'x-content-type-options': 'nosniff' });
    t.equal(answer.headers['content-length'], String(Buffer.byteLength(answer.body)));
    t.notOk('x-powered-by' in answer.headers || 'server' in answer.headers);
    t.notOk(Object.keys(answer.headers).some((name) => name.startsWith('access-control-')));
  }
});

test('one connection serves many requests, also pipelined ones in their order', async (t) => {
  await using api = await startApi();
  await using client = await api.connect();
  const ids: string[] = [];
  for (let i = 0; i < 3; i++) {
    client.write(GOOD_POST);
    ids.push((await client.answer()).json[0].id);
  }
  t.same([...new Set(ids)].sort(), ids);
  client.write(
    requestText('POST', '/api/internal/queue/hold') +
      requestText('GET', '/healthz') +
      postText(1) +
      '{' +
      requestText('GET', '/none'),
  );
  const statuses = [];
  for (let i = 0; i < 4; i++) statuses.push((await client.answer()).status);
  t.same(statuses, [202, 200, 400, 404]);
  const { arrived, release } = stall(api.disk);
  client.write(GOOD_POST.repeat(20));
  await arrived;
  await settled();
  release();
  const answers = [];
  for (let i = 0; i < 17; i++) answers.push((await client.answer()).status);
  t.same(answers.slice(0, 16), Array(16).fill(202));
  t.equal(answers[16], 503, 'more than 16 at once are told to wait');
  t.equal(await client.ended, false);
  t.equal(client.rest, '', 'and nothing that follows is taken');
});

test('a body in two pieces, and byte by byte', async (t) => {
  await using api = await startApi();
  await using client = await api.connect();
  client.socket.setNoDelay(true);
  for (const byte of GOOD_POST) {
    client.write(byte);
    await settled();
  }
  t.equal((await client.answer()).status, 202);
  client.write(requestText('POST', MESSAGES, { ...JSON_TYPE, 'Transfer-Encoding': 'chunked' }));
  for (const part of [GOOD.slice(0, 9), GOOD.slice(9)]) {
    client.write(`${part.length.toString(16)}\r\n${part}\r\n`);
    await settled();
  }
  client.write('0\r\n\r\n');
  t.equal((await client.answer()).status, 202);
  client.write(GOOD_POST);
  t.equal((await client.answer()).status, 202, 'and the connection is still good');
});

test('a body of exactly the limit, and one byte more', async (t) => {
  const limit = 1000;
  await using api = await startApi({ settings: { maxBodyBytes: limit } });
  const exact = GOOD.padEnd(limit);
  t.equal((await api.call('POST', MESSAGES, { headers: JSON_TYPE, body: exact })).status, 202);
  const chunked = { ...JSON_TYPE, 'Transfer-Encoding': 'chunked' };
  for (const extra of ['', ' ']) {
    await using client = await api.connect();
    const bytes = exact + extra;
    client.write(
      `${requestText('POST', MESSAGES, chunked)}${bytes.length.toString(16)}\r\n${bytes}\r\n0\r\n\r\n`,
    );
    const answer = await client.answer();
    if (extra === '') t.equal(answer.status, 202, 'chunked, exactly');
    else isProblem(t, answer, 413, 'too-large');
  }
  await using client = await api.connect();
  client.write(postText(limit + 1));
  const refused = await isRefused(t, client, 413, 'too-large');
  t.match(refused.json.detail, /1000 bytes \(FIELDPOST_MAX_BODY\)/, 'names the limit and its value');
  t.equal(refused.headers.connection, 'close', 'refused before a byte of it was sent');
  t.equal(api.size, 2);
});

test('a client that is refused and writes on can still read its answer', async (t) => {
  const LATER_BYTES = 20 * MIB;
  let streamedBytes = 0;
  let read: () => void = () => undefined;
  const enough = new Promise<void>((resolve) => (read = resolve));
  await using api = await startApi({
    streamed(bytes) {
      streamedBytes += bytes;
      if (streamedBytes > LATER_BYTES) read();
    },
  });
  await using client = await api.connect();
  client.socket.pause();
  client.write(postText(50 * MIB));
  const gone = once(client.socket, 'error').then(([error]) => error);
  const chunk = Buffer.alloc(2 ** 16, 0x20);
  const flood = () => client.socket.write(chunk, (failed) => !failed && flood());
  flood();
  await enough;
  client.socket.resume();
  await isRefused(t, client, 413, 'too-large');
  await api.clock.advance(REFUSED_LINGER_MS);
  t.match(await gone, { code: /ECONNRESET|EPIPE/ }, 'it does so for 2 s');
});

test('a refused client that does not close is disconnected after 2 s', async (t) => {
  await using api = await startApi();
  await using client = await api.connect();
  client.write(postText(50 * 2 ** 20));
  await isRefused(t, client, 413, 'too-large');
  client.write(' '.repeat(100));
  await api.clock.advance(REFUSED_LINGER_MS - 1);
  t.equal(api.clock.pending, 1, 'still looked after');
  await api.clock.advance(1);
  t.equal(api.clock.pending, 0, 'and no timer is left');
  // Its next bytes meet a closed connection.
  const writing = setInterval(() => client.write(' '), 1);
  const [error] = await once(client.socket, 'error');
  t.match(error, { code: /ECONNRESET|EPIPE/ });
  clearInterval(writing);
});

test('Expect: 100-continue is judged before the body', async (t) => {
  await using api = await startApi();
  const expect = { Expect: '100-continue' };
  await using client = await api.connect();
  client.write(postText(GOOD.length, expect));
  t.equal((await client.answer()).status, 100);
  client.write(GOOD);
  t.equal((await client.answer()).status, 202);
  const refusals: [Record<string, string>, number, ErrorCode][] = [
    [{ 'Content-Length': String(2 ** 20 + 1) }, 413, 'too-large'],
    [{ 'Content-Type': 'text/plain' }, 415, 'unsupported-media-type'],
    [{ Host: 'evil.example' }, 403, 'not-local'],
    [{ 'Idempotency-Key': 'a b' }, 400, 'malformed-request'],
  ];
  for (const [headers, status, code] of refusals) {
    await using refused = await api.connect();
    refused.write(postText(GOOD.length, { ...expect, ...headers }));
    await isRefused(t, refused, status, code);
  }
  await using odd = await api.connect();
  odd.write(postText(GOOD.length, { Expect: 'miracles' }) + GOOD);
  t.equal((await odd.answer()).status, 202, 'other expectations are none of ours');
});

test('a client that closes early leaves nothing behind', async (t) => {
  await using api = await startApi();
  for (const end of ['end', 'destroy', 'resetAndDestroy'] as const) {
    const client = await api.connect();
    client.write(postText(GOOD.length) + GOOD.slice(0, -1));
    await settled();
    client.socket[end]();
    if (end === 'end') {
      const answer = await client.answer();
      isProblem(t, answer, 400, 'malformed-request');
      t.match(answer.json.detail, /cut short/);
    }
    await client[Symbol.asyncDispose]();
  }
  const cutShort = () => api.lines.filter((line) => /request refused .*malformed-request/.test(line));
  while (cutShort().length < 3) await settled();
  t.equal((await api.post([EMAIL])).status, 202);
  t.equal(api.size, 1);
  t.same(api.errors, [], 'nothing of it is a fault of ours');
});

test('a good request is answered, whatever follows it', async (t) => {
  await using api = await startApi();
  const cutShort = postText(GOOD.length) + GOOD.slice(0, -1);
  const garbage = 'garbage\r\n\r\n';
  for (const rest of ['', garbage, cutShort]) {
    await using client = await api.connect();
    const { arrived, release } = stall(api.disk);
    client.write(GOOD_POST + rest);
    if (rest !== garbage) client.socket.end();
    await arrived;
    await settled();
    release();
    t.equal((await client.answer()).status, 202);
    if (rest !== '') isProblem(t, await client.answer(), 400, 'malformed-request', rest);
    t.equal(await client.ended, false);
  }
  t.equal(api.size, 3);
});

test('requests that are not HTTP', async (t) => {
  await using api = await startApi();
  const chunked = postText(0, { 'Transfer-Encoding': 'chunked' });
  const malformed = [
    'hello\r\n\r\n',
    '\0\0\0\0',
    'GET /healthz HTTP/9.9\r\n\r\n',
    'GET /healthz HTTP/1.1\r\nHo st: localhost\r\n\r\n',
    'GET /healthz HTTP/1.1\nHost: localhost\n\n',
    postText(5, { 'Content-Length': '-5' }),
    postText(5, { 'Content-Length': '5, 6' }),
    postText(5, { 'Content-Length': '5', 'content-length': '6' }),
    `${postText(5, { 'Transfer-Encoding': 'chunked' })}0\r\n\r\n`,
    `${postText(0, { 'Transfer-Encoding': 'gzip' })}x`,
    `${chunked}zz\r\n`,
  ];
  for (const bytes of malformed) {
    t.comment(JSON.stringify(bytes));
    await using client = await api.connect();
    client.write(bytes);
    await isRefused(t, client, 400, 'malformed-request');
  }
  const filler = 'x'.repeat(HEADER_SECTION_BYTES_MAX);
  for (const bytes of [
    requestText('GET', '/healthz', { 'X-Long': filler }),
    requestText('GET', `/${filler}`),
  ]) {
    await using client = await api.connect();
    client.write(bytes);
    await isRefused(t, client, 431, 'headers-too-large');
  }
  t.equal(api.size, 0);
  const long = { 'X-Long': filler.slice(200) };
  t.equal((await api.call('GET', '/healthz', { headers: long })).status, 200, 'up to the limit is fine');
});

test('nothing that follows a refused request is carried out', async (t) => {
  await using api = await startApi();
  await using client = await api.connect();
  const padded = ' '.repeat(2 ** 20 + 1);
  client.write(postText(padded.length) + padded + GOOD_POST);
  await isRefused(t, client, 413, 'too-large');
  // A body where none belongs is not read as a request either.
  await using smuggler = await api.connect();
  const flush = requestText('POST', '/api/internal/queue/flush', {}, GOOD_POST.length);
  smuggler.write(flush + GOOD_POST + GOOD_POST);
  t.equal((await smuggler.answer()).status, 202);
  t.equal(await smuggler.ended, false);
  t.equal(smuggler.rest, '');
  t.equal(api.size, 0);
});

test('a body that stalls is a 408', async (t) => {
  await using api = await startApi();
  await using client = await api.connect();
  client.write(postText(GOOD.length) + GOOD[0]);
  await untilReceiving(api);
  // One byte every 25 s is slow, but it is something.
  for (const byte of GOOD.slice(1, 8)) {
    client.write(byte);
    await settled();
    await api.clock.advance(REQUEST_IDLE_MS - 5 * SECOND_MS);
  }
  t.equal(client.rest, '');
  await api.clock.advance(REQUEST_IDLE_MS);
  while (client.rest === '') await api.clock.advance(SECOND_MS);
  await isRefused(t, client, 408, 'timeout');
  t.equal(api.size, 0);
  await api.clock.advance(REFUSED_LINGER_MS);
  t.equal(api.clock.pending, 0, 'the sweep has ended');
});

test('headers and whole requests have a deadline', async (t) => {
  await using plain = await startApi();
  const server = plain.api.makeServer('tcp');
  t.match(server, {
    headersTimeout: HEADERS_TIMEOUT_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    timeout: 2 * REQUEST_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
  });
  await using api = await startApi({ patience: SHORT_PATIENCE });
  for (const bytes of ['GET /healthz HTTP/1.1\r\nHo', postText(GOOD.length) + GOOD.slice(0, 5)]) {
    await using client = await api.connect();
    client.write(bytes);
    await overdue(api, client);
    await isRefused(t, client, 408, 'timeout');
  }
  await using silent = await api.connect();
  await overdue(api, silent);
  isProblem(t, await silent.answer(), 408, 'timeout');
});

/** Lets time pass until the client has an answer: node:http's own, and the daemon's clock with it. */
async function overdue(api: TestApi, client: RawClient): Promise<void> {
  while (client.socket.bytesRead === 0) {
    await settled();
    await api.clock.advance(1);
  }
}

test('what came while the process stood still is read before its time is judged', async (t) => {
  const patience = { headersMs: 50, requestMs: 500, checkMs: 10 };
  await using api = await startApi({ patience });
  const half = GOOD_POST.length / 2;
  for (const [early, late] of [
    ['', GOOD_POST],
    [GOOD_POST.slice(0, half), GOOD_POST.slice(half)],
    ['GET /healthz HTT', 'P/1.1\r\n\r\n'],
  ] as const) {
    await using client = await api.connect();
    while (api.timeoutMsOf(client) === 0) await settled();
    if (early !== '') client.write(early);
    await api.heard(client);
    client.write(late);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1.4 * patience.requestMs);
    t.match(await client.answer(), { status: /^20[02]$/ }, `after ${early.length} bytes`);
    await api.clock.advance(patience.checkMs);
    await isHealthy(t, client);
  }
});

/** So many connections, each of which has asked for nothing yet. */
function connectAll(api: TestApi, count: number): Promise<RawClient[]> {
  return Promise.all(Array.from({ length: count }, () => api.connect()));
}

const dispose = (clients: readonly RawClient[]) =>
  Promise.all(clients.map((client) => client[Symbol.asyncDispose]()));

async function isHealthy(t: Test, client: RawClient): Promise<void> {
  client.write(requestText('GET', '/healthz'));
  t.equal((await client.answer()).status, 200);
}

test('without a free place the longest idle connection is closed, never one with a request in progress', async (t) => {
  await using api = await startApi();
  const clients = await connectAll(api, CONNECTIONS_MAX);
  for (const client of clients) await isHealthy(t, client);
  const { arrived, release } = stall(api.disk);
  clients[0]?.write(GOOD_POST);
  await arrived;
  await using late = await api.connect();
  late.write(requestText('GET', '/healthz'));
  await api.clock.advance(SECOND_MS - 1);
  t.equal(late.rest, '', 'what was used within a second may be about to be used again');
  await api.clock.advance(SECOND_MS);
  t.equal((await late.answer()).status, 200);
  await clients[1]?.ended;
  release();
  t.equal((await clients[0]?.answer())?.status, 202);
  await isHealthy(t, clients[2] as RawClient);
  await dispose(clients);
});

test('a stalled body gives its place away and is answered 408', async (t) => {
  await using api = await startApi();
  const clients = await connectAll(api, CONNECTIONS_MAX);
  for (const client of clients) client.write(postText(GOOD.length));
  for (const client of clients) await api.heard(client);
  // All but the first two send something now and then.
  await api.clock.advance(SECOND_MS / 2);
  for (const client of clients.slice(2)) client.write(GOOD[0] as string);
  for (const client of clients) await api.heard(client);
  await api.clock.advance(SECOND_MS / 2);
  await using late = await api.connect();
  await isHealthy(t, late);
  const gone = await Promise.race(clients.map((client) => client.answer()));
  isProblem(t, gone, 408, 'timeout');
  t.match(gone.json.detail, /in use/);
  t.equal(clients.slice(2).filter(({ rest }) => rest !== '').length, 0, 'it was one of those silent longest');
  for (const client of clients.slice(2)) client.write(GOOD.slice(1));
  for (const client of clients.slice(2)) t.equal((await client.answer()).status, 202);
  await dispose(clients);
});

test('half a header gives its place away, too', async (t) => {
  await using api = await startApi();
  const clients = await connectAll(api, CONNECTIONS_MAX);
  for (const client of clients) client.write('GET /healthz HTTP/1.1\r\nHo');
  for (const client of clients) await api.heard(client);
  await api.clock.advance(SECOND_MS);
  await using late = await api.connect();
  await isHealthy(t, late);
  isProblem(t, await Promise.race(clients.map((client) => client.answer())), 408, 'timeout');
  await dispose(clients);
});

test('a client without a place waits, unread, and is then answered 503', async (t) => {
  await using api = await startApi();
  const { clients, release } = await takeAllPlaces(api);
  const waiting = await connectAll(api, CONNECTIONS_WAITING_MAX);
  for (const client of waiting) client.write(GOOD_POST);
  await using tooMany = await api.connect();
  const refused = await isRefused(t, tooMany, 503, 'busy');
  t.equal(refused.headers['retry-after'], '1');
  await api.clock.advance(PLACE_WAIT_MS - SECOND_MS);
  t.equal(waiting.filter((client) => api.readOf(client) > 0 || client.rest !== '').length, 0);
  // The first half leaves before its time has come: nothing is left of it.
  await dispose(waiting.splice(0, CONNECTIONS_WAITING_MAX / 2));
  await api.clock.advance(2 * SECOND_MS);
  for (const client of waiting) {
    const refused = await client.answer();
    isProblem(t, refused, 503, 'busy');
    t.equal(refused.headers['retry-after'], '1');
  }
  release();
  for (const client of clients) t.equal((await client.answer()).status, 202);
  t.equal(api.size, CONNECTIONS_MAX);
  await dispose([...waiting, ...clients]);
});

test('a waiting client gets a place as soon as one is free', async (t) => {
  await using api = await startApi();
  const { arrived, release } = stall(api.disk);
  const clients = await connectAll(api, CONNECTIONS_MAX + 100);
  for (const client of clients) client.write(GOOD_POST);
  await arrived;
  release();
  const answers = await Promise.all(clients.map((client) => client.answer()));
  t.same([...new Set(answers.map(({ status }) => status))], [202], 'without any time going by');
  const closed = answers.filter(({ headers }) => headers.connection === 'close').length;
  t.ok(closed >= 100, `nobody keeps a connection for which others wait: ${closed}`);
  t.equal(api.size, CONNECTIONS_MAX + 100);
  await dispose(clients);
});

test('a stop answers the clients that wait for a place', async (t) => {
  await using api = await startApi();
  const { clients, release } = await takeAllPlaces(api);
  const [waiting] = (await connectAll(api, 1)) as [RawClient];
  waiting.write(GOOD_POST);
  const stopped = api.api.stop(10 * SECOND_MS);
  await api.clock.advance(NEW_CONNECTION_MS);
  isProblem(t, await waiting.answer(), 503, 'stopping');
  release();
  for (const client of clients) t.equal((await client.answer()).status, 202);
  await api.clock.advance(REFUSED_LINGER_MS);
  await dispose([...clients, waiting]);
  await stopped;
});

test('unread answers count as memory, and the oldest are given up first', async (t) => {
  // The kernel buffers little of a unix socket.
  await using api = await startApi({ listen: { kind: 'unix', path: socketPath(t) } });
  const destination = `${'a'.repeat(64)}@${'b'.repeat(60)}.${'c'.repeat(60)}.example.com`;
  for (let i = 0; i < 10; i++) await api.post(Array(100).fill({ ...EMAIL, destination }));
  const ask = requestText('GET', `${MESSAGES}?limit=1000`);
  const pageBytes = (await api.call('GET', `${MESSAGES}?limit=1000`)).body.length;
  let lists = 0;
  const { list } = api.store;
  api.store.list = (query) => {
    lists++;
    return list.call(api.store, query);
  };
  const clients: RawClient[] = [];
  while ((clients.length + 2) * pageBytes <= ANSWERS_BYTES_MAX) {
    const client = await api.connect();
    clients.push(client);
    client.socket.pause();
    client.write(ask.repeat(16));
    while (lists < clients.length) await settled();
  }
  for (let i = 0; i < 5; i++) await settled();
  t.equal(lists, clients.length, 'nothing more is done for a client that has an answer to read');
  // The room that is left is less than a page.
  await using reader = await api.connect();
  reader.socket.pause();
  reader.write(ask);
  while (lists < clients.length + 1) await settled();
  await using good = await api.connect();
  good.write(ask);
  const refused = await good.answer();
  isProblem(t, refused, 503, 'busy');
  t.equal(refused.headers['retry-after'], '1');
  await isHealthy(t, good);
  t.equal((await api.post([EMAIL])).status, 202, 'and messages are taken all the time');
  await api.clock.advance(SECOND_MS);
  good.write(ask);
  t.equal((await good.answer()).status, 200);
  clients[0]?.socket.resume();
  await clients[0]?.ended;
  reader.socket.resume();
  t.equal((await reader.answer()).status, 200, 'one of them was enough');
  await dispose(clients);
});

test('a broken connection gives back the memory of its pipelined requests', async (t) => {
  await using api = await startApi();
  const padded = GOOD.padEnd(2 ** 20);
  for (let i = 0; i < BODIES_BYTES_MAX / 2 ** 20; i++) {
    const { arrived, release } = stall(api.disk);
    const client = await api.connect();
    client.write((postText(padded.length) + padded).repeat(2));
    await arrived;
    client.socket.resetAndDestroy();
    await client[Symbol.asyncDispose]();
    release();
  }
  t.equal((await api.call('POST', MESSAGES, { headers: JSON_TYPE, body: padded })).status, 202);
});

test('a flood of pipelined requests ends the connection', async (t) => {
  await using api = await startApi();
  const { arrived, release } = stall(api.disk);
  await using client = await api.connect();
  client.write(GOOD_POST);
  await arrived;
  client.write('GET / HTTP/1.1\r\n\r\n'.repeat(3000));
  await client.ended;
  t.equal(client.rest, '', 'unanswered');
  release();
});

test('a stop answers the first request of new connections for 1 s', async (t) => {
  await using api = await startApi();
  await using quick = await api.connect();
  await using mute = await api.connect();
  await using used = await api.connect();
  used.write(requestText('GET', '/healthz'));
  await used.answer();
  const stopped = api.api.stop(10 * SECOND_MS);
  await used.ended;
  quick.write(GOOD_POST);
  const answer = await quick.answer();
  t.match(answer, { status: 202, headers: { connection: 'close' } }, 'its connection was taken before');
  await api.clock.advance(NEW_CONNECTION_MS);
  await mute.ended;
  for (const client of [quick, mute]) await client[Symbol.asyncDispose]();
  await stopped;
});

test('a stop finishes the requests in progress and refuses new ones', async (t) => {
  await using api = await startApi();
  const [idle, busy, slow] = await Promise.all([api.connect(), api.connect(), api.connect()]);
  idle.write(requestText('GET', '/healthz'));
  await idle.answer();
  const { arrived, release } = stall(api.disk);
  busy.write(GOOD_POST);
  await arrived;
  slow.write(postText(GOOD.length, { Expect: '100-continue' }));
  t.equal((await slow.answer()).status, 100);
  let isStopped = false;
  const stopped = api.api.stop(10 * SECOND_MS).then(() => {
    isStopped = true;
  });
  await idle.ended;
  slow.write(GOOD + GOOD_POST);
  busy.write(requestText('GET', '/healthz'));
  release();
  const answer = await busy.answer();
  t.equal(answer.status, 202);
  t.equal((await slow.answer()).status, 202, 'a body that was on its way is still taken');
  t.equal(await slow.ended, false);
  t.equal(slow.rest, '', 'what was pipelined behind it is not');
  t.notOk(isStopped);
  await using late = await api.connect();
  late.write(requestText('GET', '/healthz'));
  const refused = await isRefused(t, late, 503, 'stopping');
  t.match(refused.headers, { 'retry-after': /^\d+$/, connection: 'close' });
  for (const client of [busy, slow, late]) await client[Symbol.asyncDispose]();
  await stopped;
  t.equal(api.size, 2);
});

test('a stop has a deadline', async (t) => {
  await using api = await startApi();
  await using client = await api.connect();
  client.write(postText(GOOD.length) + GOOD[0]);
  await untilReceiving(api);
  const stopped = api.api.stop(10 * SECOND_MS);
  await api.clock.advance(10 * SECOND_MS);
  await stopped;
  await client.ended;
  t.equal(api.size, 0);
});

test('a program that speaks HTTP/1.0 and sends no Host', async (t) => {
  await using api = await startApi();
  await using old = await api.connect();
  old.write(
    `POST ${MESSAGES} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: ${GOOD.length}\r\n\r\n${GOOD}`,
  );
  t.equal((await old.answer()).status, 202);
  t.equal(await old.ended, false);
});

/** Resolves when the api waits for more of a body: it then has set the timer of its sweep. */
async function untilReceiving(api: TestApi): Promise<void> {
  while (api.clock.pending === 0) await settled();
}
