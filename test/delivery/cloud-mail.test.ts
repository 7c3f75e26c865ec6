/** The cloud as a relay of mails: what becomes of each answer, alone and among other relays. */
import t from 'tap';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import type { LogFields } from '../../src/base/system/log.js';
import { Delivery } from '../../src/mail/delivery/delivery.js';
import type { CloudMail, ShortAnswer } from '../../src/mail/message/message.js';
import type { MailConfig, RelayConfig } from '../../src/mail/settings.js';
import { FakeClock, settled } from '../support/clock.js';
import { CONFIG, damageContent, FakeRelays, openWatched, post, RELAY } from '../support/delivery.js';
import { configOf } from '../support/system.js';

const TAKEN: ShortAnswer = { kind: 'taken', reply: '202 taken' };
const REFUSED: ShortAnswer = { kind: 'refused', reply: '422 no such address' };
const answered = (status: number, retryAfterMs: number | null = null): ShortAnswer => ({
  ...{ kind: 'later', reply: `the cloud failed (${status})`, isReached: true, status, retryAfterMs },
});
const LOST: ShortAnswer = { kind: 'later', reply: 'lost', isReached: true, retryAfterMs: null };
const UNREACHED: ShortAnswer = { ...LOST, reply: 'no way', isReached: false };

async function bench(settings: Partial<MailConfig> = {}, hasLink = true) {
  const clock = new FakeClock();
  const { store, disk } = await openWatched(clock);
  const lines: [event: string, fields: LogFields][] = [];
  const line = (event: string, fields: LogFields = {}) => void lines.push([event, fields]);
  const relays = new FakeRelays();
  const made = {
    ...{ clock, store, disk, lines, relays, isOnline: true },
    answer: (_mail: CloudMail, _signal: AbortSignal): ShortAnswer | Promise<ShortAnswer> => TAKEN,
    offered: [] as CloudMail[],
    offeredMs: [] as number[],
  };
  const startMs = clock.bootMs();
  const way = {
    isOnline: () => made.isOnline,
    send: async () => TAKEN,
    async sendMail(mail: CloudMail, signal: AbortSignal) {
      made.offered.push(mail);
      made.offeredMs.push(clock.bootMs() - startMs);
      return await made.answer(mail, signal);
    },
  };
  const delivery = new Delivery({
    ...{ store, clock, random: () => 0 },
    config: { ...configOf({}), ...CONFIG, relays: ['cloud'], ...settings },
    connect: () => Promise.reject(new Error('nothing is connected')),
    hostname: () => 'device.example',
    openSession: ({ relay }) => relays.session(relay as RelayConfig),
    short: hasLink ? way : null,
    log: { debug: line, info: line, warn: line, error: line },
  });
  delivery.start();
  return Object.assign(made, {
    delivery,
    async post(count = 1) {
      const ids = await post(store, count);
      delivery.nudge();
      return ids as [string, ...string[]];
    },
    /** Lets time pass, and what is loaded lazily be loaded. */
    async pass(ms = 0) {
      await settled();
      await clock.advance(ms);
      await settled();
    },
  });
}

t.test('a mail goes to the cloud whole, under its id, and counts as sent by it', async (t) => {
  const made = await bench();
  const [id] = await made.post();
  await made.pass();
  const [mail] = made.offered;
  t.match(mail, { id, to: ['john@example.com'], timeoutMs: 60_000, answerMs: 600_000 });
  t.equal(Buffer.byteLength(String(mail?.octets)), mail?.size);
  t.match(String(mail?.octets), /^From: .*\r\nTo: <john@example\.com>\r\n/);
  t.match(made.store.get(id), { status: 'sent', lastReply: '202 taken' });
  t.ok(made.lines.some(([event, fields]) => event === 'sent' && fields.relay === 'cloud'));
  t.match(made.delivery.relayView(), { state: 'ok', name: 'cloud', reason: null });
});

t.test('a refused mail fails with the words of the cloud, and blocks no other', async (t) => {
  const made = await bench();
  made.answer = ({ id }) => (id === bad ? REFUSED : TAKEN);
  const [bad, good] = (await made.post(2)) as [string, string];
  await made.pass();
  t.match(made.store.get(bad), { status: 'failed', lastReply: REFUSED.reply });
  t.match(made.store.get(good), { status: 'sent' });
});

t.test(
  'a fault of the cloud is charged to no mail; its pauses grow, and its Retry-After is kept',
  async (t) => {
    for (const status of [401, 403, 404, 409, 429, 500, 503, 507, 200]) {
      const made = await bench();
      made.answer = () => answered(status);
      const ids = await made.post(3);
      await made.pass(2 * MINUTE_MS);
      t.same(
        made.offeredMs,
        [0, 1, 3, 7, 15, 31, 63].map((s) => s * SECOND_MS),
        String(status),
      );
      for (const id of ids) t.match(made.store.get(id), { status: 'queued', attempts: 0 });
      t.match(made.delivery.relayView(), { state: 'failing', reason: `cloud: the cloud failed (${status})` });
      made.answer = () => answered(status, 10 * MINUTE_MS);
      made.delivery.wake();
      await made.pass();
      const before = made.offered.length;
      await made.pass(10 * MINUTE_MS - 1);
      t.equal(made.offered.length, before);
      made.answer = () => TAKEN;
      await made.pass(1);
      for (const id of ids) t.match(made.store.get(id), { status: 'sent' });
    }
  },
);

t.test('a cloud that takes no mails refuses this device: they wait, and the reason says so', async (t) => {
  const made = await bench();
  made.answer = () => answered(501);
  const ids = await made.post(2);
  await made.pass(HOUR_MS);
  t.match(made.delivery.relayView(), { state: 'refusing', reason: 'cloud: the cloud failed (501)' });
  for (const id of ids) t.match(made.store.get(id), { status: 'queued', attempts: 0 });
  t.ok(made.offered.length < 10, `${made.offered.length} offers in an hour`);
  made.answer = () => TAKEN;
  await made.pass(2 * HOUR_MS);
  for (const id of ids) t.match(made.store.get(id), { status: 'sent' });
});

t.test('a lost answer is repeated under the same key; the second in a row is charged', async (t) => {
  const made = await bench();
  let lost = 3;
  made.answer = () => (lost-- > 0 ? LOST : TAKEN);
  const [id] = await made.post();
  await made.pass(30 * SECOND_MS);
  t.match(made.store.get(id), { status: 'deferred', attempts: 1 });
  await made.pass(HOUR_MS);
  t.match(made.store.get(id), { status: 'sent' });
  t.same(new Set(made.offered.map((mail) => mail.id)), new Set([id]));
});

t.test('a cloud that cannot be reached charges no mail, and does not age it', async (t) => {
  const made = await bench();
  made.answer = () => UNREACHED;
  made.isOnline = false;
  const [id] = await made.post();
  await made.pass(20 * DAY_MS);
  t.match(made.store.get(id), { status: 'queued', attempts: 0 });
  made.answer = () => TAKEN;
  await made.pass(HOUR_MS);
  t.match(made.store.get(id), { status: 'sent' });
});

t.test('behind a cloud that fails, the next relay takes the mails; and the other way round', async (t) => {
  const made = await bench({ relays: ['cloud', RELAY] });
  made.answer = () => answered(501);
  const [id] = await made.post();
  await made.pass();
  t.match(made.store.get(id), { status: 'sent' });
  t.same(made.relays.offered.length, 1);
  t.match(made.delivery.relayView(), { state: 'ok', name: 'relay.example:587', reason: /^cloud: / });
  const other = await bench({ relays: [RELAY, 'cloud'] });
  other.relays.onOpen = () => ({ phase: 'connect', trouble: { kind: 'refused', words: 'refused' } });
  const [second] = await other.post();
  await other.pass();
  t.match(other.store.get(second), { status: 'sent', lastReply: '202 taken' });
});

t.test('FIELDPOST_RELAY_RATE holds for the cloud', async (t) => {
  const made = await bench({ relayRate: [{ limit: 2, windowMs: MINUTE_MS }] });
  await made.post(5);
  await made.pass(30 * SECOND_MS);
  const first = made.offered.length;
  t.ok(first > 0 && first <= 2, String(first));
  await made.pass(10 * MINUTE_MS);
  t.equal(made.offered.length, 5);
});

t.test('a mail that cannot be read is no fault of the cloud', async (t) => {
  const made = await bench();
  made.answer = () => LOST;
  const [id] = await made.post();
  await damageContent(made.disk, made.store, id);
  await made.pass();
  t.match(made.store.get(id), { status: 'failed', lastReply: 'storage damaged' });
});

t.test('without a link there is a reason, and no offer', async (t) => {
  const made = await bench({}, false);
  const [id] = await made.post();
  await made.pass(MINUTE_MS);
  t.match(made.store.get(id), { status: 'queued', attempts: 0 });
  t.match(made.delivery.relayView().reason, /the link to the cloud of FIELDPOST_CLOUD begins with a restart/);
});

t.test('a stop gives up the mail under way, and keeps it', async (t) => {
  const made = await bench();
  made.answer = (_, signal) =>
    new Promise((resolve) => signal.addEventListener('abort', () => resolve(LOST), { once: true }));
  const [id] = await made.post();
  await made.pass();
  const stopped = made.delivery.stop();
  await made.clock.advance(MINUTE_MS);
  await stopped;
  t.match(made.store.get(id), { status: 'queued', attempts: 0 });
});

t.test('a trial offers nothing to nobody, and tells what the cloud says', async (t) => {
  const made = await bench();
  const trial = async () => (await made.delivery.tryRelays(new AbortController().signal))[0];
  for (const [answer, fault] of [
    [REFUSED, null],
    [answered(501), { blame: 'settings', words: /501/, hint: /FIELDPOST_CLOUD_SERVER_MAILS/ }],
    [answered(401), { blame: 'login' }],
    [answered(503), { blame: 'relay' }],
    [UNREACHED, { blame: 'relay', words: 'no way' }],
  ] as const) {
    made.answer = () => answer;
    t.match(await trial(), { relay: 'cloud', fault });
    t.match(made.offered.at(-1), { to: [], size: 0 });
  }
  t.match((await (await bench({}, false)).delivery.tryRelays(new AbortController().signal))[0], {
    fault: { blame: 'settings', words: /restart/ },
  });
});
