/** Requests over real sockets: deadlines, TLS, connections that are kept and those that died meanwhile. */
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import t from 'tap';
import { DAY_MS, KIB, SECOND_MS } from '../../src/base/limits.js';
import { type ConnectOptions, createConnect } from '../../src/base/system/connect.js';
import {
  type HttpAnswer,
  type HttpRequest,
  type HttpsOptions,
  openHttps,
} from '../../src/base/system/https.js';
import { blackHoles } from '../support/black-holes.js';
import { makeCertificate } from '../support/certificate.js';
import { FakeClock } from '../support/clock.js';
import { type CloudAnswer, DEVICE, type FakeCloud, fakeCloud } from '../support/cloud.js';
import { until } from '../support/delivery.js';
import { serve } from '../support/serve.js';

const OK: CloudAnswer = { status: 200, body: { id: '1' } };
const NONE = { ca: null, clientCertificate: null };

/** A request to a cloud that always answers `OK` unless it is told otherwise. */
function open(
  cloud: { url: string },
  { lookup, ...options }: Partial<HttpsOptions> & Pick<ConnectOptions, 'lookup'> = {},
) {
  const clock = new FakeClock();
  const connect = createConnect({ clock, ...(lookup && { lookup }) });
  const https = openHttps({ ...NONE, clock, connect, ...options });
  const send = (more: Partial<HttpRequest> = {}): Promise<HttpAnswer> =>
    https.send({
      method: 'PUT',
      url: `${cloud.url}/devices/${DEVICE}/heartbeat`,
      headers: {},
      body: '{}',
      timeoutMs: 15_000,
      answerBytesMax: 1000,
      signal: new AbortController().signal,
      ...more,
    });
  return { send, clock, [Symbol.dispose]: () => https.close() };
}

const connectionsOf = ({ calls }: FakeCloud) => calls.map(({ connection }) => connection);

async function cloudThatAnswers(tls?: Parameters<typeof fakeCloud>[0]): Promise<FakeCloud> {
  const cloud = await fakeCloud(tls);
  cloud.answer = () => OK;
  return cloud;
}

t.test('a deadline ends every phase that hangs, names what is missing, and leaves no timer', async (t) => {
  await using cloud = await cloudThatAnswers();
  using made = open(cloud);
  for (const [how, words] of [
    ['silence', /^no answer within 15 s$/],
    ['trickle', /^no (?:whole )?answer within 15 s$/],
  ] as const) {
    cloud.answer = () => how;
    const before = cloud.calls.length;
    const call = made.send();
    await until(() => cloud.calls.length > before);
    const rejected = t.rejects(call, { code: 'DEADLINE', message: words, isReached: true });
    await made.clock.advance(15_000);
    await rejected;
    t.equal(made.clock.pending, 0);
  }
  cloud.answer = () => OK;
  await made.send();
  t.equal(made.clock.pending, 0);
});

t.test('a call that is given up ends at once', async (t) => {
  await using cloud = await cloudThatAnswers();
  using made = open(cloud);
  cloud.answer = () => 'silence';
  const control = new AbortController();
  const call = made.send({ signal: control.signal });
  await until(() => cloud.calls.length === 1);
  control.abort();
  await t.rejects(call, { code: 'ABORT_ERR' });
  await t.rejects(made.send({ signal: control.signal }), { code: 'ABORT_ERR' }, 'also before it began');
  t.equal(made.clock.pending, 0);
});

t.test('one connection serves call after call', async (t) => {
  await using cloud = await cloudThatAnswers();
  using made = open(cloud);
  for (let n = 0; n < 3; n++) await made.send();
  t.same(connectionsOf(cloud), [1, 1, 1]);
});

t.test('a kept connection that the cloud resets at the next request is no failure', async (t) => {
  await using cloud = await cloudThatAnswers();
  using made = open(cloud);
  await made.send();
  cloud.answer = ({ connection }) => (connection === 1 ? 'reset' : OK);
  t.equal((await made.send()).status, 200);
  t.same(connectionsOf(cloud), [1, 1, 2]);
  cloud.answer = () => 'reset';
  await t.rejects(made.send(), { code: 'ECONNRESET' }, 'but a fresh one is');
  t.equal(cloud.calls.length, 5, 'and is tried once');
});

t.test('a request that must not be sent twice is not, also if the kept connection is reset', async (t) => {
  await using cloud = await cloudThatAnswers();
  using made = open(cloud);
  await made.send({ isOnce: true });
  cloud.answer = ({ connection }) => (connection === 1 ? 'reset' : OK);
  await t.rejects(made.send({ isOnce: true }), { code: 'STALE', isReached: true });
  t.same(connectionsOf(cloud), [1, 1]);
  t.equal((await made.send({ isOnce: true })).status, 200);
  t.same(connectionsOf(cloud), [1, 1, 2]);
});

t.test('after a failure no idle connection is trusted', async (t) => {
  await using cloud = await cloudThatAnswers();
  using made = open(cloud);
  await Promise.all([made.send(), made.send()]);
  cloud.answer = () => 'silence';
  const call = made.send();
  await until(() => cloud.calls.length === 3);
  const rejected = t.rejects(call, { code: 'DEADLINE' });
  await made.clock.advance(15_000);
  await rejected;
  cloud.answer = () => OK;
  await made.send();
  t.equal(cloud.calls.at(-1)?.connection, 3);
});

t.test('a stream is handed over as it comes, past the deadline and the size limit', async (t) => {
  let res: ServerResponse | undefined;
  await using server = await serve((_, answer) => {
    res = answer;
    answer.write('one');
  });
  using made = open(server);
  const chunks: string[] = [];
  const stream = (chunk: Buffer) => void chunks.push(chunk.toString());
  const call = made.send({ stream, answerBytesMax: 5 });
  await until(() => chunks.length === 1);
  t.equal(made.clock.pending, 0, 'the deadline is for the head');
  await made.clock.advance(DAY_MS);
  res?.write('and two');
  await until(() => chunks.join('') === 'oneand two');
  res?.end();
  const { status, body } = await call;
  t.strictSame([status, body.length], [200, 0]);
});

t.test('a stream that never begins, is cut, or is given up, rejects', async (t) => {
  await using cloud = await cloudThatAnswers();
  using made = open(cloud);
  let bytes = 0;
  const stream = (chunk: Buffer) => {
    bytes += chunk.length;
  };
  cloud.answer = () => 'silence';
  const late = t.rejects(made.send({ stream }), { code: 'DEADLINE' });
  await until(() => cloud.calls.length === 1);
  await made.clock.advance(15_000);
  await late;
  cloud.answer = () => 'cut';
  await t.rejects(made.send({ stream }), { code: 'CUT_SHORT' });
  t.ok(bytes > 0, 'after what came');
  cloud.answer = () => 'trickle';
  bytes = 0;
  const control = new AbortController();
  const given = t.rejects(made.send({ stream, signal: control.signal }), { code: 'ABORT_ERR' });
  await until(() => bytes > 0);
  control.abort();
  await given;
  t.equal(made.clock.pending, 0);
});

t.test('TLS: a private CA, a wrong name, a stranger, dates', async (t) => {
  const ca = makeCertificate({ name: 'Test CA' });
  const good = makeCertificate({ name: 'cloud', hosts: ['127.0.0.1', 'localhost'], issuer: ca });
  const other = makeCertificate({ name: 'cloud', hosts: ['cloud.example'], issuer: ca });
  const cloudFrom = (fromDays: number, untilDays: number) =>
    makeCertificate({
      name: 'cloud',
      hosts: ['127.0.0.1'],
      issuer: ca,
      fromMs: Date.now() + fromDays * DAY_MS,
      untilMs: Date.now() + untilDays * DAY_MS,
    });
  const cases = [
    [good, ca.cert, null],
    [other, ca.cert, 'ERR_TLS_CERT_ALTNAME_INVALID'],
    [cloudFrom(1, 2), ca.cert, 'CERT_NOT_YET_VALID'],
    [cloudFrom(-2, -1), ca.cert, 'CERT_HAS_EXPIRED'],
    [good, null, 'UNABLE_TO_VERIFY_LEAF_SIGNATURE'],
  ] as const;
  for (const [{ key, cert }, trusted, code] of cases) {
    await using cloud = await cloudThatAnswers({ key, cert });
    using made = open(cloud, { ca: trusted });
    if (code === null) t.equal((await made.send()).status, 200);
    else await t.rejects(made.send(), { code });
    t.equal(cloud.calls.length, code === null ? 1 : 0, 'nothing is said to a stranger');
  }
  await using cloud = await cloudThatAnswers({ key: good.key, cert: good.cert });
  using made = open(cloud, { ca: ca.cert });
  const url = `${cloud.url.replace('127.0.0.1', 'localhost')}/devices/x/heartbeat`;
  t.equal((await made.send({ url })).status, 200, 'a name is sent for the certificate');
});

t.test('mutual TLS: the cloud sees our certificate, and without one turns us away', async (t) => {
  const ca = makeCertificate({ name: 'Test CA' });
  const server = makeCertificate({ name: 'cloud', hosts: ['127.0.0.1'], issuer: ca });
  const device = makeCertificate({ name: 'device', hosts: ['device.example'], issuer: ca });
  const { key, cert } = server;
  await using cloud = await cloudThatAnswers({ key, cert, ca: ca.cert, requestCert: true });
  {
    using made = open(cloud, { ca: ca.cert });
    await t.rejects(made.send());
  }
  using made = open(cloud, { ca: ca.cert, clientCertificate: { key: device.key, cert: device.cert } });
  t.equal((await made.send()).status, 200);
  t.equal(cloud.calls.length, 1);
});

t.test('nothing goes in clear text beyond this device', async (t) => {
  using made = open({ url: 'http://cloud.example' });
  await t.rejects(made.send(), /only to loopback/);
  t.equal(made.clock.pending, 0);
});

t.test('a port without a server, and a name that does not exist', async (t) => {
  const cloud = await cloudThatAnswers();
  using made = open(cloud);
  await cloud[Symbol.asyncDispose]();
  await t.rejects(made.send(), { code: 'ECONNREFUSED' });
  await t.rejects(made.send({ url: 'https://nobody.invalid/' }), /getaddrinfo/);
});

t.test(
  'behind addresses that refuse the cloud is found, and its certificate is checked for its name',
  async (t) => {
    const ca = makeCertificate({ name: 'Test CA' });
    const hosts = ['cloud.example'];
    const { key, cert } = makeCertificate({ name: 'cloud', hosts, issuer: ca });
    await using cloud = await cloudThatAnswers({ key, cert });
    const addresses = ['127.0.0.2', '127.0.0.3', '127.0.0.4', '127.0.0.1'];
    const lookup = async () => addresses.map((address) => ({ address, family: 4 }));
    using made = open(cloud, { ca: ca.cert, lookup });
    const url = (name: string) => `${cloud.url.replace('127.0.0.1', name)}/devices/${DEVICE}/heartbeat`;
    t.equal((await made.send({ url: url('cloud.example') })).status, 200);
    t.equal((await made.send({ url: url('cloud.example') })).status, 200);
    t.same(connectionsOf(cloud), [1, 1], 'the connection is kept');
    await t.rejects(made.send({ url: url('other.example') }), { code: 'ERR_TLS_CERT_ALTNAME_INVALID' });
    t.equal(made.clock.pending, 0);
  },
);

t.test('if no address answers, the deadline ends the call and all attempts', async (t) => {
  await using cloud = await cloudThatAnswers();
  const { port } = new URL(cloud.url);
  const dead = ['127.0.0.2', '127.0.0.3'];
  await blackHoles(t, Number(port), dead);
  const lookup = async () => dead.map((address) => ({ address, family: 4 }));
  using made = open(cloud, { lookup });
  const call = made.send({ url: `http://localhost:${port}/devices/${DEVICE}/heartbeat` });
  const rejected = t.rejects(call, {
    code: 'DEADLINE',
    message: /^no connection within 15 s$/,
    isReached: false,
  });
  await made.clock.advance(15_000);
  await rejected;
  t.equal(made.clock.pending, 0);
});

/** What a server of raw sockets has got; it answers nothing by itself. */
async function rawServer(talk: (socket: Socket, got: () => string) => void) {
  let text = '';
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
      talk(socket, () => text);
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    got: () => text,
    [Symbol.dispose]: () => void server.close(),
  };
}

/** A source of so many pieces of 16 KiB, and how many of them were read. */
function sourceOf(pieces: number, fault?: Error) {
  const source = {
    read: 0,
    isClosed: false,
    async *octets(): AsyncGenerator<Buffer> {
      try {
        for (; source.read < pieces; source.read++) yield Buffer.alloc(16 * KIB, source.read);
        if (fault) throw fault;
      } finally {
        source.isClosed = true;
      }
    },
  };
  return source;
}

const upload = (source: ReturnType<typeof sourceOf>, pieces: number, answerMs = 600_000) => ({
  ...({ method: 'POST', body: null, timeoutMs: 60_000 } as const),
  upload: { size: pieces * 16 * KIB, octets: source.octets(), answerMs },
});

t.test('an upload arrives whole, after the server has asked for it', async (t) => {
  const got: Buffer[] = [];
  await using server = await serve(async (req, res) => {
    t.match(req.headers, { expect: '100-continue', 'content-length': String(100 * 16 * KIB) });
    for await (const chunk of req) got.push(chunk);
    res.end('{}');
  });
  using made = open(server);
  const source = sourceOf(100);
  t.match(await made.send(upload(source, 100)), { status: 200 });
  const expected = Buffer.concat(Array.from({ length: 100 }, (_, n) => Buffer.alloc(16 * KIB, n)));
  t.ok(Buffer.concat(got).equals(expected));
  t.equal(made.clock.pending, 0, 'no timer is left');
});

t.test('of an upload that is refused nothing is read, and the connection is not used again', async (t) => {
  using server = await rawServer((socket, got) => {
    if (got().endsWith('\r\n\r\n')) socket.write('HTTP/1.1 501 No\r\nContent-Length: 2\r\n\r\n{}');
  });
  using made = open(server);
  const source = sourceOf(3);
  t.match(await made.send(upload(source, 3)), { status: 501 });
  t.match(await made.send({ ...upload(source, 3) }), { status: 501 });
  t.equal(source.read, 0);
  t.equal(made.clock.pending, 0);
});

t.test('a server that says nothing gets the upload after a second', async (t) => {
  using server = await rawServer((socket, got) => {
    if (got().length > 3 * 16 * KIB) socket.write('HTTP/1.1 202 Yes\r\nContent-Length: 2\r\n\r\n{}');
  });
  using made = open(server);
  const source = sourceOf(3);
  const answer = made.send(upload(source, 3));
  await until(() => server.got().includes('\r\n\r\n'));
  t.equal(source.read, 0);
  await made.clock.advance(SECOND_MS);
  t.match(await answer, { status: 202 });
  t.ok(source.isClosed);
});

t.test('each slice and the answer have deadlines of their own', async (t) => {
  using server = await rawServer((socket, got) => {
    if (!got().endsWith('\r\n\r\n')) return;
    socket.write('HTTP/1.1 100 Continue\r\n\r\n');
    socket.pause();
  });
  using made = open(server);
  const source = sourceOf(10_000);
  const answer = made.send(upload(source, 10_000));
  const stuck = t.rejects(answer, {
    code: 'DEADLINE',
    message: /^no progress of the upload within 60 s$/,
    isReached: true,
  });
  let read = -1;
  await until(() => {
    const isStill = read === source.read && read > 0;
    read = source.read;
    return isStill;
  });
  t.ok(source.read < 5000, `it does not read ahead: ${source.read}`);
  await made.clock.advance(60_000);
  await stuck;
  await until(() => source.isClosed);
  using silent = await rawServer((socket, got) => {
    if (got().endsWith('\r\n\r\n')) socket.write('HTTP/1.1 100 Continue\r\n\r\n');
  });
  using other = open(silent);
  const small = sourceOf(2);
  const late = t.rejects(other.send(upload(small, 2)), { message: /^no answer to the upload within 600 s$/ });
  await until(() => silent.got().length > 2 * 16 * KIB);
  await other.clock.advance(599_000);
  await other.clock.advance(1000);
  await late;
  t.equal(other.clock.pending, 0);
});

t.test('an upload whose octets cannot be read breaks off', async (t) => {
  await using server = await serve((req) => void req.on('error', () => undefined).resume());
  using made = open(server);
  const source = sourceOf(2, new Error('the disk is sick'));
  await t.rejects(made.send(upload(source, 3)), { code: 'SOURCE', message: 'the disk is sick' });
});

t.test('an upload goes over a new connection if the kept one was closed meanwhile', async (t) => {
  let connections = 0;
  await using server = await serve(async (req, res) => {
    let octets = 0;
    for await (const chunk of req) octets += chunk.length;
    res.end(String(octets));
    if (++connections === 1) setImmediate(() => req.socket.resetAndDestroy());
  });
  using made = open(server);
  await made.send();
  const source = sourceOf(5);
  const { body } = await made.send(upload(source, 5));
  t.equal(body.toString(), String(5 * 16 * KIB));
});
