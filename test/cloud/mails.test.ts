/** Mails of devices at the reference cloud: what it takes, from whom it sends, how often, and what a disk or restart does. */
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import t from 'tap';
import { DAY_MS, HOUR_MS } from '../../src/base/limits.js';
import { CLOUD_MAIL_BYTES_MAX } from '../../src/cloud/mails.js';
import { until } from '../support/delivery.js';
import { startCloud, type TestCloud, through } from '../support/reference-cloud.js';
import { type FakeRelay, fakeRelay } from '../support/relay.js';

const MAIL = 'From: Pump 3 <pump-3@customer.example>\r\nSubject: Water\r\n\r\nIt is high.\r\n';
const RFC822 = { 'Content-Type': 'message/rfc822' };

interface Posted {
  readonly device?: string;
  readonly to?: string;
  readonly mail?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

async function post(cloud: TestCloud, id: string, options: Posted = {}) {
  const { device = 'pump-3', to = 'to=ann%40example.com', mail = MAIL, headers } = options;
  const path = `/devices/${device}/mails?${to}`;
  const all = { ...RFC822, 'Idempotency-Key': id, ...headers };
  const { status, json, headers: got } = await cloud.call('POST', path, { body: mail, headers: all });
  return { status, id: json?.id, type: json?.type, detail: json?.detail, retryAfter: got.get('Retry-After') };
}

const settings = (relay: FakeRelay, mails = '100') => ({
  ...through(relay),
  FIELDPOST_FROM: 'Water Works <cloud@operator.example>',
  FIELDPOST_CLOUD_SERVER_MAILS: mails,
});

const taken = (id: string) => ({ status: 202, id });
const head = (mail: Buffer | undefined) => mail?.toString().split('\r\n\r\n', 1)[0] ?? '';

t.test('a mail is sent to each recipient, with the sender of the operator', async (t) => {
  await using relay = await fakeRelay();
  await using cloud = await startCloud({ env: settings(relay) });
  t.match(
    await post(cloud, 'a', { to: 'to=ann%2Bx%40example.com&to=bob@example.com&to=bob@EXAMPLE.COM' }),
    taken('a'),
  );
  await until(() => relay.mails.length === 2);
  t.same(new Set(relay.mails.flatMap(({ to }) => to)), new Set(['ann+x@example.com', 'bob@EXAMPLE.COM']));
  for (const { from, content } of relay.mails) {
    t.equal(from, 'cloud@operator.example');
    t.match(head(content), 'From: Pump 3 <cloud@operator.example>');
    t.match(head(content), 'Reply-To: Pump 3 <pump-3@customer.example>');
    t.match(head(content), 'X-Original-From: Pump 3 <pump-3@customer.example>');
    t.match(content.toString(), /\r\n\r\nIt is high\.\r\n$/);
  }
});

t.test('the name in From is the mail’s, else that of the device in its document, else its id', async (t) => {
  await using relay = await fakeRelay();
  await using cloud = await startCloud({ env: settings(relay) });
  const own = 'From: "A, B" <CLOUD@operator.example>\r\nReply-To: x@y.example\r\n\r\nx\r\n';
  const bare = 'From: pump-3@customer.example\r\nReply-To: x@y.example\r\n\r\nx\r\n';
  const from = async (id: string, mail: string) => {
    t.match(await post(cloud, id, { mail }), taken(id));
    const sent = relay.mails.length + 1;
    await until(() => relay.mails.length === sent);
    return head(relay.mails.at(-1)?.content);
  };
  t.match(await from('own', own), 'From: "A, B" <CLOUD@operator.example>', 'the operator’s own stays');
  t.match(await from('bare', bare), /^From: pump-3 <cloud@operator\.example>$/m);
  t.notMatch(await from('answers', bare), 'Reply-To: pump-3@', 'the mail says where answers go');
  t.match(await from('none', 'Subject: x\r\n\r\nx\r\n'), 'From: Water Works <cloud@operator.example>');
  await cloud.putFirst({ name: 'Pump house', destinations: [] });
  t.match(await from('named', bare), 'From: Pump house <cloud@operator.example>');
});

t.test('a mail is sent once for its key, also after a restart, for seven days', async (t) => {
  await using relay = await fakeRelay();
  const env = settings(relay);
  const first = await startCloud({ env });
  t.match(await post(first, 'a'), taken('a'));
  await until(() => relay.mails.length === 1);
  t.match(await post(first, 'a', { mail: `X-Fieldpost-Waited: PT2H\r\n${MAIL}` }), taken('a'));
  t.match(await post(first, 'a', { to: 'to=eve@example.com' }), { status: 422 }, 'other recipients');
  t.match(await post(first, 'a', { device: 'pump-4' }), taken('a'), 'another device');
  await until(() => relay.mails.length === 2);
  await first.stop();
  await using cloud = await startCloud({ env, disk: first.disk.afterKill(), clock: first.clock });
  await cloud.clock.advance(7 * DAY_MS - HOUR_MS);
  t.match(await post(cloud, 'a'), taken('a'));
  t.equal(relay.mails.length, 2);
  await cloud.clock.advance(2 * HOUR_MS);
  t.match(await post(cloud, 'a'), taken('a'));
  await until(() => relay.mails.length === 3);
});

t.test('of the same mail thrice at once one is taken, and counts', async (t) => {
  await using relay = await fakeRelay();
  await using cloud = await startCloud({ env: settings(relay, '3') });
  const answers = await Promise.all([post(cloud, 'a'), post(cloud, 'a'), post(cloud, 'a')]);
  t.ok(answers.some(({ status }) => status === 202));
  t.ok(
    answers.every(({ status }) => [202, 409].includes(status)),
    JSON.stringify(answers),
  );
  for (const id of ['a', 'b', 'c']) t.match(await post(cloud, id), taken(id));
  t.match(await post(cloud, 'd'), { status: 429 });
  await until(() => relay.mails.length === 3);
});

t.test('a mail whose copy was taken while it came is answered as that, and counts once', async (t) => {
  await using relay = await fakeRelay();
  await using cloud = await startCloud({ env: settings(relay, '2') });
  const headers = {
    ...RFC822,
    'Idempotency-Key': 'a',
    Authorization: 'Bearer any',
    Expect: '100-continue',
    'Content-Length': MAIL.length,
  };
  const slow = request(`${cloud.url}/devices/pump-3/mails?to=ann%40example.com`, { method: 'POST', headers });
  slow.flushHeaders();
  await once(slow, 'continue');
  t.match(await post(cloud, 'a'), taken('a'));
  slow.end(MAIL);
  const [answer] = (await once(slow, 'response')) as [IncomingMessage];
  t.equal(answer.resume().statusCode, 202);
  t.match(await post(cloud, 'b'), taken('b'));
  await until(() => relay.mails.length === 2);
});

t.test('a mail that was taken is sent after a kill', async (t) => {
  await using relay = await fakeRelay({ mail: ({ connection }) => (connection === 1 ? {} : undefined) });
  const env = settings(relay);
  const first = await startCloud({ env });
  t.match(await post(first, 'a', { mail: MAIL.replace('high', 'x'.repeat(900)) }), taken('a'));
  const disk = first.disk.afterKill();
  await using cloud = await startCloud({ env, disk });
  await until(() => relay.mails.length === 1);
  t.match(relay.mails[0]?.content.toString(), 'x'.repeat(900));
  await until(() => cloud.lines.some((line) => line.includes('sent ')));
  await first.stop();
});

t.test(
  'recipients of a device and day are limited; what is refused or repeated does not count',
  async (t) => {
    await using relay = await fakeRelay();
    await using cloud = await startCloud({ env: settings(relay, '3') });
    t.match(await post(cloud, 'a', { to: 'to=a@example.com&to=b@example.com' }), taken('a'));
    t.match(await post(cloud, 'a', { to: 'to=a@example.com&to=b@example.com' }), taken('a'));
    t.match(await post(cloud, 'bad', { mail: '' }), { status: 422 });
    const four = ['a', 'b', 'c', 'd'].map((name) => `to=${name}@example.com`).join('&');
    t.match(await post(cloud, 'never', { to: four }), { status: 422 }, 'more than a whole day takes');
    const over = { status: 429, retryAfter: '60', type: 'urn:fieldpost:problem:rate-limited' };
    t.match(await post(cloud, 'b', { to: 'to=a@example.com&to=b@example.com' }), over);
    t.match(await post(cloud, 'b'), taken('b'));
    t.match(await post(cloud, 'c'), over);
    t.match(await post(cloud, 'c', { device: 'pump-4' }), taken('c'), 'another device');
    t.equal(cloud.lines.filter((line) => line.includes('device limited device=pump-3')).length, 1);
    await cloud.clock.advance(DAY_MS);
    t.match(await post(cloud, 'c'), taken('c'));
  },
);

t.test('a cloud without the setting takes none, and says so with 501', async (t) => {
  await using cloud = await startCloud();
  t.match(await post(cloud, 'a'), {
    status: 501,
    type: 'urn:fieldpost:problem:not-offered',
    detail: /takes no mails.*FIELDPOST_CLOUD_SERVER_MAILS/,
  });
});

t.test('what can never be sent is refused for good, and leaves nothing behind', async (t) => {
  await using relay = await fakeRelay();
  await using cloud = await startCloud({ env: settings(relay) });
  const { disk } = cloud;
  const spool = () => disk.list('/var/lib/fieldpost/cloud/outbox/spool');
  const many = Array.from({ length: 101 }, (_, n) => `to=p${n}@example.com`).join('&');
  const signed = `Content-Type: multipart/signed; boundary=b\r\n${MAIL}`;
  for (const [words, status, options] of [
    ['no recipient', 422, { to: '' }],
    ['no address', 422, { to: 'to=nobody' }],
    ['101 recipients', 422, { to: many }],
    ['a broken query', 400, { to: 'to=%ff' }],
    ['no key', 400, { headers: { 'Idempotency-Key': '' } }],
    ['a long key', 400, { headers: { 'Idempotency-Key': 'x'.repeat(256) } }],
    ['JSON', 415, { headers: { 'Content-Type': 'application/json' } }],
    ['gzip', 415, { headers: { 'Content-Encoding': 'gzip' } }],
    ['empty', 422, { mail: '' }],
    ['a NUL', 422, { mail: `${MAIL}\0` }],
    ['a long line', 422, { mail: `${MAIL}${'x'.repeat(999)}` }],
    ['signed by another', 422, { mail: signed }],
    ['too large', 413, { mail: `${MAIL}${'x\r\n'.repeat(CLOUD_MAIL_BYTES_MAX / 3)}` }],
  ] as const) {
    t.match(await post(cloud, 'a', options), { status }, words);
  }
  t.same(await spool(), []);
  t.match(await post(cloud, 'a'), taken('a'), 'the key was not used');
});

t.test('what waits for one device is bounded, and counts after a restart', async (t) => {
  await using relay = await fakeRelay({ greeting: '421 later' });
  const env = { ...settings(relay), FIELDPOST_MAX_QUEUE: '100' };
  const first = await startCloud({ env });
  const to = Array.from({ length: 5 }, (_, n) => `to=p${n}@example.com`).join('&');
  t.match(await post(first, 'a', { to }), taken('a'));
  t.match(await post(first, 'b', { to }), taken('b'));
  const full = { status: 429, retryAfter: '60', type: 'urn:fieldpost:problem:queue-full' };
  for (const id of ['c', 'd']) t.match(await post(first, id), full);
  const lines = first.lines.filter((line) => line.includes('device limited device=pump-3'));
  t.match(lines, [/reason="as many messages of this device wait as the cloud takes"/]);
  t.equal(lines.length, 1, 'logged once a day');
  await first.stop();
  await using cloud = await startCloud({ env, disk: first.disk });
  t.match(await post(cloud, 'c'), full);
  t.match(await post(cloud, 'b', { to }), taken('b'), 'it has its room already');
});

t.test('a full disk is no fault of the mail', async (t) => {
  await using relay = await fakeRelay();
  await using cloud = await startCloud({ env: settings(relay) });
  cloud.disk.capacityBytes = 0;
  const { status } = await post(cloud, 'a', { mail: `${MAIL}${'x\r\n'.repeat(100_000)}` });
  t.ok([503, 507].includes(status), String(status));
});
