/** The wiring of `fieldpost dev`: whatever is configured, mail goes to the catcher and nowhere else. */
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { type Config, parseConfig } from '../../src/config.js';
import { startDev } from '../../src/dev/dev.js';
import { systemDisk } from '../../src/system/disk.js';
import { FakeClock } from '../support/clock.js';

function configIn(directory: string): Config {
  const env = { FIELDPOST_STATE_DIR: join(directory, 'state'), FIELDPOST_RELAY: 'smtp://mail.example.com' };
  const parsed = parseConfig(env, () => '', { hostname: 'device.example' });
  if ('problems' in parsed) throw new Error(JSON.stringify(parsed.problems));
  return parsed.config;
}

/** Hands a mail to the relay of the configuration, as the daemon would. */
async function mailTo({ relays: [relay] }: Config): Promise<void> {
  const socket = connect({ host: relay?.host ?? '', port: relay?.port ?? 0 });
  socket.end(
    'EHLO x\r\nMAIL FROM:<a@example.com>\r\nRCPT TO:<b@example.com>\r\nDATA\r\nSubject: caught\r\n\r\ntext\r\n.\r\nQUIT\r\n',
  );
  socket.resume();
  await once(socket, 'close');
}

t.test('the daemon gets the catcher for a relay, and a mail shows up', async (t) => {
  const printed: string[] = [];
  const steps: string[] = [];
  let given: Config | undefined;
  let cloudGiven: Config | undefined;
  const directory = t.testdir();
  const dev = await startDev({
    config: configIn(directory),
    disk: systemDisk(),
    clock: new FakeClock(),
    print: (text) => printed.push(text),
    async startDaemon(config) {
      given = config;
      return { address: '127.0.0.1:4711', stop: async () => void steps.push('daemon stopped') };
    },
    async startCloud(config) {
      cloudGiven = config;
      return { address: '127.0.0.1:4712', stop: async () => void steps.push('cloud stopped') };
    },
  });
  const greeting = printed.join('');
  t.match(greeting, 'http://127.0.0.1:4711');
  t.match(greeting, /curl .*127\.0\.0\.1:4711/);
  t.match(greeting, 'http://127.0.0.1:4712/devices/dev');
  t.match(greeting, 'silent for 90 s');
  t.equal(given?.heartbeatMs, 30_000, 'as configured: the delay is longer by far');
  t.match(given?.cloud, { url: 'http://127.0.0.1:4712', deviceId: 'dev' });
  t.match(cloudGiven, { relays: given?.relays, cloudServerKeys: null, cloudServerWebhook: null });
  t.match(given?.relays, [{ host: '127.0.0.1', tls: 'never', user: null }]);
  await mailTo(given as Config);
  t.match(printed.join(''), /Subject: caught\n\ntext/);
  t.same(readdirSync(join(directory, 'state', 'mail')), ['000001.eml']);
  await dev.stop();
  t.same(steps, ['daemon stopped', 'cloud stopped'], 'the daemon can say good-bye');
  await t.rejects(mailTo(given as Config), { code: 'ECONNREFUSED' });
});

t.test('the daemon is heard well within a delay that is short', async (t) => {
  const config = configIn(t.testdir());
  let given: Config | undefined;
  const dev = await startDev({
    config: { ...config, cloudServerDelayMs: 15_000 },
    disk: systemDisk(),
    clock: new FakeClock(),
    print: () => undefined,
    async startDaemon(config) {
      given = config;
      return { address: '127.0.0.1:4711', stop: async () => undefined };
    },
    startCloud: async () => ({ address: '127.0.0.1:4712', stop: async () => undefined }),
  });
  t.equal(given?.heartbeatMs, 5000);
  await dev.stop();
});

t.test('a daemon that cannot start leaves no catcher and no cloud behind', async (t) => {
  const stopped: string[] = [];
  let given: Config | undefined;
  const starting = startDev({
    config: configIn(t.testdir()),
    disk: systemDisk(),
    clock: new FakeClock(),
    print: () => undefined,
    async startDaemon(config) {
      given = config;
      throw new Error('no');
    },
    startCloud: async () => ({ address: '127.0.0.1:4712', stop: async () => void stopped.push('cloud') }),
  });
  await t.rejects(starting, { message: 'no' });
  t.same(stopped, ['cloud']);
  await t.rejects(mailTo(given as Config), { code: 'ECONNREFUSED' });
});
