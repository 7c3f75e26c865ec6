/** The room of the cloud's outbox: shares of devices and of notifications, and the SMS and calls of an hour. */
import t from 'tap';
import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import { AcceptedMessages } from '../../src/cloud/outbox.js';
import { isForHook } from '../../src/cloud/webhook.js';
import type { Address } from '../../src/mail/message/address.js';
import { NO_ATTACHMENTS, type SendShort } from '../../src/mail/message/message.js';
import type { Store } from '../../src/mail/store/store.js';
import { FakeClock } from '../support/clock.js';
import { until } from '../support/delivery.js';
import { JAN, startCloud, type TestCloud, through } from '../support/reference-cloud.js';
import { fakeRelay } from '../support/relay.js';
import { openQuietly } from '../support/store.js';

const SMS = { type: 2, destination: '+31612345678', message: 'The pressure is low' };
/** A provider that is down. */
const down: SendShort = async () => ({ kind: 'later', reply: 'down', retryAfterMs: null, isReached: true });

async function post(cloud: TestCloud, device: string, id: string, more: object = {}) {
  const body = { ...SMS, id, ...more };
  const path = `/devices/${device}/messages`;
  const { status, headers, json } = await cloud.call('POST', path, {
    body,
    headers: { 'Idempotency-Key': id },
  });
  return { status, retryAfter: headers.get('Retry-After'), type: json.type as string | undefined };
}

const taken = { status: 202 };
const full = { status: 429, retryAfter: '60', type: 'urn:fieldpost:problem:queue-full' };

t.test('SMS and calls of a device and hour are limited; push messages and repeats are not', async (t) => {
  const env = { FIELDPOST_CLOUD_SERVER_HOURLY_LIMIT: '3' };
  await using cloud = await startCloud({ env, send: async () => ({ kind: 'taken', reply: 'shown' }) });
  t.match(await post(cloud, 'pump-3', 'a'), taken);
  t.match(await post(cloud, 'pump-3', 'a'), taken, 'the same again');
  t.match(await post(cloud, 'pump-3', 'bad', { destination: 'nobody' }), { status: 422 });
  await cloud.clock.advance(10 * MINUTE_MS);
  t.match(await post(cloud, 'pump-3', 'b', { type: 3 }), taken);
  t.match(await post(cloud, 'pump-3', 'c'), taken);
  const over = { status: 429, retryAfter: '60', type: 'urn:fieldpost:problem:rate-limited' };
  t.match(await post(cloud, 'pump-3', 'd'), over);
  t.match(await post(cloud, 'pump-3', 'a'), taken, 'the cloud has it already');
  t.match(await post(cloud, 'pump-3', 'e', { type: 3 }), over);
  t.match(await post(cloud, 'pump-3', 'f', { type: 4, destination: 'OWNER' }), taken);
  t.match(await post(cloud, 'pump-4', 'd'), taken, 'another device');
  await cloud.clock.advance(50 * MINUTE_MS - SECOND_MS);
  t.match(await post(cloud, 'pump-3', 'd'), over);
  await cloud.clock.advance(SECOND_MS);
  for (const id of ['d', 'e', 'g']) t.match(await post(cloud, 'pump-3', id), taken);
  t.match(await post(cloud, 'pump-3', 'h'), over);
  const lines = () => cloud.lines.filter((line) => line.includes('device limited device=pump-3'));
  t.equal(lines().length, 2, 'one for each hour');
  t.match(lines()[0], /reason="the cloud takes 3 SMS and calls of a device in an hour"/);
});

t.test('what waits for a device counts again after a restart, and no more when it is sent', async (t) => {
  const env = { FIELDPOST_MAX_QUEUE: '1100' };
  const { disk, stop, ...first } = await startCloud({ env, send: down });
  for (const id of 'abdefghijkl') t.match(await post(first as TestCloud, 'pump-3', id), taken);
  t.match(await post(first as TestCloud, 'pump-3', 'c'), full);
  t.match(await post(first as TestCloud, 'pump-3', 'a'), taken, 'it has its room already');
  t.match(await post(first as TestCloud, 'pump-4', 'c'), taken);
  await stop();
  let isDown = true;
  const send: SendShort = async (...message) =>
    isDown ? await down(...message) : { kind: 'taken', reply: 'shown' };
  await using cloud = await startCloud({ env, disk, send });
  t.match(await post(cloud, 'pump-3', 'c'), full);
  t.match(await post(cloud, 'pump-4', 'd'), taken);
  isDown = false;
  await cloud.clock.advance(HOUR_MS);
  const sent = () => cloud.lines.filter((line) => /^<6>sent /.test(line)).length;
  await until(() => sent() === 13);
  t.match(await post(cloud, 'pump-3', 'c'), taken);
});

t.test('a device has room for 10 messages in a small outbox, within the part of all devices', async (t) => {
  for (const [maxQueue, room] of [
    ['40', 10],
    ['100', 10],
    ['20', 5],
  ] as const) {
    await using cloud = await startCloud({ env: { FIELDPOST_MAX_QUEUE: maxQueue }, send: down });
    for (let n = 0; n < room; n++) t.match(await post(cloud, 'pump-3', `m${n}`), taken, maxQueue);
    t.match(await post(cloud, 'pump-3', 'more'), full, maxQueue);
  }
});

t.test('what waits is counted after a restart also if its key is forgotten', async (t) => {
  const urgent = { urgent: true };
  const queued = [
    { id: 'own mail', type: 1, extras: urgent },
    { id: 'own SMS', type: 2, extras: urgent },
    { id: 'own SMS of an earlier program', type: 2 },
    { id: 'a', type: 2 },
    { id: 'mail of a device', type: 1, extras: { isReadyMade: true } },
    { id: 'for the hook', type: 4, extras: { ...urgent, caller: 'hook' } },
  ];
  const deferred = [
    { id: 'b', type: 4 },
    { id: 'mail of an earlier program', type: 1 },
  ];
  const keys = [
    ['message pump-3 a', { ids: ['a'] }],
    ['notice', { ids: ['own SMS of an earlier program'] }],
    ['message pump-3 sent', { ids: ['sent'] }],
  ];
  const whenFinal = () => new Promise(() => undefined);
  const store = { keys, whenFinal, queued: () => queued, deferred: () => deferred } as unknown as Store;
  const ways = { maxQueue: 100, takesMail: true, takesShort: true, takesHook: false, nudge: () => undefined };
  t.strictSame(new AcceptedMessages({ store, ...ways }).waiting, { mail: 2, short: 2, devices: 3, hook: 1 });
});

t.test('what waits for a hook that is down fills its own part alone', async (t) => {
  const { store } = await openQuietly(new FakeClock());
  const ways = { maxQueue: 80, takesMail: true, takesShort: true, takesHook: true, nudge: () => undefined };
  const accepted = new AcceptedMessages({ store, ...ways });
  const rest = { attachments: NO_ATTACHMENTS, ignored: [] };
  const hook = { event: 'offline', device: 'pump-3', name: null, site: null, since: null, dedup: 'pump-3' };
  const push = (key: string, content: object) =>
    accepted.accept(
      { ...rest, type: 4, destination: 'HOOK', content: { message: 'x', ...content } },
      { key: `presence ${key}`, hash: key },
    );
  for (let n = 0; n < 10; n++) await push(`${n}`, { hook });
  t.strictSame(accepted.waiting, { mail: 0, short: 0, devices: 0, hook: 10 });
  await t.rejects(push('over', { hook }), { code: 'queue-full', message: /no more room for the hook/ });
  t.ok(accepted.mayTakeMore);
  t.equal(accepted.fullness, null, 'the cloud does its work');
  await push('person', {});
  t.match(accepted.waiting, { short: 1, hook: 10 }, 'a person may have that placeholder');
  t.equal(new AcceptedMessages({ store, ...ways }).waiting.hook, 10, 'after a restart, too');
  t.strictSame([...store.queued(isForHook)].length, 10);

  const alone = new AcceptedMessages({ store, ...ways, takesMail: false, takesShort: false });
  t.notOk(alone.mayTakeMore, 'with the hook alone nothing else can be told');
});

t.test('what can wait leaves half of its part to news of outages', async (t) => {
  const { store } = await openQuietly(new FakeClock());
  const ways = { takesMail: true, takesShort: true, takesHook: false };
  const accepted = new AcceptedMessages({ store, maxQueue: 40, nudge: () => undefined, ...ways });
  const mail = { type: 1, attachments: NO_ATTACHMENTS, ignored: [] } as const;
  const content = { subject: 'x', plain: 'x', html: '' };
  for (let n = 0; n < 10; n++) {
    t.equal(accepted.isBusy(1), false, `${n} mails`);
    const destination = `jan${n}@example.com` as Address;
    await accepted.accept({ ...mail, destination, content }, { key: `${n}`, hash: '' });
  }
  t.equal(accepted.isBusy(1), true);
  t.equal(accepted.mayTakeMore, true);
  for (const type of [2, 3, 4] as const)
    t.equal(accepted.isBusy(type), false, 'SMS have a part of their own');
  await store.close();
});

t.test('while SMS to people fill their part, mails are told, also of the devices behind', async (t) => {
  await using relay = await fakeRelay();
  await using cloud = await startCloud({
    env: { ...through(relay), FIELDPOST_MAX_QUEUE: '40' },
    send: down,
  });
  // More than the teller accepts at the same time, each with people of its own. The last ones have a mail alone.
  const devices = Array.from({ length: 90 }, (_, n) => `pump-${100 + n}`);
  for (const [n, device] of devices.entries()) {
    const type2 = { ...JAN, type: 2, destination: `+316123456${100 + n}` };
    const mail = { ...JAN, destination: `${device}@example.com` };
    const destinations = n < 70 ? [type2] : [mail];
    await cloud.putFirst({ destinations }, device);
    await cloud.beat(device);
  }
  await cloud.passUntil(() => relay.mails.length >= 20);
  t.equal(relay.mails.length, 20);
  t.match(await cloud.call('GET', '/healthz'), {
    status: 503,
    json: { detail: 'the outbox has no more room for SMS, calls and pushes: 10 messages wait' },
  });
});

t.test('members that the contract does not have are ignored', async (t) => {
  await using cloud = await startCloud({ send: down });
  const others = { collapse_key: 'k', priority: 5, expires_in_s: 1, subject: 'Pump', title: 'Pump' };
  for (const device of ['pump-3', 'pump-4']) t.match(await post(cloud, device, 'a', others), taken);
  await cloud.clock.advance(2 * SECOND_MS);
  const { outbox } = (await cloud.call('GET', '/status')).json;
  t.strictSame(outbox, { mail: 0, short: 0, devices: 2, hook: 0 }, 'no device ends a message of another');
});

t.test('messages of devices that fill the disk leave room for a notification', async (t) => {
  await using relay = await fakeRelay();
  await using cloud = await startCloud({
    env: { ...through(relay), FIELDPOST_MAX_SPOOL: '40MiB' },
    send: down,
  });
  await cloud.putFirst({ destinations: [JAN] });
  await cloud.beat();
  const push = { type: 4, destination: 'OWNER', message: 'x'.repeat(50_000), priority: 'high' };
  let last = await post(cloud, 'thief-0', 'm', push);
  for (let n = 1; last.status === 202; n++) last = await post(cloud, `thief-${n}`, 'm', push);
  t.match(last, full);
  t.match(await cloud.call('GET', '/healthz'), { status: 200 });
  const { queue } = (await cloud.call('GET', '/status')).json;
  t.equal(queue.reason, null, 'what is kept for notifications is free');
  await cloud.passUntil(() => relay.mails.length > 0);
  t.strictSame(relay.mails[0]?.to, [JAN.destination]);
});
