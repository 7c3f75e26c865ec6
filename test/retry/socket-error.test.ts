import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { connect as connectTls, createServer as createTlsServer, type TlsOptions } from 'node:tls';
import t, { type Test } from 'tap';
import { socketErrorOf } from '../../src/base/retry/call-error.js';
import { makeCertificate } from '../support/certificate.js';
import { systemError } from '../support/system-error.js';

const WALL_MS = Date.UTC(2026, 11, 1);
const ca = makeCertificate({ name: 'Test CA' });
const tls = makeCertificate({ name: 'peer', hosts: ['localhost'], issuer: ca });

/** As Node throws it where connect(2) fails. */
function connectError(code: string, address: string): Error {
  const message = `connect ${code} ${address}:25 - Local (0.0.0.0:0)`;
  return Object.assign(new Error(message), { code, syscall: 'connect', address, port: 25 });
}

t.test('each error of a connection is a sentence, not the words of Node.js', async (t) => {
  const codes = [
    ...[
      'ECONNREFUSED',
      'EHOSTUNREACH',
      'ENETUNREACH',
      'EHOSTDOWN',
      'ENETDOWN',
      'EADDRNOTAVAIL',
      'EADDRINUSE',
    ],
    ...['EAFNOSUPPORT', 'EINVAL', 'ETIMEDOUT', 'EACCES', 'EPERM', 'EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM'],
    ...['ECONNRESET', 'ECONNABORTED', 'ENETRESET', 'EPIPE', 'ENOTCONN'],
  ];
  for (const code of codes) {
    const { words } = socketErrorOf(connectError(code, '192.0.2.1'), WALL_MS);
    t.match(
      words,
      new RegExp(
        `^(?:it cannot be reached|the connection was (?:refused|lost)): .* \\(${code} 192\\.0\\.2\\.1\\)$`,
      ),
    );
    t.notMatch(words, /connect |Local/, code);
  }
  for (const code of ['ENOTFOUND', 'EAI_AGAIN', 'EAI_FAIL', 'ENODATA', 'EAI_NODATA', 'EAI_NONAME']) {
    const thrown = systemError(code, `getaddrinfo ${code} cloud.example`);
    const { kind, words } = socketErrorOf(thrown, WALL_MS);
    t.equal(kind, 'dns');
    t.match(words, new RegExp(`^its name cannot be resolved: .* \\(${code}\\)$`));
  }
  // A server that says SERVFAIL comes as the same code as silence.
  const again = systemError('EAI_AGAIN', 'getaddrinfo EAI_AGAIN r');
  t.match(socketErrorOf(again, WALL_MS).words, /the name servers do not answer, or fail \(EAI_AGAIN\)$/);
});

t.test('each of several addresses is named, and a sentence for all is said once', async (t) => {
  const both = (...codes: [string, string]) =>
    new AggregateError([connectError(codes[0], '192.0.2.1'), connectError(codes[1], '2001:db8::1')], '');
  t.equal(
    socketErrorOf(both('ENETUNREACH', 'ENETUNREACH'), WALL_MS).words,
    'it cannot be reached: this device has no network, or no route to it (ENETUNREACH 192.0.2.1, ENETUNREACH 2001:db8::1)',
  );
  const { kind, words } = socketErrorOf(both('ETIMEDOUT', 'ENETUNREACH'), WALL_MS);
  t.equal(kind, 'unreachable');
  t.match(words, /no answer comes.*\(ETIMEDOUT 192\.0\.2\.1\); .*no network.*\(ENETUNREACH 2001:db8::1\)$/);
});

t.test('a real socket where nothing listens', async (t) => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  const [thrown] = await once(connect(port, '127.0.0.1'), 'error').catch((error) => [error]);
  t.match(socketErrorOf(thrown, WALL_MS), {
    kind: 'refused',
    words: /nothing listens.*\(ECONNREFUSED 127\.0\.0\.1\)/,
  });
});

/** What a TLS client throws who meets this server. */
async function tlsError(t: Test, options: TlsOptions | null): Promise<unknown> {
  const server =
    options === null
      ? createServer((socket) => socket.on('error', () => undefined).write('220 relay.test ESMTP\r\n'))
      : createTlsServer({ ...tls, ...options }).on('tlsClientError', () => undefined);
  t.teardown(() => server.close());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const socket = connectTls({ port, host: '127.0.0.1', servername: 'localhost', ca: ca.cert });
  t.teardown(() => socket.destroy());
  return new Promise((resolve) => socket.on('error', resolve));
}

t.test('TLS with a server that does not speak it, or wants our certificate', async (t) => {
  t.match(socketErrorOf(await tlsError(t, null), WALL_MS), {
    kind: 'tls',
    words: /^TLS failed: it does not speak TLS on this port/,
  });
  const wanting = { requestCert: true, rejectUnauthorized: true, ca: ca.cert };
  t.match(socketErrorOf(await tlsError(t, { ...wanting, minVersion: 'TLSv1.3' }), WALL_MS), {
    kind: 'client-certificate',
    words: /^TLS failed: it wants a certificate of this device/,
  });
  t.match(
    socketErrorOf(await tlsError(t, { maxVersion: 'TLSv1.2', ciphers: 'PSK-AES128-GCM-SHA256' }), WALL_MS),
    {
      kind: 'tls',
      words: /^TLS failed: it and this device have no cipher in common/,
    },
  );
});

t.test('a certificate that is signed with SHA-1', async (t) => {
  const old = makeCertificate({ name: 'peer', hosts: ['localhost'], issuer: ca, digest: 'sha1' });
  t.same(socketErrorOf(await tlsError(t, { ...old, ciphers: 'DEFAULT@SECLEVEL=0' }), WALL_MS), {
    kind: 'certificate',
    words: 'its certificate is not good enough: CA signature digest algorithm too weak, as SHA-1 is',
  });
});

t.test("OpenSSL's reason is kept where it has no sentence of its own", async (t) => {
  const thrown = Object.assign(new Error('80C2:error:0A000126:SSL routines::decode error:a.c:1:'), {
    code: 'ERR_SSL_DECODE_ERROR',
    reason: 'decode error',
  });
  t.same(socketErrorOf(thrown, WALL_MS), {
    kind: 'tls',
    words: 'TLS failed: decode error (ERR_SSL_DECODE_ERROR)',
  });
});
