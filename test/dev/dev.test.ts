/** The wiring of `fieldpost dev`: mail goes only to the catcher, even if a relay is configured. */
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { systemDisk } from '../../src/base/system/disk.js';
import { startDev } from '../../src/dev/dev.js';
import type { DevConfig } from '../../src/dev/settings.js';
import type { SendShort } from '../../src/mail/message/message.js';
import type { RelayConfig } from '../../src/mail/settings.js';
import { FakeClock, withoutPauses } from '../support/clock.js';
import { configOf, testSystem } from '../support/system.js';

const configIn = (directory: string) =>
  configOf({ FIELDPOST_STATE_DIR: join(directory, 'state'), FIELDPOST_RELAY: 'smtp://mail.example.com' });

const SMS = { id: 'x', type: 2, destination: '+31612345678', message: 'low' } as const;

/** Starts it with services that do nothing; `seen` collects their settings, their stops and the output. */
function dev(directory: string, changes: Partial<DevConfig> = {}, daemonFails = false) {
  const seen = {
    printed: '',
    stopped: [] as string[],
    daemon: {} as DevConfig,
    cloud: {} as DevConfig,
    send: null as SendShort | null,
  };
  const starting = startDev({
    config: { ...configIn(directory), ...changes },
    disk: systemDisk(),
    clock: withoutPauses(new FakeClock()),
    log: testSystem().system.log,
    inboxPort: 0,
    print(text) {
      seen.printed += text;
    },
    async startDaemon(config) {
      seen.daemon = config;
      if (daemonFails) throw new Error('no');
      return { address: '127.0.0.1:4711', stop: async () => void seen.stopped.push('daemon') };
    },
    async startCloud(config, send) {
      seen.cloud = config;
      seen.send = send;
      return { address: '127.0.0.1:4712', stop: async () => void seen.stopped.push('cloud') };
    },
  });
  return { seen, starting };
}

/** Hands a mail to the relay of the configuration, as the daemon would. */
async function mailTo({ relays }: DevConfig): Promise<void> {
  const [{ host, port }] = relays as readonly [RelayConfig];
  const socket = connect({ host, port });
  const said = ['EHLO x', 'MAIL FROM:<a@example.com>', 'RCPT TO:<b@example.com>', 'DATA'];
  said.push('Subject: caught\r\n\r\ntext\r\n.', 'QUIT');
  socket.on('data', () => socket.write(`${said.shift() ?? ''}\r\n`));
  await once(socket, 'close');
}

t.test('the daemon gets the catcher as its relay, and a mail is printed', async (t) => {
  const directory = t.testdir();
  const { seen, starting } = dev(directory);
  const { stop } = await starting;
  t.match(seen.printed, /local API +http:\/\/127\.0\.0\.1:4711\n/);
  t.match(seen.printed, /status page +http:\/\/127\.0\.0\.1:4711\/\n/);
  t.match(seen.printed, /cloud's page +http:\/\/127\.0\.0\.1:4712\/\n/);
  t.match(seen.printed, /curl .*127\.0\.0\.1:4711/);
  t.match(seen.printed, 'http://127.0.0.1:4712/devices/dev');
  t.match(seen.printed, 'silent for 90 s');
  t.equal(seen.daemon.heartbeatMs, 30_000, 'as configured, because the delay is much longer');
  t.match(seen.daemon.cloud, { url: 'http://127.0.0.1:4712', deviceId: 'dev' });
  t.match(seen.cloud, { relays: seen.daemon.relays, cloudServerKeys: null, cloudServerWebhook: null });
  t.match(seen.daemon.relays, [{ host: '127.0.0.1', tls: 'never', user: null }]);
  await mailTo(seen.daemon);
  t.match(seen.printed, /Subject: caught\n\ntext/);
  t.same(readdirSync(join(directory, 'state', 'mail')), ['000001.eml']);
  const inbox = /inbox +(http:\S+)/.exec(seen.printed)?.[1] ?? '';
  t.equal((await fetch(inbox)).status, 200);
  await seen.send?.(SMS, new AbortController().signal);
  t.match(await (await fetch(`${inbox}messages`)).json(), {
    messages: [
      { id: 's1', to: SMS.destination, subject: 'low' },
      { id: '1', to: 'b@example.com', subject: 'caught' },
    ],
  });
  await stop();
  t.same(seen.stopped, ['daemon', 'cloud'], 'the daemon can say good-bye');
  await t.rejects(mailTo(seen.daemon), { code: 'ECONNREFUSED' });
  await t.rejects(fetch(inbox), { cause: { code: 'ECONNREFUSED' } });
});

t.test('a short delay of the cloud covers several heartbeats', async (t) => {
  for (const [cloudServerDelayMs, heartbeatMs] of [
    [15_000, 5000],
    [5000, 1666],
  ] as const) {
    const { seen, starting } = dev(t.testdir(), { cloudServerDelayMs });
    const { stop } = await starting;
    t.equal(seen.daemon.heartbeatMs, heartbeatMs, 'a whole number, as the cloud wants it');
    await stop();
  }
});

t.test('the links of drills lead to the cloud, unless its port is any free one', async (t) => {
  const port = 43_780;
  for (const [changes, wanted] of [
    [{ cloudServerListen: [{ kind: 'tcp', host: '::1', port }] }, `http://[::1]:${port}/`],
    [{ cloudServerPublicUrl: 'https://cloud.example/' }, 'https://cloud.example/'],
    [{ cloudServerListen: [{ kind: 'tcp', host: '127.0.0.1', port: 0 }] }, null],
    [{ cloudServerListen: [{ kind: 'unix', path: '/x' }] }, null],
  ] as const satisfies readonly (readonly [Partial<DevConfig>, string | null])[]) {
    const { seen, starting } = dev(t.testdir(), changes);
    const { stop } = await starting;
    t.equal(seen.cloud.cloudServerPublicUrl, wanted);
    await stop();
  }
});

t.test('a failed start of the daemon stops the catcher and the cloud', async (t) => {
  const { seen, starting } = dev(t.testdir(), {}, true);
  await t.rejects(starting, { message: 'no' });
  t.same(seen.stopped, ['cloud']);
  await t.rejects(mailTo(seen.daemon), { code: 'ECONNREFUSED' });
});
