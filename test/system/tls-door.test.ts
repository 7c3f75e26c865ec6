/** STARTTLS, the server's side. */
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { connect as tlsConnect } from 'node:tls';
import { type Test, test } from 'tap';
import { secureSocket } from '../../src/base/system/tls-door.js';
import { makeCertificate } from '../support/certificate.js';

const CA = makeCertificate({ name: 'Test CA' });
const IDENTITY = makeCertificate({ name: 'pump', hosts: ['127.0.0.1'], issuer: CA });

/** A plain connection: both of its ends. */
async function pair(t: Test): Promise<{ client: Socket; served: Socket }> {
  const server = createServer({ pauseOnConnect: true, allowHalfOpen: true });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const client = connect({ port: (server.address() as { port: number }).port, host: '127.0.0.1' });
  client.on('error', () => undefined);
  const [served] = (await once(server, 'connection')) as [Socket];
  served.on('error', () => undefined);
  t.teardown(() => {
    client.destroy();
    served.destroy();
    server.close();
  });
  return { client, served };
}

test('both sides read what the other writes, and one end closes both', async (t) => {
  const { client, served } = await pair(t);
  const securing = secureSocket(served, IDENTITY);
  const there = tlsConnect({ socket: client, ca: CA.cert, host: '127.0.0.1' });
  const here = await securing;
  here.write('hello');
  t.equal(String((await once(there, 'data'))[0]), 'hello');
  there.end('bye');
  t.equal(String((await once(here, 'data'))[0]), 'bye');
  here.destroy();
  await once(served, 'close');
});

test('what is no TLS, an old version, and a connection that closes', async (t) => {
  const plain = await pair(t);
  const first = secureSocket(plain.served, IDENTITY);
  plain.client.write('EHLO me\r\n');
  await t.rejects(first);
  if (!plain.client.closed) await once(plain.client.resume(), 'close');

  const old = await pair(t);
  const second = secureSocket(old.served, IDENTITY);
  const tls = tlsConnect({ socket: old.client, ca: CA.cert, minVersion: 'TLSv1', maxVersion: 'TLSv1.1' });
  tls.on('error', () => undefined);
  await t.rejects(second);

  for (const leave of ['end', 'destroy'] as const) {
    const gone = await pair(t);
    const third = secureSocket(gone.served, IDENTITY);
    gone.client[leave]();
    await t.rejects(third, { message: /closed the connection/ });
  }
});
