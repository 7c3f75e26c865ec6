/** The built cloud while its SMS provider is down: no device, and no fleet, keeps people from being told by mail. */
import { Agent, request } from 'node:http';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { ask } from '../support/ask.js';
import { type DaemonProcess, needsProgram, startIn } from '../support/daemon.js';
import { JAN } from '../support/reference-cloud.js';
import { type FakeRelay, fakeRelay } from '../support/relay.js';
import { serve } from '../support/serve.js';

/** A provider of SMS that takes none. */
const deadWebhook = () => serve((_request, response) => void response.writeHead(503).end());

interface World {
  readonly cloud: DaemonProcess;
  readonly url: string;
  readonly directory: string;
  /** Posts an SMS of this device. */
  readonly post: (device: string, id: number) => Promise<{ status: number; retryAfter: string | undefined }>;
}

async function startCloudIn(t: Test, env: Record<string, string>): Promise<World> {
  const directory = t.testdir();
  const cloud = await startIn(
    t,
    { FIELDPOST_STATE_DIR: join(directory, 'state'), FIELDPOST_CLOUD_SERVER_DELAY: '1s', ...env },
    ['cloud'],
  );
  const url = `http://127.0.0.1:${cloud.port}`;
  const agent = new Agent({ keepAlive: true, maxSockets: 16 });
  t.teardown(() => agent.destroy());
  const post: World['post'] = (device, number) =>
    new Promise((resolve, reject) => {
      const id = `m${number}`;
      const headers = {
        'Content-Type': 'application/json',
        Authorization: 'Bearer any',
        'Idempotency-Key': id,
      };
      const call = request(
        `${url}/devices/${device}/messages`,
        { method: 'POST', headers, agent },
        (answer) => {
          answer.resume();
          const retryAfter = answer.headers['retry-after'];
          answer.on('end', () => resolve({ status: answer.statusCode ?? 0, retryAfter }));
        },
      );
      call.on('error', reject);
      call.end(JSON.stringify({ id, type: 2, destination: '+31612345678', message: 'x' }));
    });
  return { cloud, url, directory, post };
}

/** Stores a person's address for a device that is heard once, and never again. */
async function goSilent(url: string, device: string, destinations: readonly object[]): Promise<void> {
  const headers = { Authorization: 'Bearer any' };
  const path = `${url}/devices/${device}`;
  await ask(`${path}/destinations`, 'PUT', {
    headers: { ...headers, 'If-None-Match': '*' },
    body: { destinations },
  });
  await ask(`${path}/heartbeat`, 'PUT', { headers, body: { state: 'running' } });
}

/** Resolves when the relay has so many mails: the cloud logs each. */
async function told(cloud: DaemonProcess, relay: FakeRelay, count: number): Promise<void> {
  while (relay.mails.length < count) await cloud.nextLine();
}

t.test('9,500 SMS of one device do not keep the people of another from a mail', needsProgram, async (t) => {
  await using relay = await fakeRelay();
  await using hook = await deadWebhook();
  const { url, post, cloud } = await startCloudIn(t, {
    FIELDPOST_RELAY: `smtp://127.0.0.1:${relay.port}?tls=never`,
    FIELDPOST_CLOUD_SERVER_WEBHOOK: hook.url,
  });
  const answers = await Promise.all(Array.from({ length: 9500 }, (_, id) => post('thief', id)));
  const refused = answers.filter(({ status }) => status === 429);
  t.equal(answers.filter(({ status }) => status === 202).length, 60, 'those of an hour');
  t.equal(refused.length, 9440);
  t.ok(refused.every(({ retryAfter }) => retryAfter === '60'));
  const known = answers.findIndex(({ status }) => status === 202);
  t.equal((await post('thief', known)).status, 202, 'a repeat');
  await goSilent(url, 'pump-3', [JAN]);
  await told(cloud, relay, 1);
  t.strictSame(relay.mails[0]?.to, [JAN.destination]);
  t.equal((await ask(`${url}/healthz`)).status, 200);
  const limited = cloud.lines.filter((line) => line.includes(' device limited '));
  t.equal(limited.length, 1, 'one line an hour for a device');
  t.match(limited[0], / device limited device=thief reason=/);
});

t.test(
  'a fleet without its SMS provider does not, either; its messages wait on the devices',
  needsProgram,
  async (t) => {
    await using relay = await fakeRelay();
    await using hook = await deadWebhook();
    const { url, post, cloud } = await startCloudIn(t, {
      FIELDPOST_RELAY: `smtp://127.0.0.1:${relay.port}?tls=never`,
      FIELDPOST_CLOUD_SERVER_WEBHOOK: hook.url,

      FIELDPOST_CLOUD_SERVER_HOURLY_LIMIT: '1000',
      FIELDPOST_MAX_QUEUE: '400',
    });
    const counts = new Map<string, number>();
    for (let device = 0; device < 30; device++)
      for (let id = 0; id < 12; id++) {
        const { status, retryAfter } = await post(`pump-${device}`, id);
        if (status === 202) counts.set(`pump-${device}`, (counts.get(`pump-${device}`) ?? 0) + 1);
        else t.strictSame([status, retryAfter], [429, '60']);
      }
    const taken = [...counts.values()];
    t.equal(Math.max(...taken), 10, 'a hundredth of the outbox for each device, but at least 10');
    t.equal(
      taken.reduce((sum, one) => sum + one, 0),
      100,
      'a quarter for all',
    );
    const sms = { ...JAN, uid: JAN.uid.replace('7c', '7d'), type: 2, destination: '+31612345678' };
    await goSilent(url, 'pump-99', [JAN, sms]);
    await told(cloud, relay, 1);
    t.strictSame(relay.mails[0]?.to, [JAN.destination]);
    t.equal((await ask(`${url}/healthz`)).status, 200);
    const { text } = await ask(`${url}/metrics`, 'GET', { headers: { Authorization: 'Bearer any' } });
    t.match(text, /^fieldpost_cloud_outbox_messages\{part="devices"\} 100$/m);
  },
);

t.test('the health check fails while a notification does not fit, and says why', needsProgram, async (t) => {
  let isOpen = false;
  await using relay = await fakeRelay({ mail: () => (isOpen ? undefined : '421 4.3.2 later') });
  const { url, cloud } = await startCloudIn(t, {
    FIELDPOST_RELAY: `smtp://127.0.0.1:${relay.port}?tls=never`,
    FIELDPOST_MAX_QUEUE: '8',
  });
  const people = Array.from({ length: 6 }, (_, n) => ({
    ...JAN,
    uid: JAN.uid.replace(/.$/, String(n)),
    destination: `person-${n}@example.com`,
  }));
  t.equal((await ask(`${url}/healthz`)).status, 200);
  await goSilent(url, 'pump-3', people);
  const health = async () => await ask(`${url}/healthz`);
  let answer = await health();
  while (answer.status === 200) answer = await health();
  t.match(answer, { status: 503, json: { detail: /no more room for mails: 4 messages wait/ } });
  isOpen = true;
  await told(cloud, relay, 6);
  t.equal(new Set(relay.mails.map(({ to }) => to[0])).size, 6);
  while ((await health()).status !== 200);
});

t.test(
  'a device beyond the hourly limit keeps its messages, and blames the cloud',
  needsProgram,
  async (t) => {
    await using hook = await serve((_request, response) => void response.writeHead(204).end());
    const { url, directory } = await startCloudIn(t, {
      FIELDPOST_CLOUD_SERVER_WEBHOOK: hook.url,
      FIELDPOST_CLOUD_SERVER_HOURLY_LIMIT: '1',
    });
    const device = await startIn(t, {
      FIELDPOST_STATE_DIR: join(directory, 'device'),
      FIELDPOST_CLOUD: url,
      FIELDPOST_DEVICE_ID: 'pump-3',
      FIELDPOST_CLOUD_KEY: 'any',
    });
    const sms = { type: 2, destination: '+31612345678', message: 'x' };
    const { json } = await device.api('messages', [sms, sms]);
    while (!device.lines.some((line) => line.includes(' put behind '))) await device.nextLine();
    const [first, second] = await Promise.all(
      json.map(async ({ id }: { id: string }) => (await device.api(`messages/${id}`)).json),
    );
    t.match(first, { status: 'sent' });
    t.match(second, { status: 'queued', attempts: 0 }, 'nothing is charged to it');
    const { json: state } = await device.api('state');
    t.match(state.link.reason ?? '', /1 SMS and calls of a device in an hour/);
  },
);
