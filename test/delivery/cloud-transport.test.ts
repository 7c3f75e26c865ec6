/** The way through the cloud: what becomes of each answer, when nothing is tried, and what grows old. */
import t from 'tap';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import type { LogFields } from '../../src/base/system/log.js';
import { Delivery } from '../../src/mail/delivery/delivery.js';
import { NO_ATTACHMENTS, type ShortAnswer, type ShortMessage } from '../../src/mail/message/message.js';
import type { IsWanted } from '../../src/mail/store/store.js';
import { FakeClock } from '../support/clock.js';
import { CONFIG, openWatched, post } from '../support/delivery.js';
import { stall } from '../support/stall.js';
import { newDisk } from '../support/store.js';
import { configOf } from '../support/system.js';

const NOTHING = { attachments: NO_ATTACHMENTS, ignored: [] };
const TAKEN: ShortAnswer = { kind: 'taken', reply: '202 taken' };
const LATER: ShortAnswer = {
  kind: 'later',
  reply: 'the cloud is in trouble (503)',
  retryAfterMs: null,
  isReached: true,
};

async function bench({
  random = (): number => 0,
  clock = new FakeClock(),
  from = newDisk(),
  isApart = undefined as IsWanted | undefined,
} = {}) {
  const { store, disk, watched } = await openWatched(clock, { disk: from });
  const lines: [event: string, fields: LogFields][] = [];
  const line = (event: string, fields: LogFields = {}) => void lines.push([event, fields]);
  const log = { debug: line, info: line, warn: line, error: line };
  const made = {
    clock,
    store,
    disk,
    watched,
    lines,
    isOnline: true,
    answer: (async () => TAKEN) as (message: ShortMessage, signal: AbortSignal) => Promise<ShortAnswer>,
    /** What was offered, and when. */
    offered: [] as string[],
    offeredMs: [] as number[],
    messages: [] as ShortMessage[],
  };
  const startMs = clock.bootMs();
  const delivery = new Delivery({
    store,
    config: { ...configOf({}), ...CONFIG, relays: [] },
    connect: () => Promise.reject(new Error('nothing is connected')),
    hostname: () => 'device.example',
    short: {
      isOnline: () => made.isOnline,
      ...(isApart && { isApart }),
      send: (message, signal) => {
        made.offered.push(message.id);
        made.messages.push(message);
        made.offeredMs.push(clock.bootMs() - startMs);
        return made.answer(message, signal);
      },
    },
    clock,
    random,
    log,
  });
  return Object.assign(made, {
    delivery,
    post: async (count = 1, type: 1 | 2 | 3 | 4 = 2) => {
      const ids = await post(store, count, type);
      delivery.nudge();
      return ids as [string, ...string[]];
    },
    status: (id: string) => store.get(id)?.status,
  });
}

t.test('SMS, phone and push go out, emails do not', async (t) => {
  const made = await bench();
  made.delivery.start();
  const [sms] = await made.post(1, 2);
  const [email] = await made.post(1, 1);
  const [phone] = await made.post(1, 3);
  const [push] = await made.post(1, 4);
  await made.clock.advance(0);
  t.same([...made.offered].sort(), [sms, phone, push].sort());
  t.same(
    made.messages.find(({ type }) => type === 2),
    { id: sms, type: 2, destination: '+31612345678', message: 'test' },
  );
  t.match(made.store.get(sms), { status: 'sent', lastReply: '202 taken' });
  t.equal(made.status(email), 'queued');
  t.equal(made.delivery.outcomes.sent, 3);
  t.ok(made.lines.some(([event, { id, relay }]) => event === 'sent' && id === sms && relay === 'cloud'));
});

t.test(
  'one message of each type at a time: a call waits neither behind SMS nor for their provider',
  async (t) => {
    const made = await bench();
    const underWay = new Map<number, number>();
    const pending: (() => void)[] = [];
    made.answer = async ({ type }) => {
      underWay.set(type, (underWay.get(type) ?? 0) + 1);
      t.equal(underWay.get(type), 1, `type ${type}`);
      if (type === 2) await new Promise<void>((done) => pending.push(done));
      underWay.set(type, 0);
      return TAKEN;
    };
    made.delivery.start();
    const sms = await made.post(300, 2);
    await made.clock.advance(0);
    const [call] = await made.post(1, 3);
    // A look over 300 messages that finds none is not repeated at once.
    await made.clock.advance(100);
    t.equal(made.status(call), 'sent', 'while the first SMS hangs');
    t.same(made.offered, [sms[0], call]);
    made.answer = async ({ type }) => (type === 2 ? { ...LATER, retryAfterMs: 600_000 } : TAKEN);
    pending[0]?.();
    await made.clock.advance(MINUTE_MS);
    const [next] = await made.post(1, 3);
    await made.clock.advance(100);
    t.equal(made.status(next), 'sent', 'while SMS are in trouble');
    t.equal(made.delivery.waitReason, LATER.reply);
  },
);

t.test('messages that go elsewhere wait for nobody, and keep nobody waiting', async (t) => {
  for (const down of ['those apart', 'the others']) {
    const made = await bench({ isApart: ({ extras }) => extras?.caller === 'hook' });
    const draft = { type: 4, destination: 'OWNER', content: { message: 'x' }, ...NOTHING } as const;
    const accept = async (caller?: string) => {
      const { ids } = await made.store.accept([{ ...draft, urgent: true, ...(caller && { caller }) }], null);
      made.delivery.nudge();
      return ids[0] as string;
    };
    const apart = new Set<string>();
    const others = new Set<string>();
    made.answer = async ({ id }) =>
      apart.has(id) === (down === 'those apart') ? { ...LATER, isReached: false } : TAKEN;
    for (let n = 0; n < 5; n++) {
      apart.add(await accept('hook'));
      others.add(await accept());
    }
    made.delivery.start();
    const works = down === 'those apart' ? others : apart;
    for (let n = 0; n < 5; n++) {
      await made.clock.advance(10 * SECOND_MS);
      works.add(await accept(works === apart ? 'hook' : undefined));
      await made.clock.advance(100);
      for (const id of works) t.equal(made.status(id), 'sent', `after ${n}0 s ${down} are down`);
    }
    made.answer = async () => TAKEN;
    await made.clock.advance(10 * MINUTE_MS);
    for (const id of [...apart, ...others]) t.equal(made.status(id), 'sent');
    t.equal(new Set(made.offered).size, 15, 'each has a queue');
  }
});

t.test('a refused message fails with the words of the cloud, and blocks no other', async (t) => {
  const made = await bench();
  made.delivery.start();
  const [bad, good] = await made.post(2);
  made.answer = async ({ id }) => (id === bad ? { kind: 'refused', reply: '422 no such number' } : TAKEN);
  await made.clock.advance(0);
  t.match(made.store.get(bad), { status: 'failed', lastReply: '422 no such number' });
  t.equal(made.status(good as string), 'sent');
});

t.test('while the link is not online nothing is attempted or charged; online it goes at once', async (t) => {
  const made = await bench();
  made.isOnline = false;
  made.delivery.start();
  const [id] = await made.post();
  await made.clock.advance(12 * HOUR_MS);
  t.same(made.offered, []);
  t.same(made.watched.claimed, []);
  t.match(made.store.get(id), { status: 'queued', attempts: 0 });
  t.ok(made.clock.fired <= 12, `${made.clock.fired} timers in 12 hours`);
  made.isOnline = true;
  made.delivery.wake();
  await made.clock.advance(0);
  t.equal(made.status(id), 'sent');
});

t.test('a fault of the cloud is charged to no message, and each pause is longer', async (t) => {
  const made = await bench();
  made.answer = async () => LATER;
  made.delivery.start();
  const ids = await made.post(3);
  await made.clock.advance(2 * MINUTE_MS);
  t.same(
    made.offeredMs,
    [0, 1, 3, 7, 15, 31, 63].map((s) => s * SECOND_MS),
  );
  t.same(new Set(made.offered.slice(0, 3)), new Set(ids), 'no probe is the message that failed the last');
  for (const id of ids) t.match(made.store.get(id), { status: 'queued', attempts: 0 });
  t.equal(made.delivery.waitReason, 'the cloud is in trouble (503)');
  made.answer = async () => TAKEN;
  made.offered.length = 0;
  made.delivery.wake();
  await made.clock.advance(0);
  t.same(new Set(made.offered), new Set(ids));
  t.equal(made.delivery.waitReason, null);
});

t.test('a call from before a reboot has its true age when the clock is confirmed', async (t) => {
  const before = await bench();
  before.clock.confirm();
  const [id] = await before.post(1, 3);
  const clock = before.clock.reboot({ offMs: 3 * HOUR_MS });
  const made = await bench({ clock, from: before.disk.afterKill() });
  made.isOnline = false;
  made.delivery.start();
  await made.clock.advance(MINUTE_MS);
  t.equal(made.status(id), 'queued');
  // As the link does when it comes online.
  made.clock.confirm();
  made.isOnline = true;
  made.delivery.wake();
  await made.clock.advance(0);
  t.equal(made.status(id), 'expired');
  t.same(made.offered, []);
});

t.test('a message that cannot be sent expires as soon as the clock shows that it is too old', async (t) => {
  const before = await bench();
  before.clock.confirm();
  const [id] = await before.post(1, 3);
  await before.store.hold();
  const clock = before.clock.reboot({ offMs: 3 * HOUR_MS });
  const made = await bench({ clock, from: before.disk.afterKill() });
  made.delivery.start();
  await made.clock.advance(MINUTE_MS);
  t.equal(made.status(id), 'queued');
  made.clock.confirm();
  made.delivery.wake();
  await made.clock.advance(0);
  t.equal(made.status(id), 'expired');
});

t.test('the pause of a Retry-After is kept, even if somebody asks for a try', async (t) => {
  const made = await bench();
  made.answer = async () => ({ ...LATER, retryAfterMs: 600_000 }) as ShortAnswer;
  made.delivery.start();
  await made.post(2);
  await made.clock.advance(MINUTE_MS);
  made.delivery.wake();
  await made.clock.advance(9 * MINUTE_MS - 1);
  t.equal(made.offered.length, 1);
  made.answer = async () => TAKEN;
  await made.clock.advance(1);
  t.equal(made.offered.length, 3);
});

t.test('one message at which the cloud fails does not delay the next good one', async (t) => {
  const made = await bench();
  made.delivery.start();
  const [poison] = await made.post(1);
  made.answer = async ({ id }) => (id === poison ? LATER : TAKEN);
  await made.clock.advance(MINUTE_MS);
  const [other] = await made.post(1);
  await made.clock.advance(5 * MINUTE_MS);
  t.equal(made.status(other), 'sent', 'it proves whose fault it is');
  for (let hour = 0; hour < 5; hour++) {
    await made.clock.advance(2 * HOUR_MS);
    t.equal(made.status(poison), 'deferred');
    t.equal(made.delivery.waitReason, null);
    const [good] = await made.post(1);
    await made.clock.advance(SECOND_MS);
    t.equal(made.status(good), 'sent');
  }
});

t.test('a network that comes and goes is charged to no message', async (t) => {
  const made = await bench();
  made.delivery.start();
  const [unlucky] = await made.post(1);
  const offline: ShortAnswer = { ...LATER, reply: 'no connection within 15 s', isReached: false };
  for (let turn = 0; turn < 5; turn++) {
    // It is up for one other message at a time.
    made.answer = async ({ id }) => (id === unlucky ? offline : TAKEN);
    await made.post(1);
    await made.clock.advance(5 * MINUTE_MS);
  }
  t.match(made.store.get(unlucky), { status: 'queued', attempts: 0 });
  t.equal(made.delivery.waitReason, offline.reply);
  made.answer = async () => TAKEN;
  made.delivery.wake();
  await made.clock.advance(0);
  t.equal(made.status(unlucky), 'sent');
});

t.test('a message expires at its limit, offered or not', async (t) => {
  for (const [type, maxMs] of [
    [2, DAY_MS],
    [3, HOUR_MS],
    [4, DAY_MS],
  ] as const) {
    const made = await bench();
    made.isOnline = false;
    made.delivery.start();
    const [id] = await made.post(1, type);
    await made.post(1, 1);
    await made.clock.advance(maxMs - 1);
    t.equal(made.status(id), 'queued', String(type));
    await made.clock.advance(1);
    t.match(made.store.get(id), { status: 'expired', lastReply: /before it was offered/ }, String(type));
    await made.clock.advance(DAY_MS);
    const fired = made.clock.fired;
    await made.clock.advance(DAY_MS);
    t.equal(made.clock.fired, fired, 'with nothing that could expire nothing wakes');
  }
  const tried = await bench();
  tried.answer = async () => LATER;
  tried.delivery.start();
  const [phone, sms] = [...(await tried.post(1, 3)), ...(await tried.post(1, 2))] as [string, string];
  await tried.clock.advance(HOUR_MS + 5 * MINUTE_MS);
  t.match(tried.store.get(phone), { status: 'expired' });
  t.equal(tried.status(sms), 'queued');
  const late = await bench();
  late.isOnline = false;
  late.delivery.start();
  const [old] = await late.post(1, 3);
  // Timers are late after a suspend.
  late.clock.suspend(2 * HOUR_MS);
  late.isOnline = true;
  late.delivery.wake();
  await late.clock.advance(0);
  t.equal(late.status(old), 'expired');
  t.same(late.offered, [], 'an alarm call that is too old is not made');
});

t.test('a message that becomes too old while it is offered expires as soon as it is back', async (t) => {
  const made = await bench();
  made.delivery.start();
  made.isOnline = false;
  const [call] = await made.post(1, 3);
  await made.clock.advance(HOUR_MS - SECOND_MS);
  let fail: () => void = () => undefined;
  made.answer = () => new Promise((done) => (fail = () => done(LATER)));
  made.isOnline = true;
  made.delivery.wake();
  await made.clock.advance(30 * SECOND_MS);
  t.equal(made.status(call), 'sending');
  made.isOnline = false;
  const { fired } = made.clock;
  fail();
  await made.clock.advance(SECOND_MS);
  t.equal(made.status(call), 'expired');
  t.ok(made.clock.fired - fired <= 1, 'nobody has looked for it all the time');
});

t.test('a message that expires after a fault of the cloud names that fault', async (t) => {
  const made = await bench();
  made.answer = async () => LATER;
  made.delivery.start();
  const ids = await made.post(2, 3);
  await made.clock.advance(HOUR_MS + MINUTE_MS);
  for (const id of ids) t.match(made.store.get(id), { status: 'expired', lastReply: LATER.reply });
});

t.test('the next message is sent, whichever message is cancelled at any moment', async (t) => {
  const held = await bench();
  held.delivery.start();
  await held.store.hold();
  const [first] = await held.post();
  t.equal(held.delivery.waitReason, null, 'the state is asked for, so the ready queue has looked');
  await held.store.cancel(first);
  await held.store.release();
  held.delivery.wake();
  const [second] = await held.post();
  await held.clock.advance(0);
  t.equal(held.status(second), 'sent', 'cancelled on hold');

  const behind = await bench();
  behind.answer = async () => LATER;
  behind.delivery.start();
  const [poison] = await behind.post();
  await behind.clock.advance(0);
  t.same(behind.offered, [poison]);
  await behind.store.cancel(poison);
  t.equal(behind.delivery.waitReason, null, 'nothing waits');
  await behind.clock.advance(MINUTE_MS);
  behind.answer = async () => TAKEN;
  const [next] = await behind.post();
  await behind.clock.advance(MINUTE_MS);
  t.equal(behind.status(next), 'sent', 'cancelled while it was put behind');

  const leaving = await bench();
  leaving.isOnline = false;
  leaving.delivery.start();
  const [one, two] = (await leaving.post(2, 3)) as [string, string];
  t.equal(leaving.delivery.waitReason, null, 'the ready queue has looked');
  const { release, arrived } = stall(leaving.disk);
  const cancelling = leaving.store.cancel(one);
  await arrived;
  leaving.isOnline = true;
  leaving.delivery.wake();
  await leaving.clock.advance(0);
  t.same([leaving.status(one), leaving.offered], ['queued', [two]], 'while it is cancelled');
  release();
  await cancelling;
  await leaving.clock.advance(HOUR_MS);
  t.same([leaving.status(one), leaving.status(two), leaving.offered], ['cancelled', 'sent', [two]]);
});

t.test('on hold a message that is too old still expires', async (t) => {
  const made = await bench();
  made.delivery.start();
  await made.store.hold();
  const [id] = await made.post(1, 3);
  await made.clock.advance(HOUR_MS);
  t.equal(made.status(id), 'expired');
});

t.test('a Retry-After holds for all messages, also if one message is to blame', async (t) => {
  const pauseMs = 10 * MINUTE_MS;
  const made = await bench();
  made.delivery.start();
  const [poison] = await made.post(1);
  const refusedMs: number[] = [];
  made.answer = async ({ id }) => {
    if (id !== poison) return TAKEN;
    refusedMs.push(made.offeredMs.at(-1) as number);
    return { ...LATER, retryAfterMs: pauseMs };
  };
  const others: string[] = [];
  for (let n = 0; n < 120; n++) {
    others.push(...(await made.post(1)));
    await made.clock.advance(MINUTE_MS);
  }
  const early = made.offeredMs.filter((ms) =>
    refusedMs.some((fromMs) => ms > fromMs && ms < fromMs + pauseMs),
  );
  t.same(early, [], 'before the pause is over');
  t.match(made.store.get(poison), { status: 'deferred' });
  t.ok(refusedMs.length >= 4, `${refusedMs.length} tries`);
  await made.clock.advance(pauseMs);
  t.same(
    others.filter((id) => made.status(id) !== 'sent'),
    [],
  );
  const between = refusedMs.slice(1, -1).map((ms, i) => {
    const untilMs = refusedMs[i + 2] as number;
    return made.offeredMs.filter((offeredMs) => offeredMs > ms && offeredMs < untilMs).length;
  });
  t.ok(
    between.every((count) => count > pauseMs / MINUTE_MS),
    `others that passed between two tries of it: ${between}`,
  );
});

t.test('an outcome that cannot be recorded stops every way out until it can', async (t) => {
  const made = await bench();
  made.delivery.start();
  made.answer = async () => LATER;
  const [call] = await made.post(1, 3);
  await made.clock.advance(0);
  made.answer = async () => {
    made.disk.onOperation = () => 'error:EIO';
    return TAKEN;
  };
  const [sms] = await made.post(1, 2);
  await made.clock.advance(10 * MINUTE_MS);
  t.same(made.offered, [call, sms]);
  made.disk.onOperation = () => 'ok';
  made.answer = async () => TAKEN;
  await made.clock.advance(MINUTE_MS);
  t.same(made.offered, [call, sms, call]);
  t.same([made.status(call), made.status(sms)], ['sent', 'sent']);
});

t.test('a stop gives up the message in progress, and charges nothing for it', async (t) => {
  const hung = await bench();
  hung.delivery.start();
  hung.answer = (_, signal) =>
    new Promise((resolve) =>
      signal.addEventListener('abort', () => resolve({ ...LATER, reply: 'given up' })),
    );
  const [id] = await hung.post();
  await hung.clock.advance(0);
  const over = hung.delivery.stop();
  await hung.clock.advance(10 * SECOND_MS);
  await over;
  t.equal(hung.status(id), 'queued');
  t.match(hung.lines, [['send abandoned', { id }]]);
});
