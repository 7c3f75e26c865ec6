/**
 * The cloud link through Debian's tinyproxy: the built daemon, the built reference cloud, and TLS between them from end to
 * end.
 */
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { createServer } from 'node:tls';
import { type Test, t } from 'tap';
import { makeCertificate } from '../support/certificate.js';
import { startIn } from '../support/daemon.js';
import { type Fieldpost, sharedDirectory, skipWithout, startFieldpost } from './peers.js';
import { startTinyproxy, TINYPROXY } from './tinyproxy.js';

/** A device that has just booted waits before its first heartbeat; a retry waits up to 25 s. */
const PATIENCE_MS = 60_000;

/** The reference cloud with TLS in front of it; `settings` are those of a device. */
async function startCloud(t: Test) {
  const directory = sharedDirectory(t);
  const path = (name: string) => join(directory, name);
  const ca = makeCertificate({ name: 'Field CA' });
  const { key, cert } = makeCertificate({ name: 'cloud', hosts: ['localhost'], issuer: ca });
  writeFileSync(path('ca.pem'), ca.cert);
  const cloud = await startIn(t, { FIELDPOST_STATE_DIR: path('cloud') }, ['cloud']);
  const names: (string | false)[] = [];
  const sockets = new Set<Socket>();
  const front = createServer({ key, cert }, (socket) => {
    names.push(socket.servername ?? false);
    const back = connect(cloud.port, '127.0.0.1');
    for (const one of [socket, back]) {
      sockets.add(one);
      one
        .on('error', () => undefined)
        .on('close', () => {
          sockets.delete(one);
          socket.destroy();
          back.destroy();
        });
    }
    socket.pipe(back).pipe(socket);
  });
  front.listen(0, '127.0.0.1');
  await once(front, 'listening');
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    front.close();
  });
  const { port } = front.address() as AddressInfo;
  return {
    port,
    /** The server names that clients asked for (SNI). */
    names,
    settings: {
      FIELDPOST_CLOUD: `https://localhost:${port}`,
      FIELDPOST_DEVICE_ID: 'pump-3',
      FIELDPOST_CLOUD_KEY: 'any',
      FIELDPOST_CLOUD_CA_FILE: path('ca.pem'),
      FIELDPOST_BACKOFF_MAX: '1s',
    },
    /** Waits until the device's document has this text. */
    async has(text: string) {
      const patience = AbortSignal.timeout(PATIENCE_MS);
      for (;;) {
        const url = `http://127.0.0.1:${cloud.port}/devices/pump-3/destinations`;
        const answer = await fetch(url, { headers: { Authorization: 'Bearer any' }, signal: patience });
        if ((await answer.text()).includes(text)) return;
        await pause(50);
      }
    },
  };
}

async function reasonOf(fieldpost: Fieldpost): Promise<string | null> {
  await fieldpost.said(/link (?:unsteady|offline)/, 0, PATIENCE_MS);
  return (await fieldpost.state()).link.reason;
}

t.test('tinyproxy', { skip: skipWithout(TINYPROXY) }, async (t) => {
  const cloud = await startCloud(t);
  const proxy = await startTinyproxy(t, [cloud.port]);
  const connected = `CONNECT localhost:${cloud.port} HTTP/1.1`;
  const { FIELDPOST_CLOUD: url } = cloud.settings;

  t.test('the link is online, and the address book is synced over it', async (t) => {
    const fieldpost = await startFieldpost(t, { ...cloud.settings, FIELDPOST_CLOUD_PROXY: proxy.url });
    await fieldpost.said(/link online/, 0, PATIENCE_MS);
    const john = { type: 1, destination: 'john@example.com', lang: 'en', name: 'John' };
    await fieldpost.api('offline_notification_destinations', john);
    await cloud.has(john.destination);
    t.equal(cloud.names.at(-1), 'localhost', 'TLS is with the cloud');
    const connects = proxy.connects();
    t.strictSame([...new Set(connects)], [connected]);
    t.ok(connects.length <= 2, 'calls share connections', { connects });
    const check = fieldpost.run('check');
    t.notMatch(fieldpost.lines.join() + check.stdout, /let-me|let%2dme/);
  });

  t.test('a wrong password is told in words', async (t) => {
    const FIELDPOST_CLOUD_PROXY = `http://pump-3:not-that-one@127.0.0.1:${proxy.port}`;
    const fieldpost = await startFieldpost(t, { ...cloud.settings, FIELDPOST_CLOUD_PROXY });
    t.match(
      await reasonOf(fieldpost),
      new RegExp(`^the proxy 127\\.0\\.0\\.1:${proxy.port} refuses our password \\(40[17]\\)`),
    );
    t.notMatch(fieldpost.lines.join(), /not-that-one/);
  });

  t.test('no password, and a port that is not allowed', async (t) => {
    const FIELDPOST_CLOUD_PROXY = `http://127.0.0.1:${proxy.port}`;
    const without = await startFieldpost(t, { ...cloud.settings, FIELDPOST_CLOUD_PROXY });
    t.match(await reasonOf(without), /wants a user and a password \(407\)/);
    const forbidden = await startFieldpost(t, {
      ...cloud.settings,
      FIELDPOST_CLOUD: 'https://localhost:9',
      FIELDPOST_CLOUD_PROXY: proxy.url,
      FIELDPOST_STATE_DIR: sharedDirectory(t),
    });
    t.match(await reasonOf(forbidden), /forbids a connection to localhost:9 \(403\)/);
  });

  t.test('HTTPS_PROXY and NO_PROXY of the environment', async (t) => {
    const before = proxy.connects().length;
    const env = { ...cloud.settings, HTTPS_PROXY: proxy.url };
    const excepted = await startFieldpost(t, { ...env, NO_PROXY: 'localhost' });
    await excepted.said(/link online/, 0, PATIENCE_MS);
    t.equal(proxy.connects().length, before, `${url} is called directly`);
    await excepted.stop();
    const through = await startFieldpost(t, { ...env, FIELDPOST_STATE_DIR: sharedDirectory(t) });
    await through.said(/link online/, 0, PATIENCE_MS);
    t.ok(proxy.connects().length > before);
  });

  t.test('a proxy that is down is named; when it is up again, the link is', async (t) => {
    await proxy.stop();
    const fieldpost = await startFieldpost(t, { ...cloud.settings, FIELDPOST_CLOUD_PROXY: proxy.url });
    t.match(await reasonOf(fieldpost), `the proxy 127.0.0.1:${proxy.port}: the connection was refused`);
    await proxy.start();
    await fieldpost.said(/link online/, 0, PATIENCE_MS);
  });
});
