/** Requests through an HTTP proxy: who gets to see what, connections that are kept, and every fault of the proxy. */
import t from 'tap';
import type { CloudProxy } from '../../src/base/config/proxy.js';
import { CloudError } from '../../src/base/retry/call-error.js';
import { createConnect } from '../../src/base/system/connect.js';
import { type HttpRequest, openHttps } from '../../src/base/system/https.js';
import { makeCertificate } from '../support/certificate.js';
import { FakeClock } from '../support/clock.js';
import { DEVICE, fakeCloud } from '../support/cloud.js';
import { until } from '../support/delivery.js';
import { fakeProxy } from '../support/proxy.js';

const ca = makeCertificate({ name: 'Test CA' });
const server = makeCertificate({ name: 'cloud', hosts: ['localhost', '127.0.0.1'], issuer: ca });
const device = makeCertificate({ name: 'device', hosts: ['device.example'], issuer: ca });
const LOGIN = { user: 'pump 3', password: 'pä:ss' };

const at = (port: number, login: CloudProxy['login'] = null): CloudProxy => ({
  host: '127.0.0.1',
  port,
  login,
});

async function cloudOverTls(more: object = {}) {
  const cloud = await fakeCloud({ key: server.key, cert: server.cert, ...more });
  cloud.answer = () => ({ status: 200, body: { id: '1' } });
  return cloud;
}

/** Requests through `through`, or through the proxy that it gives at that moment. */
function open(
  cloud: { url: string },
  through: CloudProxy | (() => CloudProxy | null),
  withCertificate = false,
) {
  const clock = new FakeClock();
  const clientCertificate = withCertificate ? { cert: device.cert, key: device.key } : null;
  const options = { ca: ca.cert, clientCertificate, clock, connect: createConnect({ clock }) };
  const https = openHttps({ ...options, proxy: typeof through === 'function' ? through : () => through });
  const send = (more: Partial<HttpRequest> = {}) =>
    https.send({
      method: 'PUT',
      url: `${cloud.url}/devices/${DEVICE}/heartbeat`,
      headers: { Authorization: 'Bearer key' },
      body: '{}',
      timeoutMs: 15_000,
      answerBytesMax: 1000,
      signal: new AbortController().signal,
      ...more,
    });
  return { send, clock, [Symbol.dispose]: () => https.close() };
}

/** What an operator reads of a failed call. */
async function wordsOf(call: Promise<unknown>): Promise<string> {
  const error = await call.then(
    () => new Error('it did not fail'),
    (thrown) => CloudError.ofNetwork(thrown, 'cloud.example', 0),
  );
  if (error instanceof CloudError && error.isReached) throw new Error('nothing has reached the cloud');
  return error.message;
}

t.test('one tunnel serves call after call; the proxy sees host, port and its own login', async (t) => {
  await using cloud = await cloudOverTls({ ca: ca.cert, requestCert: true });
  await using proxy = await fakeProxy({ login: 'pump 3:pä:ss' });
  using made = open(cloud, at(proxy.port, LOGIN), true);
  for (let n = 0; n < 3; n++) t.equal((await made.send()).status, 200);
  const target = new URL(cloud.url).host;
  const credentials = Buffer.from('pump 3:pä:ss').toString('base64');
  t.strictSame(proxy.heads, [
    `CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\nProxy-Authorization: Basic ${credentials}`,
  ]);
  t.same(
    cloud.calls.map(({ connection, headers }) => [
      connection,
      headers.authorization,
      headers['proxy-authorization'],
    ]),
    Array(3).fill([1, 'Bearer key', undefined]),
    'and the cloud sees nothing of the login',
  );
  t.equal(made.clock.pending, 0);
});

t.test('the proxy resolves the name of the cloud, and the certificate must be for that name', async (t) => {
  await using cloud = await cloudOverTls();
  await using proxy = await fakeProxy();
  const { port } = new URL(cloud.url);
  proxy.answer = () => ({ raw: 'HTTP/1.1 200 OK\r\n\r\n', to: Number(port) });
  using made = open(cloud, at(proxy.port));
  t.equal((await made.send({ url: 'https://localhost/' })).status, 200);
  t.equal(proxy.heads[0], 'CONNECT localhost:443 HTTP/1.1\r\nHost: localhost:443', 'no login was asked for');
  await t.rejects(made.send({ url: 'https://cloud.invalid/' }), { code: 'ERR_TLS_CERT_ALTNAME_INVALID' });
  t.equal(cloud.calls.length, 1);
});

t.test('a cloud on this device is called without the proxy', async (t) => {
  await using cloud = await fakeCloud();
  cloud.answer = () => ({ status: 200 });
  await using proxy = await fakeProxy();
  using made = open(cloud, at(proxy.port));
  t.equal((await made.send()).status, 200);
  t.strictSame(proxy.heads, []);
});

t.test('another proxy holds with the next call; the call under way ends in peace', async (t) => {
  await using cloud = await cloudOverTls();
  await using first = await fakeProxy();
  await using second = await fakeProxy();
  let present: CloudProxy | null = at(first.port);
  using made = open(cloud, () => present);
  await made.send();
  let answer = () => {};
  cloud.answer = ({ connection }) =>
    connection > 2
      ? { status: 200 }
      : new Promise((resolve) => {
          answer = () => resolve({ status: 200 });
        });
  const [one, two] = [made.send(), made.send()];
  await until(() => cloud.calls.length === 2);
  answer();
  await until(() => cloud.calls.length === 3);
  present = at(second.port);
  t.equal((await made.send()).status, 200);
  t.same([first.heads.length, second.heads.length], [2, 1]);
  answer();
  t.same([(await one).status, (await two).status], [200, 200]);
  await until(() => first.open === 0);
  present = null;
  await made.send();
  t.same([first.heads.length, second.heads.length], [2, 1], 'and none is a choice, too');
});

const HEADS = [
  [
    'HTTP/1.1 407 No\r\n\r\n',
    /^the proxy 127\.0\.0\.1:\d+ refuses our password \(407\); see FIELDPOST_CLOUD_PROXY/,
  ],
  ['HTTP/1.0 401 No\r\n\r\n', /refuses our password \(401\); see FIELDPOST_CLOUD_PROXY/],
  [
    'HTTP/1.0 407 No\r\nProxy-Authenticate: Negotiate\r\nproxy-authenticate: NTLM\r\n\r\n',
    /wants a login by Negotiate or NTLM, and this device can only do Basic \(407\)$/,
  ],
  [
    'HTTP/1.1 407 No\r\nProxy-Authenticate: Negotiate\r\nProxy-Authenticate: basic realm="a"\r\n\r\n',
    /refuses our password/,
  ],
  [
    'HTTP/1.1 403 Forbidden\r\nContent-Length: 5\r\n\r\nnever',
    /forbids a connection to 127\.0\.0\.1:\d+ \(403\)$/,
  ],
  ['HTTP/1.1 405 No\r\n\r\n', /opens no tunnels \(405\)$/],
  ['HTTP/1.1 502 Bad Gateway\r\n\r\n', /cannot reach 127\.0\.0\.1:\d+ \(502\)$/],
  ['HTTP/1.1 503\r\n\r\n', /cannot reach 127\.0\.0\.1:\d+ \(503\)$/],
  ['HTTP/1.1 504 Late\r\n\r\n', /gets no answer from 127\.0\.0\.1:\d+ \(504\)$/],
  ['HTTP/1.1 302 Found\u001b[2J\r\nLocation: x\r\n\r\n', /answers CONNECT with "HTTP\/1\.1 302 Found \[2J"$/],
  ['HTTP/2 200\r\n\r\n', /answers CONNECT with "HTTP\/2 200"$/],
  ['220 mail.example ESMTP\r\n', /is no HTTP proxy: it answers "220 mail\.example ESMTP"$/],
  ['HTTP/1.1 200 OK\r\nX: '.padEnd(20_000, 'x'), /gives an answer without an end$/],
  [`${'HTTP/1.1 200 OK\r\nX: '.padEnd(20_000, 'x')}\r\n\r\n`, /gives an answer without an end$/],
  [{ raw: 'HTTP/1.1 200 OK\r\n', ends: true }, /closed the connection before its answer$/],
  ['HTTP/1.1 200 OK\r\n\r\n\u0015\u0003', /sent bytes that the cloud cannot have sent$/],
  [
    { raw: 'HTTP/1.1 200 OK\r\n\r\n', open: true, later: 'HTTP/1.1 200 OK\r\n\r\n' },
    /^cloud\.example: TLS failed: /,
  ],
] as const;

t.test('each fault of the proxy is told in words, and ends its connection', async (t) => {
  await using cloud = await cloudOverTls();
  for (const [answer, words] of HEADS) {
    await using proxy = await fakeProxy();
    proxy.answer = () => answer;
    using made = open(cloud, at(proxy.port, LOGIN));
    const told = await wordsOf(made.send());
    t.match(told, words);
    t.notMatch(told, /pä|pump/, 'no login');
    await until(() => proxy.open === 0);
    t.equal(made.clock.pending, 0);
  }
  t.equal(cloud.calls.length, 0);
  await using proxy = await fakeProxy({ login: 'x:y' });
  using made = open(cloud, at(proxy.port));
  t.match(await wordsOf(made.send()), /wants a user and a password \(407\); see FIELDPOST_CLOUD_PROXY/);
  proxy.answer = () => undefined;
});

t.test('a proxy that cannot be reached is named in place of the cloud', async (t) => {
  await using cloud = await cloudOverTls();
  const gone = await fakeProxy();
  await gone[Symbol.asyncDispose]();
  using refused = open(cloud, at(gone.port));
  t.match(await wordsOf(refused.send()), `the proxy 127.0.0.1:${gone.port}: the connection was refused: `);
  using unknown = open(cloud, { ...at(3128), host: 'proxy.invalid' });
  t.match(await wordsOf(unknown.send()), /^the name of the proxy proxy\.invalid:3128 cannot be resolved \(E/);
});

t.test('the deadline and the caller end a call whose proxy is silent', async (t) => {
  await using cloud = await cloudOverTls();
  await using proxy = await fakeProxy();
  proxy.answer = () => null;
  using made = open(cloud, at(proxy.port));
  const late = wordsOf(made.send());
  await until(() => proxy.heads.length === 1);
  await made.clock.advance(15_000);
  t.equal(await late, `the proxy 127.0.0.1:${proxy.port}: no answer to CONNECT within 15 s`);
  const control = new AbortController();
  const call = made.send({ signal: control.signal });
  await until(() => proxy.heads.length === 2);
  control.abort();
  await t.rejects(call, { code: 'ABORT_ERR' });
  await until(() => proxy.open === 0);
  t.equal(made.clock.pending, 0);
  // Behind an open tunnel it is the cloud that is late.
  proxy.answer = () => ({ raw: 'HTTP/1.1 200 OK\r\n\r\n' });
  const muteCloud = wordsOf(made.send());
  await until(() => proxy.bytesInside > 0);
  await made.clock.advance(15_000);
  t.equal(await muteCloud, 'cloud.example: no TLS handshake within 15 s');
});
