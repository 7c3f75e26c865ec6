/** The webhook gets messages of devices, each once, and notifications that are not mails. */
import t from 'tap';
import { CLOUD_ANSWER_BYTES_MAX, DAY_MS, MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import { systemClock } from '../../src/base/system/clock.js';
import { createConnect } from '../../src/base/system/connect.js';
import { openHttps, type SendRequest } from '../../src/base/system/https.js';
import type { HookEvent } from '../../src/cloud/webhook.js';
import { byContent, createWebhook } from '../../src/cloud/webhook.js';
import type { ShortMessage } from '../../src/mail/message/message.js';
import { FakeClock } from '../support/clock.js';
import { until } from '../support/delivery.js';
import { DEVICE, entry, startCloud, type TestCloud } from '../support/reference-cloud.js';
import { serve } from '../support/serve.js';
import { systemError } from '../support/system-error.js';

const MESSAGES = `${DEVICE}/messages`;
const SMS = { id: 'm1', type: 2, destination: '+31612345678', message: 'The pressure is low' };

interface Hook extends AsyncDisposable {
  readonly env: Record<string, string>;
  // biome-ignore lint/suspicious/noExplicitAny: a test looks at what it expects to be there
  readonly taken: any[];
  /** What it answers. */
  status: number;
}

async function webhook(): Promise<Hook> {
  const server = await serve(async (request, response) => {
    let text = '';
    for await (const chunk of request) text += chunk;
    const body = JSON.parse(text);
    if (request.headers['idempotency-key'] !== body.id) throw new Error('the key is not the id');
    const { authorization } = request.headers;
    hook.taken.push({ ...body, url: request.url, status: hook.status, authorization });
    response.writeHead(hook.status).end();
  });
  const hook: Hook = {
    env: { FIELDPOST_CLOUD_SERVER_WEBHOOK: `${server.url}/secret?x=1` },
    taken: [],
    status: 204,
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
  return hook;
}

const post = (cloud: TestCloud, body: object, key = SMS.id) =>
  cloud.call('POST', MESSAGES, { body, headers: { 'Idempotency-Key': key } });

t.test('a message is accepted once, and goes to the webhook', async (t) => {
  await using hook = await webhook();
  await using cloud = await startCloud({ env: hook.env });
  const more = { title: 'T', auto_open: true, app_data: [1] };
  const push = { id: 'm2', type: 4, destination: 'OWNER', message: 'x', ...more };
  const both = await Promise.all([post(cloud, SMS), post(cloud, push, 'm2')]);
  for (const [index, { status, json }] of both.entries())
    t.same([status, json], [202, { id: `m${index + 1}` }]);
  await until(() => hook.taken.length === 2);
  const { id: _, ...sms } = SMS;
  t.match(
    hook.taken.find(({ type }) => type === 2),
    { ...sms, device: 'pump-3', url: '/secret?x=1' },
  );
  const { id: __, ...rest } = push;
  t.match(
    hook.taken.find(({ type }) => type === 4),
    { ...rest, device: 'pump-3' },
  );

  t.match(await post(cloud, { ...SMS, more: 1 }), { status: 202, json: { id: 'm1' } });
  t.match(await post(cloud, { ...SMS, message: 'other' }), { status: 422 }, 'a key is for one message');
  await cloud.clock.advance(7 * DAY_MS - SECOND_MS);
  t.match(await post(cloud, SMS), { status: 202, json: { id: 'm1' } });
  await cloud.clock.advance(MINUTE_MS);
  t.match(await post(cloud, { ...SMS, message: 'last' }), { status: 202 });
  await until(() => hook.taken.at(-1).message === 'last');
  t.equal(hook.taken.length, 3, 'its key is remembered for seven days');
  t.notMatch(cloud.lines.join(''), /secret/);
});

t.test('a webhook that cannot be trusted is reported without a setting of devices', async (t) => {
  const send = createWebhook({
    url: 'https://hook.example/x',
    authorization: null,
    send: async () => {
      throw systemError('SELF_SIGNED_CERT_IN_CHAIN');
    },
    clock: new FakeClock(),
  });
  const answer = await send({ ...SMS, type: 2, device: 'pump-3' } as never, new AbortController().signal);
  t.match(answer, { kind: 'later', reply: /^hook\.example: no authority .*\(SELF_SIGNED_CERT_IN_CHAIN\)$/ });
});

for (const body of ['large', 'cut', 'endless'])
  t.test(`a webhook has accepted the message when its 2xx is there: ${body} body`, async (t) => {
    await using server = await serve((_, response) => {
      response.writeHead(200, { 'Content-Length': 2 * CLOUD_ANSWER_BYTES_MAX });
      if (body === 'large') response.end(Buffer.alloc(2 * CLOUD_ANSWER_BYTES_MAX));
      else response.write('OK', () => (body === 'cut' ? response.socket?.end() : undefined));
    });
    const clock = systemClock();
    const connect = createConnect({ clock });
    const https = openHttps({ ca: null, clientCertificate: null, clock, connect });
    t.teardown(() => https.close());
    const send = createWebhook({ url: server.url, authorization: null, send: https.send, clock });
    const sms = { ...SMS, type: 2 } as const;
    const answer = await send(sms, new AbortController().signal);
    t.strictSame(answer, { kind: 'taken', reply: 'the webhook answered 200' });
  });

t.test('news for the hook go there and are all that it gets; others go to the webhook', async (t) => {
  const posted: { url: string; headers: object; body: unknown }[] = [];
  const https: SendRequest = async ({ url, headers, body }) => {
    posted.push({ url, headers: headers ?? {}, body: JSON.parse(String(body)) });
    return { status: posted.length === 1 ? 503 : 204, headers: {}, body: Buffer.alloc(0) };
  };
  const at = (url: string, authorization: string | null) =>
    createWebhook({ url, authorization, send: https, clock: new FakeClock() });
  const hook: HookEvent = {
    ...{ event: 'offline', device: 'pump-3', name: 'Sluis', site: 'North', dedup: 'pump-3' },
    since: '2026-11-20T09:00:00.000Z',
  };
  const push = { id: 'm1', type: 4, destination: 'HOOK', message: 'x' } as const;
  const { signal } = new AbortController();
  const both = byContent(at('https://sms.example/', null), at('https://tool.example/', 'Bearer abc'));
  t.match(await both({ ...push, hook } as ShortMessage, signal), { kind: 'later', isReached: true });
  t.match(await both({ ...push, hook } as ShortMessage, signal), { kind: 'taken' });
  t.match(await both(push, signal), { kind: 'taken' });
  const toTool = {
    url: 'https://tool.example/',
    headers: { Authorization: 'Bearer abc', 'Idempotency-Key': 'm1' },
    body: hook,
  };
  t.match(posted, [toTool, toTool, { url: 'https://sms.example/', body: push }]);
  t.strictSame(posted[0]?.body, hook);
  t.notMatch(posted[2]?.headers, { Authorization: 'Bearer abc' });

  for (const [alone, message] of [
    [byContent(null, at('https://tool.example/', null)), push],
    [byContent(at('https://sms.example/', null), null), { ...push, hook } as ShortMessage],
  ] as const)
    t.match(await alone(message, signal), { kind: 'later', isReached: false }, 'it expires');
  t.equal(posted.length, 3);
});

t.test('a tool hears of each outage, while the webhook of the people is down', async (t) => {
  const heard: unknown[] = [];
  await using tool = await serve(async (request, response) => {
    let text = '';
    for await (const chunk of request) text += chunk;
    heard.push(JSON.parse(text));
    response.writeHead(202).end();
  });
  await using hook = await webhook();
  hook.status = 503;
  const env = { ...hook.env, FIELDPOST_CLOUD_SERVER_HOOK: tool.url };
  await using cloud = await startCloud({ env });
  const destinations = [entry(1, { type: 4, destination: 'OWNER' })];
  await cloud.putFirst({ name: 'Sluis', site: 'North', destinations });
  await cloud.beat();
  const since = new Date(cloud.clock.wallMs()).toISOString();
  const own = { device: 'pump-3', dedup: 'pump-3', name: 'Sluis', site: 'North' };
  t.ok(await cloud.passUntil(() => heard.length === 1));
  t.strictSame(heard[0], { event: 'offline', ...own, since });
  // By now the tries of the webhook are minutes apart.
  for (let minutes = 0; minutes < 15; minutes++) await cloud.clock.advance(MINUTE_MS);
  await cloud.beat();
  const backMs = cloud.clock.bootMs();
  t.ok(await cloud.passUntil(() => heard.length === 2));
  t.ok(cloud.clock.bootMs() - backMs < 20 * SECOND_MS, `after ${cloud.clock.bootMs() - backMs} ms`);
  t.match(heard[1], { event: 'online', ...own });
  t.ok(
    hook.taken.every(({ message }) => message !== undefined),
    'people are told by the webhook alone',
  );
});

t.test('a cloud with a hook alone takes no messages of devices', async (t) => {
  const env = { FIELDPOST_CLOUD_SERVER_HOOK: 'https://tool.example/' };
  await using cloud = await startCloud({ env });
  t.equal((await post(cloud, SMS)).status, 503);
});

t.test('the webhook gets the credentials of the file', async (t) => {
  await using hook = await webhook();
  const env = { ...hook.env, FIELDPOST_CLOUD_SERVER_WEBHOOK_AUTH_FILE: '/etc/webhook-auth' };
  await using cloud = await startCloud({ env, files: { '/etc/webhook-auth': 'Bearer s3cret\n' } });
  t.match(await post(cloud, SMS), { status: 202 });
  await until(() => hook.taken.length === 1);
  t.equal(hook.taken[0].authorization, 'Bearer s3cret');
  t.notMatch(cloud.lines.join(''), /s3cret/);
});

t.test('a body that is not a message is refused with all its faults', async (t) => {
  await using hook = await webhook();
  await using cloud = await startCloud({ env: hook.env });
  const refused = await post(cloud, { id: 'm1', type: 2, destination: '0612', message: '' });
  t.equal(refused.status, 422);
  const pointers = refused.json.errors.map(({ pointer }: { pointer: string }) => pointer);
  t.same(pointers, ['/destination', '/message']);
  t.match(await post(cloud, { ...SMS, type: 1 }), { status: 422, json: { errors: [{ pointer: '/type' }] } });
  t.equal((await post(cloud, SMS, 'm2')).status, 400, 'the key is the id');
  t.equal((await cloud.call('POST', MESSAGES, { body: SMS })).status, 400);
  t.equal((await cloud.call('POST', MESSAGES, { body: 'null' })).status, 400);
  t.same(hook.taken, []);
  await using mute = await startCloud();
  t.equal((await post(mute, SMS)).status, 503, 'without a webhook the message stays on the device');
});

t.test('people are told by SMS, phone and push as soon as the webhook works', async (t) => {
  await using hook = await webhook();
  await using cloud = await startCloud({ env: hook.env });
  const destinations = [
    entry(1, { type: 2, destination: '+31612345678' }),
    entry(2, { type: 3, destination: '+48221234567', lang: 'pl' }),
    entry(3, { type: 4, destination: 'OWNER', lang: 'de' }),
    entry(4, { type: 2, destination: '+31612345678', lang: 'en' }),
  ];
  t.equal((await cloud.putFirst({ destinations })).status, 204);
  await cloud.beat();
  hook.status = 500;
  await cloud.clock.advance(2 * MINUTE_MS);
  await until(() => hook.taken.length > 0);
  await cloud.clock.advance(MINUTE_MS);
  hook.status = 200;
  const done = () => hook.taken.filter(({ status }) => status === 200);
  while (done().length < 3) await cloud.clock.advance(SECOND_MS);
  const told = Object.fromEntries(done().map(({ type, message, title }) => [type, title ?? message]));
  t.equal(told[2], 'pump-3 is offline. Laatste signaal: 20-11 om 09:00 (UTC).');
  t.match(told[3], /^pump-3 jest offline\. Ostatni sygnał: 20 listopada 2026 r\., godz\. 09:00 \(UTC\)\.$/);
  t.equal(told[4], 'pump-3 ist offline');
  t.same(
    Object.fromEntries(done().map(({ type, lang }) => [type, lang])),
    { 2: 'nl', 3: 'pl', 4: 'de' },
    'a service that reads it aloud needs the language',
  );
  t.match(cloud.lines.join(''), /notified device=pump-3 kind=silent unreachable=0 ids=\w+,\w+,\w+\n/);
});
