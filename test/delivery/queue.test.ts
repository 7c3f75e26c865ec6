// A process of its own: it takes long.

import t from 'tap';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import { createConnect } from '../../src/base/system/connect.js';
import { CONFIRM_MS } from '../../src/mail/delivery/blame.js';
import { STOP_SENDING_MS } from '../../src/mail/delivery/queue.js';
import type { Ending } from '../../src/mail/delivery/smtp/protocol.js';
import { openSession } from '../../src/mail/delivery/smtp/session.js';
import { SESSION_IDLE_MS } from '../../src/mail/delivery/smtp/smtp-transport.js';
import type { Address } from '../../src/mail/message/address.js';
import { FakeClock, settled } from '../support/clock.js';
import { bench, RELAY, reply, SPARE, TAKEN, trouble, until } from '../support/delivery.js';
import { seededRandom, testSeed } from '../support/random.js';
import { fakeRelay } from '../support/relay.js';
import { stall } from '../support/stall.js';

const DOWN = trouble('connect', 'unreachable');

/** In fewer turns of promises a message is accepted, or sent. */
const TURNS = 80;

const seed = testSeed();
t.comment(`FIELDPOST_TEST_SEED=${seed}`);

t.test('everything is sent once, oldest first, over one connection, which closes when idle', async (t) => {
  const { clock, relays, delivery, post, status, lines } = await bench();
  const ids = await post(100);
  delivery.start();
  await settled();
  await clock.advance(0);
  t.same(relays.offered, ids);
  t.same(new Set(ids.map(status)), new Set(['sent']));
  t.equal(relays.opened.length, 1);
  t.equal(relays.announced, 98, 'all but the probe and the one after it');
  t.match(relays.envelopes[0], { from: 'device@example.com', to: 'john@example.com' });
  await clock.advance(SESSION_IDLE_MS - 1);
  t.equal(relays.open, 1);
  await clock.advance(1);
  t.equal(relays.open, 0);
  t.equal(clock.pending, 0, 'nothing to do, no timer');
  t.same(
    lines.slice(0, 2).map(({ event, fields }) => [event, fields.id]),
    [
      ['relay ok', undefined],
      ['sent', ids[0]],
    ],
  );
  t.equal(lines.length, 101);
});

t.test('without a relay, or while held, messages wait and nothing moves', async (t) => {
  for (const settings of [{ relays: [] }, {}]) {
    const { clock, store, relays, delivery, post, status } = await bench({ settings });
    await store.hold();
    const [id] = await post();
    delivery.start();
    delivery.nudge();
    await clock.advance(DAY_MS);
    t.equal(status(id), 'queued');
    t.equal(relays.opened.length, 0);
    t.equal(clock.fired + clock.pending, 0);
    t.equal(delivery.relayView().state, settings.relays ? 'none' : 'unknown');
    await store.release();
    delivery.nudge();
    await clock.advance(0);
    t.equal(status(id), settings.relays ? 'queued' : 'sent');
  }
});

t.test('without a relay its state dates from the start, by the wall clock as it is now', async (t) => {
  const { clock, delivery } = await bench({ clock: new FakeClock({ wallMs: 0 }), settings: { relays: [] } });
  delivery.start();
  await clock.advance(MINUTE_MS);
  clock.leap(50 * 365 * DAY_MS);
  t.match(delivery.relayView(), { state: 'none', sinceMs: 50 * 365 * DAY_MS });
});

t.test('a hold lets the message in progress end, and no other begin', async (t) => {
  const { clock, store, relays, delivery, post, status } = await bench();
  const [a, b] = await post(2);
  relays.onSend = async () => {
    await store.hold();
    return TAKEN;
  };
  delivery.start();
  await clock.advance(HOUR_MS);
  t.same([status(a), status(b)], ['sent', 'queued']);
  // Held while connecting: nothing is taken either.
  relays.onOpen = async () => {
    await store.hold();
    return null;
  };
  await store.release();
  delivery.nudge();
  await clock.advance(HOUR_MS);
  t.same([status(b), relays.open, clock.pending], ['queued', 0, 0]);
});

t.test('an announced message that must no longer be sent goes back, and is the next again', async (t) => {
  const { clock, store, relays, delivery, post, status } = await bench();
  await post();
  delivery.start();
  await clock.advance(0);
  const [a, b, c] = await post(3);
  relays.onSend = async (id) => {
    if (id === a) await store.hold();
    return TAKEN;
  };
  delivery.nudge();
  await clock.advance(HOUR_MS);
  t.same([status(a), status(b), status(c)], ['sent', 'queued', 'queued']);
  t.same([relays.announced, relays.open, clock.pending], [1, 0, 0]);
  await store.release();
  delivery.nudge();
  await clock.advance(0);
  t.same(relays.offered.slice(1), [a, b, c]);
  t.same(new Set([b, c].map(status)), new Set(['sent']));
});

t.test('no message is sent before the outcome of the last but one is recorded', async (t) => {
  for (const recordsEach of [false, true]) {
    const { clock, disk, relays, delivery, post } = await bench({ recordsEach });
    await post();
    delivery.start();
    await clock.advance(0);
    const ids = await post(3);
    const { release } = stall(disk);
    delivery.nudge();
    await settled();
    const sent = recordsEach ? 1 : 2;
    t.same(relays.offered.slice(1), ids.slice(0, sent), 'another is announced, and not sent');
    release();
    await settled();
    t.same(relays.offered.slice(1), ids);
  }
});

t.test('messages for the cloud are left alone', async (t) => {
  const { clock, relays, delivery, post, status } = await bench();
  const others = [...(await post(1, 2)), ...(await post(1, 3)), ...(await post(1, 4))];
  delivery.start();
  await clock.advance(DAY_MS);
  t.same(others.map(status), ['queued', 'queued', 'queued']);
  t.equal(relays.opened.length, 0);
  const [mail] = await post();
  delivery.nudge();
  await clock.advance(0);
  t.equal(status(mail), 'sent');
});

t.test(
  'a week without a network charges nothing, costs next to nothing, and ends at the first try',
  async (t) => {
    const { clock, store, watched, relays, delivery, post, status, events } = await bench({
      random: seededRandom(seed),
    });
    relays.onOpen = () => DOWN;
    const ids = await post(200);
    delivery.start();
    for (let day = 0; day < 7; day++) {
      await clock.advance(DAY_MS);
      // New mail is no reason to try a relay that fails.
      ids.push(...(await post()));
      const before = relays.opened.length;
      for (let turn = 0; turn < 100; turn++) delivery.nudge();
      await settled();
      t.ok(relays.opened.length <= before + 1);
    }
    // Full jitter below five minutes: two and a half on average.
    const expected = (7 * DAY_MS) / (2.5 * MINUTE_MS);
    t.ok(clock.fired < 1.2 * expected, `${clock.fired} timers in a week`);
    t.equal(relays.opened.length, clock.fired + 1, 'each timer is one try');
    t.equal(watched.claimed.length, 0, 'a message is not claimed before there is a connection');
    t.same(new Set(ids.map((id) => store.get(id)?.attempts)), new Set([0]));
    t.same(events(), ['relay failing'], 'one line for one change');
    relays.onOpen = () => null;
    await clock.advance(5 * MINUTE_MS);
    t.same(new Set(ids.map(status)), new Set(['sent']));
    t.same(relays.offered, ids);
  },
);

const OUTAGES: readonly { name: string; open?: Ending; send?: Ending }[] = [
  { name: 'DNS that is down', open: trouble('resolve', 'dns') },
  { name: 'a relay with a full disk', send: reply('mail', '452 4.3.1 full') },
  { name: 'a relay that does not relay for us', send: reply('rcpt', '554 5.7.1 relay access denied') },
];

for (const { name, open, send } of OUTAGES) {
  t.test(
    `a week of ${name} fails, expires and charges nothing, and all goes out, oldest first`,
    async (t) => {
      const { clock, store, relays, delivery, post, status } = await bench({ random: seededRandom(seed) });
      relays.onOpen = () => open ?? null;
      relays.onSend = () => send ?? TAKEN;
      const ids = await post(100);
      delivery.start();
      await clock.advance(7 * DAY_MS);
      t.same(new Set(ids.map(status)), new Set(['queued']));
      t.same(new Set(ids.map((id) => store.get(id)?.attempts)), new Set([0]));
      relays.onOpen = () => null;
      relays.onSend = () => TAKEN;
      relays.offered.length = 0;
      await clock.advance(10 * MINUTE_MS);
      t.same(new Set(ids.map(status)), new Set(['sent']));
      const [probe, ...others] = relays.offered;
      t.same(
        others,
        ids.filter((id) => id !== probe),
        'but for the one that showed the relay to be well',
      );
    },
  );
}

t.test('a mail that makes the relay report its own fault delays the others once', async (t) => {
  const { clock, relays, delivery, post, status, events } = await bench({ random: seededRandom(seed) });
  const ids = await post(50);
  const [poison, ...others] = ids as [string, ...string[]];
  relays.onSend = (id) => (id === poison ? reply('dot', '452 4.3.1 full') : TAKEN);
  delivery.start();
  await clock.advance(10 * SECOND_MS);
  t.same(new Set(others.map(status)), new Set(['sent']));
  t.equal(status(poison), 'deferred', 'the others show that it is the mail');
  t.equal(events().filter((event) => event === 'relay failing').length, 1);
});

t.test('a mail that a relay refuses while it takes others is deferred', async (t) => {
  for (const [phase, words] of [
    ['rcpt', '554 5.7.1 <x@elsewhere.example>: Relay access denied'],
    ['rcpt', '454 4.7.1 <x@elsewhere.example>: Relay access denied'],
    ['mail', '553 5.7.1 <old@field.example>: Sender address rejected: not owned by user device'],
  ] as const) {
    const denied = reply(phase, words);
    const random = seededRandom(seed);
    const { clock, store, relays, delivery, post, status, events } = await bench({ random });
    const ids = await post(400);
    const refused = new Set(ids.filter((_, index) => index % 20 === 0));
    relays.onSend = (id) => (refused.has(id) ? denied : TAKEN);
    delivery.start();
    await clock.advance(0);
    for (const id of ids) {
      const expected = refused.has(id) ? 'deferred' : 'sent';
      if (status(id) !== expected) t.equal(status(id), expected, `${id}, without any pause`);
    }
    t.notOk(events().includes('relay failing'));
    t.equal(delivery.relayView().state, 'ok');
    // Days without another mail: they age, and the relay is as it was.
    await clock.advance(12 * HOUR_MS);
    t.notOk(events().includes('relay failing'));
    while (clock.bootMs() < 6 * DAY_MS) {
      await clock.advance(8 * HOUR_MS);
      await post();
      delivery.nudge();
    }
    t.same(new Set([...refused].map(status)), new Set(['expired']));
    t.notOk(events().includes('relay failing'));
    for (const id of refused) t.equal(store.get(id)?.lastReply, words);
  }
});

/** A relay that takes so many mails in each window of time, and refuses the others with these words. */
function withQuota(clock: FakeClock, count: number, windowMs: number, words: string) {
  let [windowStartMs, taken] = [clock.bootMs(), 0];
  return (): Ending => {
    if (clock.bootMs() - windowStartMs >= windowMs) [windowStartMs, taken] = [clock.bootMs(), 0];
    return ++taken > count ? reply('dot', words) : TAKEN;
  };
}

// The first of each is published, the second says nothing that a table could know.
for (const words of [
  '550 5.4.5 Daily user sending limit exceeded',
  '554 5.0.0 The bird is not in the mood',
  '421 4.7.0 Try again later, closing connection',
]) {
  t.test(`a backlog goes out over several windows of a quota, and none fails: ${words}`, async (t) => {
    for (const [count, relayConnections] of [
      [50, 1],
      [10, 4],
      [5, 1],
    ] as const) {
      const random = seededRandom(seed);
      const { clock, relays, delivery, post, status } = await bench({
        random,
        settings: { relayConnections },
      });
      const ids = await post(8 * count);
      relays.onSend = withQuota(clock, count, 6 * HOUR_MS, words);
      delivery.start();
      await clock.advance(0);
      if (!words.startsWith('421')) {
        t.ok(
          relays.offered.length <= count + 2 + relayConnections,
          `${relays.offered.length} were offered at once`,
        );
        t.match(delivery.relayView(), { state: 'refusing', reason: new RegExp(words) });
        const inMs = (delivery.relayView().nextTryMs ?? 0) - clock.wallMs();
        t.ok(inMs > 4 * MINUTE_MS && inMs <= 30 * MINUTE_MS, `the next try is in ${inMs} ms`);
        relays.offered.length = 0;
        delivery.wake();
        await clock.advance(0);
        t.equal(relays.offered.length, 1, 'a person is obeyed at once, with one probe');
      }
      await clock.advance(5 * DAY_MS);
      t.same(new Set(ids.map(status)), new Set(['sent']));
      t.match(delivery.relayView(), { state: 'ok', reason: null, nextTryMs: null });
    }
  });
}

t.test(
  'a refusal that says nothing is final once the relay has taken another and refuses again',
  async (t) => {
    const { clock, store, relays, delivery, post, status, events } = await bench();
    const ids = await post(5);
    const spam = ids[1] ?? '';
    relays.onSend = (id) => (id === spam ? reply('dot', '554 5.7.1 Nobody wants this') : TAKEN);
    delivery.start();
    await clock.advance(0);
    t.same(relays.offered, ids);
    t.match(store.get(spam), { status: 'deferred', lastReply: '554 5.7.1 Nobody wants this' });
    await clock.advance(CONFIRM_MS);
    t.same(relays.offered, [...ids, spam]);
    t.match(store.get(spam), { status: 'failed', lastReply: '554 5.7.1 Nobody wants this' });
    t.same(new Set(ids.filter((id) => id !== spam).map(status)), new Set(['sent']));
    t.notOk(events().includes('relay refusing'));
  },
);

t.test('with any quota from three on, and with words that say nothing, none fails', async (t) => {
  const random = seededRandom(seed);
  for (let world = 0; world < 30; world++) {
    const count = 3 + Math.floor(random() ** 2 * 40);
    const windowMs = MINUTE_MS * 10 ** (3 * random());
    const relayConnections = 1 + Math.floor(4 * random());
    const latencyMs = Math.floor(2 * SECOND_MS * random());
    const { clock, relays, delivery, post, status } = await bench({ random, settings: { relayConnections } });
    const ids = await post(1 + Math.floor(5 * count * random()));
    const quota = withQuota(clock, count, windowMs, '554 5.0.0 The bird is not in the mood');
    relays.onSend = () => new Promise((answer) => clock.after(latencyMs, () => answer(quota())));
    delivery.start();
    await clock.advance(4.5 * DAY_MS);
    const about = `${ids.length} mails, ${count} in ${windowMs} ms, ${relayConnections} connections`;
    t.same(new Set(ids.map(status)), new Set(['sent']), about);
    await delivery.stop();
  }
});

t.test('alone it is tried by its age, keeps its reply, and fails after a day', async (t) => {
  const { clock, store, relays, delivery, post } = await bench();
  const [id = ''] = await post();
  relays.onSend = () => reply('rcpt', '550 5.7.1 Nobody wants this');
  delivery.start();
  await clock.advance(0);
  t.match(store.get(id), { status: 'deferred', lastReply: '550 5.7.1 Nobody wants this' });
  await clock.advance(DAY_MS);
  t.equal(store.get(id)?.status, 'deferred', 'a quota of a day may be the cause');
  t.equal(delivery.relayView().state, 'unknown');
  await clock.advance(3 * HOUR_MS);
  t.match(store.get(id), { status: 'failed', lastReply: '550 5.7.1 Nobody wants this' });
  t.ok(relays.offered.length < 40, `${relays.offered.length} tries`);
});

t.test('one denied mail in a quiet queue does not keep the next good one for long', async (t) => {
  const { clock, relays, delivery, post, status } = await bench({ random: seededRandom(seed) });
  const [denied] = await post();
  relays.onSend = (id) => (id === denied ? reply('rcpt', '554 5.7.1 Relay access denied') : TAKEN);
  delivery.start();
  await clock.advance(DAY_MS);
  t.equal(status(denied), 'queued', 'nobody knows yet whose trouble it is');
  t.match(delivery.relayView(), { state: 'refusing', reason: /FIELDPOST_RELAY_USER.*Relay access denied/ });
  const [good] = await post();
  delivery.nudge();
  await clock.advance(5 * MINUTE_MS);
  t.same([status(good), status(denied)], ['sent', 'deferred']);
  t.equal(delivery.relayView().state, 'ok');
});

t.test('when the link is back the relay is tried at once', async (t) => {
  const { clock, relays, delivery, post, status } = await bench();
  relays.onOpen = () => DOWN;
  const [id] = await post();
  delivery.start();
  await clock.advance(DAY_MS);
  t.match(delivery.relayView(), { state: 'failing', reason: /unreachable/ });
  relays.onOpen = () => null;
  await clock.advance(0);
  t.equal(status(id), 'queued');
  delivery.wake();
  await clock.advance(0);
  t.equal(status(id), 'sent');
  t.match(delivery.relayView(), { state: 'ok', sinceMs: clock.wallMs() });
});

t.test('while a relay fails one message at a time is tried, and never the same twice in a row', async (t) => {
  const { clock, store, relays, delivery, post, status } = await bench({ settings: { relayConnections: 4 } });
  const ids = await post(3);
  relays.onSend = () => reply('rcpt', '554 5.7.1 relaying denied');
  delivery.start();
  await clock.advance(HOUR_MS);
  t.equal(relays.mostAtOnce, 1);
  t.same(relays.offered.slice(0, 6), [...ids, ...ids]);
  t.same(new Set(ids.map((id) => store.get(id)?.attempts)), new Set([0]));
  // One that the relay would take comes through at the very next try.
  const [good] = await post();
  relays.onSend = (id) => (id === good ? TAKEN : reply('rcpt', '554 5.7.1 relaying denied'));
  delivery.nudge();
  await clock.advance(5 * MINUTE_MS);
  t.equal(status(good), 'sent');
});

t.test('a message sent before a relay failed does not end the probe', async (t) => {
  const { clock, relays, delivery, post } = await bench({ settings: { relayConnections: 3 } });
  relays.takesAhead = false;
  const [first] = await post();
  delivery.start();
  await clock.advance(0);
  t.same(relays.offered.splice(0), [first]);
  const ids = await post(4);
  const busy = reply('mail', '451 4.3.0 busy');
  relays.onSend = (id) => {
    if (id === ids[1]) return busy;
    return new Promise((answer) => {
      if (id === ids[0]) clock.after(10 * SECOND_MS, () => answer(busy));
    });
  };
  delivery.nudge();
  await clock.advance(HOUR_MS);
  // Three at once, in the order in which the disk gives them, of which the second fails; a probe with the fourth, which
  // hangs like the third. That the first fails meanwhile is no reason for another probe.
  t.same([relays.offered.slice(0, 3).sort(), relays.offered.slice(3)], [ids.slice(0, 3), ids.slice(3)]);
});

t.test('a poisonous mail delays the others by one back-off, then waits on its own', async (t) => {
  const { clock, store, relays, delivery, post, status } = await bench({ settings: { relayConnections: 2 } });
  const [poison = '', ...others] = await post(20);
  relays.onSend = (id) => (id === poison ? trouble('content', 'lost') : TAKEN);
  delivery.start();
  await clock.advance(0);
  t.equal(delivery.relayView().state, 'failing');
  await clock.advance(SECOND_MS);
  t.same(new Set(others.map(status)), new Set(['sent']));
  t.match(store.get(poison), { status: 'deferred', attempts: 1, lastReply: 'lost at content' });
  t.equal(relays.offered.filter((id) => id === poison).length, 2);
  // It costs those that come later no more each time it is due.
  for (let turn = 0; turn < 5; turn++) {
    await clock.advance(HOUR_MS);
    const [later] = await post();
    delivery.nudge();
    await clock.advance(2 * SECOND_MS);
    t.equal(status(later), 'sent');
  }
});

/** Two relays before one that works; each of their answers, to opening or to a mail, takes a minute and is none. */
async function behindHanging() {
  const third = { ...RELAY, host: 'third.example' };
  const made = await bench({ settings: { relays: [RELAY, SPARE, third] } });
  const { clock, relays } = made;
  const late = (phase: 'connect' | 'rcpt') =>
    new Promise<Ending>((done) => clock.after(MINUTE_MS, () => done(trouble(phase, 'deadline'))));
  const via = new Map<string, string>();
  relays.onSend = (id, { host }) => {
    via.set(id, host);
    return TAKEN;
  };
  return { ...made, third, late, via };
}

t.test('relays that hang keep no mail from the one that works', async (t) => {
  const { clock, relays, delivery, post, status, third, late, via } = await behindHanging();
  relays.onOpen = ({ host }) => (host === third.host ? null : late('connect'));
  await post();
  delivery.start();
  await clock.advance(3 * MINUTE_MS);
  for (let turn = 0; turn < 100; turn++) {
    const [id = ''] = await post();
    delivery.nudge();
    await clock.advance(0);
    t.equal(via.get(id), third.host, `mail ${turn}`);
    await clock.advance(7 * SECOND_MS);
  }
  t.ok(relays.opened.filter((host) => host === RELAY.host).length > 5, 'they are tried all the same');
  relays.onOpen = () => null;
  await clock.advance(10 * MINUTE_MS);
  const ids = await post(3);
  delivery.nudge();
  await clock.advance(0);
  await clock.advance(SECOND_MS);
  const [last = ''] = await post();
  delivery.nudge();
  await clock.advance(0);
  t.same(new Set(ids.map(status)), new Set(['sent']));
  t.equal(via.get(last), RELAY.host, 'back to the first');
  await delivery.stop();
  t.equal(relays.open, 0);
});

t.test('a relay that hangs after the login delays one mail at a time', async (t) => {
  const { clock, relays, delivery, post, store, third, late, via } = await behindHanging();
  const send = relays.onSend;
  relays.onSend = (id, relay) => (relay.host === third.host ? send(id, relay) : late('rcpt'));
  await post();
  delivery.start();
  await clock.advance(3 * MINUTE_MS);
  for (let turn = 0; turn < 50; turn++) {
    const ids = await post(3);
    delivery.nudge();
    await clock.advance(0);
    t.ok(ids.filter((id) => via.get(id) === third.host).length >= 2, `mails ${turn}`);
    await clock.advance(7 * SECOND_MS);
  }
  await clock.advance(HOUR_MS);
  t.equal(store.counts().queued + store.counts().sending, 0);
  await delivery.stop();
});

t.test('the next of several relays takes over until the first works again', async (t) => {
  const { clock, store, relays, delivery, post } = await bench({ settings: { relays: [RELAY, SPARE] } });
  relays.onOpen = ({ host }) => (host === RELAY.host ? DOWN : null);
  const via = new Map<string, string>();
  relays.onSend = (id, { host }) => {
    via.set(id, host);
    return TAKEN;
  };
  const [a = ''] = await post();
  delivery.start();
  await clock.advance(0);
  t.equal(via.get(a), SPARE.host, 'at once');
  t.match(delivery.relayView(), { state: 'ok', reason: /^relay\.example:587: unreachable/ });
  relays.onOpen = () => null;
  await clock.advance(SECOND_MS);
  const [b = ''] = await post();
  delivery.nudge();
  await clock.advance(0);
  t.equal(via.get(b), SPARE.host, 'nothing waits for one that failed');
  const [next = ''] = await post();
  delivery.nudge();
  await clock.advance(0);
  t.equal(via.get(next), RELAY.host, 'it was tried meanwhile');
  const [last = ''] = await post();
  delivery.nudge();
  await clock.advance(0);
  t.equal(via.get(last), RELAY.host);
  t.equal(relays.open, 1, 'the connection to the other is closed');
  relays.onOpen = () => DOWN;
  relays.onSend = () => trouble('mail', 'lost');
  const [c = ''] = await post();
  delivery.nudge();
  await clock.advance(DAY_MS);
  t.match(delivery.relayView(), { state: 'failing', reason: /relay\.example.*; spare\.example/ });
  t.match(store.get(c), { status: 'queued', attempts: 0 });
});

t.test(
  'four connections never send one message twice, and no more are opened than there is work',
  async (t) => {
    const random = seededRandom(seed);
    const { clock, watched, relays, delivery, post, status } = await bench({
      settings: { relayConnections: 4 },
    });
    const [first] = await post();
    delivery.start();
    await clock.advance(0);
    t.equal(status(first), 'sent');
    await clock.advance(SESSION_IDLE_MS);
    const [second] = await post();
    delivery.nudge();
    await clock.advance(0);
    t.equal(status(second), 'sent');
    t.equal(relays.opened.length, 2, 'one message, one connection');
    // It answers in a different order than it was asked, and now and then says no.
    relays.onSend = async () => {
      await new Promise<void>((answer) => clock.after(Math.ceil(random() * 50), answer));
      const luck = random();
      if (luck < 0.05) return reply('rcpt', '450 4.2.0 later');
      if (luck < 0.1) return trouble('dot', 'lost');
      return luck < 0.15 ? reply('mail', '451 4.3.0 later') : TAKEN;
    };
    const ids = await post(300);
    delivery.nudge();
    await clock.advance(2 * DAY_MS);
    // The store refuses a message that is being sent; here every one has come to its end.
    t.same(new Set(ids.map(status)), new Set(['sent']));
    t.equal(relays.mostAtOnce, 4);
    t.ok(watched.claimed.length > 300, 'the relay did say no');
    t.equal(relays.open, 0);
    t.equal(clock.pending, 0);
  },
);

t.test('slow mails do not keep the other connections from new work', async (t) => {
  const { clock, relays, delivery, post, status } = await bench({ settings: { relayConnections: 3 } });
  const [first] = await post();
  delivery.start();
  await clock.advance(0);
  t.equal(status(first), 'sent');
  relays.onOpen = () => new Promise((open) => clock.after(SECOND_MS, () => open(null)));
  const slow = await post(2);
  relays.onSend = (id) => (slow.includes(id) ? new Promise<never>(() => undefined) : TAKEN);
  delivery.nudge();
  await clock.advance(SECOND_MS / 2);
  // The second line is on its way for the second slow mail; the new one finds no line sent for it.
  const [quick] = await post();
  delivery.nudge();
  const { fired } = clock;
  await clock.advance(2 * SECOND_MS);
  t.same([...slow, quick].map(status), ['sending', 'sending', 'sent']);
  t.equal(clock.fired - fired, 2, 'none but those of the two connections');
});

t.test('a message accepted at any moment of another one is never missed', async (t) => {
  // Each turn of the event loop between the first nudge and the end is a chance to fall asleep too early.
  for (let turns = -TURNS; turns < TURNS; turns++) {
    const { clock, delivery, post, status } = await bench();
    const wait = async (count: number) => {
      for (let turn = 0; turn < count; turn++) await Promise.resolve();
    };
    delivery.start();
    const [a] = await post();
    // Either the first one is noticed while the other is being accepted, or the other comes later.
    const early = turns < 0 ? post() : null;
    await wait(-turns);
    delivery.nudge();
    await wait(turns);
    const [b] = await (early ?? post());
    delivery.nudge();
    await settled();
    if (status(a) !== 'sent' || status(b) !== 'sent') t.fail(`missed after ${turns} turns`);
    t.equal(clock.fired, 0, 'no timer was needed');
  }
});

t.test('flush and retry are noticed, whatever the ready queue had planned', async (t) => {
  const { clock, store, relays, delivery, post, status } = await bench();
  relays.onSend = () => reply('rcpt', '450 4.2.0 later');
  const ids = await post(3);
  delivery.start();
  await clock.advance(SESSION_IDLE_MS);
  t.same(ids.map(status), ['deferred', 'deferred', 'deferred']);
  t.equal(clock.pending, 1, 'one timer for all');
  relays.onSend = () => reply('rcpt', '550 5.1.1 unknown');
  await store.retry(ids[1] ?? '');
  delivery.nudge();
  await clock.advance(0);
  t.same(ids.map(status), ['deferred', 'failed', 'deferred']);
  relays.onSend = () => TAKEN;
  await store.flush();
  delivery.nudge();
  await clock.advance(0);
  t.same(ids.map(status), ['sent', 'failed', 'sent']);
  await store.retry(ids[1] ?? '');
  delivery.nudge();
  await clock.advance(0);
  t.same(ids.map(status), ['sent', 'sent', 'sent']);
});

t.test('a message that is cancelled during the connect is not sent, and nothing spins', async (t) => {
  const { clock, store, relays, delivery, post, status } = await bench();
  const [id = ''] = await post();
  relays.onOpen = async () => {
    await store.cancel(id);
    return null;
  };
  delivery.start();
  await clock.advance(HOUR_MS);
  t.same([status(id), relays.offered, relays.opened.length, clock.pending], ['cancelled', [], 1, 0]);
});

t.test('a message is passed over while it is cancelled, and sent if that fails', async (t) => {
  const { clock, store, disk, relays, delivery, post, status } = await bench();
  const [a = '', b = '', c = ''] = await post(3);
  // The ready queue knows all three by the time that one of them is cancelled.
  let connected: (ending: null) => void = () => undefined;
  relays.onOpen = () => new Promise((done) => (connected = done));
  delivery.start();
  const { release, arrived } = stall(disk);
  const cancelling = store.cancel(a);
  await arrived;
  connected(null);
  await clock.advance(0);
  t.same([status(a), relays.offered], ['queued', [b]]);
  disk.onOperation = () => 'error:EIO';
  release();
  await t.rejects(cancelling, { code: 'storage-failed' });
  disk.onOperation = () => 'ok';
  relays.onOpen = () => null;
  await clock.advance(MINUTE_MS);
  delivery.nudge();
  await clock.advance(0);
  t.same([a, b, c].map(status), ['sent', 'sent', 'sent']);
  t.equal(relays.offered.length, 3);
});

t.test('a delivery that has stopped says nothing of a relay that it could not reach', async (t) => {
  const { clock, store, relays, delivery, post, events } = await bench();
  let misses = 0;
  store.reachability.missed = () => void misses++;
  let fail: () => void = () => undefined;
  relays.onOpen = () => new Promise((done) => (fail = () => done(DOWN)));
  await post();
  delivery.start();
  await settled();
  await delivery.stop();
  fail();
  await clock.advance(HOUR_MS);
  t.same([events(), misses, clock.pending], [[], 0, 0]);
});

t.test('a relay that refuses us is logged once, however many mails it refuses', async (t) => {
  const { clock, lines, relays, delivery, post, status } = await bench();
  const told = () => lines.filter(({ event }) => event === 'put behind').length;
  const refusal = reply('rcpt', '504 5.5.2 <vm>: Helo command rejected: need fully-qualified hostname');
  delivery.start();
  for (const answer of [refusal, reply('mail', '452 4.3.1 Insufficient system storage')]) {
    lines.length = 0;
    relays.onSend = () => answer;
    const ids = await post(40);
    delivery.nudge();
    await clock.advance(HOUR_MS);
    t.ok(relays.offered.splice(0).length > 3, 'it is tried again');
    t.same([told(), lines.filter(({ event }) => /^relay (?:failing|refusing)$/.test(event)).length], [1, 1]);
    relays.onSend = () => TAKEN;
    await clock.advance(HOUR_MS);
    t.same(new Set(ids.map(status)), new Set(['sent']));
    // What comes later is news.
    relays.onSend = () => answer;
    const [later] = await post();
    delivery.nudge();
    await clock.advance(MINUTE_MS);
    t.equal(told(), 2);
    relays.onSend = () => TAKEN;
    await clock.advance(HOUR_MS);
    t.equal(status(later), 'sent');
  }
});

t.test('the state says from the first mail on why a relay refuses us, until it takes one', async (t) => {
  const { clock, relays, delivery, post } = await bench();
  const refusal = reply('rcpt', '554 5.7.1 <a@b.example>: Relay access denied');
  const states: unknown[] = [];
  relays.onSend = () => {
    const { state, reason } = delivery.relayView();
    states.push([state, /FIELDPOST_RELAY_USER/.test(reason ?? '')]);
    return relays.offered.length < 4 ? refusal : TAKEN;
  };
  await post(5);
  delivery.start();
  await clock.advance(0);
  t.same(states.slice(0, 3), [
    ['unknown', false],
    ['unknown', true],
    ['unknown', true],
  ]);
  await clock.advance(HOUR_MS);
  t.match(delivery.relayView(), { state: 'ok', reason: null });
});

t.test('a relay that refuses us is asked in a new session each time', async (t) => {
  const { clock, relays, delivery, post, status } = await bench();
  relays.onSend = () => reply('rcpt', '504 5.5.2 <vm>: Helo command rejected: need fully-qualified hostname');
  const [id] = await post();
  delivery.start();
  await clock.advance(0);
  t.same([relays.opened.length, relays.open], [1, 0]);
  relays.onSend = () => TAKEN;
  await clock.advance(5 * MINUTE_MS);
  t.equal(status(id), 'sent');
  t.equal(relays.opened.length, 2);
});

t.test('a mail has the sender of its acceptance at every try, unless a relay has refused that', async (t) => {
  const refusal = reply('mail', '550 5.1.8 Sender address rejected: Domain not found');
  const of = (address: string) => address as Address;
  let stamp = of('old@example.com');
  const { clock, relays, delivery, post, status } = await bench({
    sender: () => of('new@example.com'),
    stamp: () => stamp,
  });
  const ids = await post(2);
  delivery.start();
  await clock.advance(0);
  const senders = () => relays.envelopes.splice(0).map(({ from }) => from);
  t.same(senders(), ['old@example.com', 'old@example.com']);
  stamp = of('bad@example');
  ids.push(...(await post(2)));
  relays.onSend = () => (relays.envelopes.at(-1)?.from === 'bad@example' ? refusal : TAKEN);
  delivery.nudge();
  await clock.advance(MINUTE_MS);
  t.same(new Set(ids.map(status)), new Set(['sent']), 'a setting that was mended helps what waits');
  t.same(new Set(senders()), new Set(['bad@example', 'new@example.com']));
});

t.test('a mail that a person has queued anew has the present sender', async (t) => {
  const { clock, store, relays, delivery, post, status } = await bench({
    stamp: () => 'old@example.com' as Address,
  });
  const [id = ''] = await post();
  relays.onSend = () => reply('dot', '550 5.7.1 no');
  delivery.start();
  await clock.advance(0);
  if (status(id) !== 'failed') await clock.advance(6 * DAY_MS);
  await store.retry(id);
  relays.onSend = () => TAKEN;
  delivery.nudge();
  await clock.advance(HOUR_MS);
  t.equal(relays.envelopes.at(-1)?.from, 'device@example.com');
});

t.test('a stop lets the message in progress end and begins no other', async (t) => {
  const { clock, relays, delivery, post, status } = await bench({ settings: { relayConnections: 2 } });
  const [a, b] = await post(2);
  relays.onSend = () => new Promise((answer) => clock.after(STOP_SENDING_MS - 1, () => answer(TAKEN)));
  relays.onOpen = () => (relays.opened.length === 1 ? null : DOWN);
  delivery.start();
  await clock.advance(1);
  const stopped = delivery.stop();
  await clock.advance(STOP_SENDING_MS - 2);
  await stopped;
  t.same([status(a), status(b)], ['sent', 'queued']);
  t.same([relays.open, clock.pending], [0, 0]);
  delivery.nudge();
  delivery.wake();
  await clock.advance(HOUR_MS);
  t.equal(status(b), 'queued');
});

t.test('a stop has a deadline, and charges nothing for the message that it breaks off', async (t) => {
  const { clock, store, relays, delivery, post, events } = await bench();
  const [a = ''] = await post(2);
  relays.onSend = () => new Promise<never>(() => undefined);
  delivery.start();
  await clock.advance(0);
  const stopped = delivery.stop();
  await clock.advance(STOP_SENDING_MS);
  await stopped;
  t.match(store.get(a), { status: 'queued', attempts: 0, lastReply: null });
  t.same(events(), ['send abandoned'], 'and the relay is not blamed');
  t.same([relays.open, clock.pending], [0, 0]);
});

t.test('a stop does not wait for a connection that is not there yet', async (t) => {
  const { clock, relays, delivery, post, status } = await bench();
  const [id] = await post();
  let open: (ending: null) => void = () => undefined;
  relays.onOpen = () =>
    new Promise((resolve) => {
      open = resolve;
    });
  delivery.start();
  await settled();
  await delivery.stop();
  open(null);
  await settled();
  t.same([relays.open, status(id), clock.pending], [0, 'queued', 0]);
});

t.test('a relay that ends sessions after some mails costs no pause', async (t) => {
  for (const takesAhead of [true, false]) {
    const { clock, relays, delivery, post, status, events } = await bench();
    relays.takesAhead = takesAhead;
    let left = 0;
    relays.onOpen = () => {
      left = 10;
      return null;
    };
    relays.onSend = () =>
      left-- > 0 ? TAKEN : reply('mail', '452 4.5.3 Too many recipients: Too many messages sent');
    const ids = await post(100);
    delivery.start();
    await clock.advance(0);
    t.same(new Set(ids.map(status)), new Set(['sent']));
    t.equal(relays.opened.length, 10);
    t.notOk(events().includes('relay failing'));
  }
});

/** A relay on a real port, and delivery that speaks to it with real sessions. */
async function wired(port: number) {
  const relay = { host: '127.0.0.1', port, tls: 'never', user: null } as const;
  const clock = new FakeClock({ wallMs: Date.now() });
  const connect = createConnect({ clock });
  const session = { password: null, ca: null, helo: 'device.test', timeoutMs: MINUTE_MS, clock, connect };
  let tries = 0;
  const made = await bench({
    clock,
    settings: { relays: [relay], relayConnections: 2 },
    open: () => {
      tries++;
      return openSession({ ...session, relay });
    },
    render: ({ id }) => {
      const content = Buffer.from(`Subject: ${id}\r\n\r\ntext\r\n`);
      return { size: content.length, smtpUtf8: false, content };
    },
  });
  return { ...made, tries: () => tries };
}

t.test('an urgent message does not wait behind one whose reply does not come', async (t) => {
  for (const first of ['a relay that works', 'a relay that has not shown it yet']) {
    const { clock, relays, delivery, post, postUrgent, status } = await bench();
    const isKnown = first === 'a relay that works';
    if (isKnown) await post();
    delivery.start();
    await clock.advance(0);
    const [slow = ''] = await post();
    const others = await post(3);
    let end: (ending: Ending) => void = () => undefined;
    relays.onSend = (id) =>
      id === slow
        ? new Promise((answer) => {
            end = answer;
          })
        : TAKEN;
    delivery.nudge();
    await clock.advance(10 * SECOND_MS);
    const [urgent = ''] = await postUrgent();
    delivery.nudge();
    await clock.advance(20 * SECOND_MS - 1);
    t.same([status(urgent), relays.open, delivery.relayView().reason], ['queued', 1, null], first);
    await clock.advance(1);
    t.equal(status(urgent), 'sent', first);
    t.equal(relays.offered.at(-1), urgent);
    t.match(delivery.relayView(), { state: 'ok', reason: 'a message has been under way for 30 s' });
    const [next = ''] = await postUrgent();
    delivery.nudge();
    await clock.advance(0);
    t.equal(status(next), 'sent', 'the next at once');
    await clock.advance(5 * MINUTE_MS);
    t.match(delivery.relayView(), { reason: 'a message has been under way for 5 min' });
    t.notOk(
      others.some((id) => relays.offered.includes(id)),
      'only urgent ones may',
    );
    t.equal(relays.open, 1, 'the further connection does not stay');
    end(TAKEN);
    await clock.advance(0);
    t.match(delivery.relayView(), { state: 'ok', reason: null });
    t.same(new Set([slow, ...others].map(status)), new Set(['sent']));
  }
});

t.test('nor behind another urgent one', async (t) => {
  const { clock, relays, delivery, post, postUrgent, status } = await bench();
  await post();
  delivery.start();
  await clock.advance(0);
  const [slow] = await postUrgent();
  const [urgent] = await postUrgent();
  relays.onSend = (id) => (id === slow ? new Promise(() => undefined) : TAKEN);
  delivery.nudge();
  await clock.advance(30 * SECOND_MS);
  t.same([status(slow), status(urgent)], ['sending', 'sent']);
});

t.test('over the wire: a relay that does not answer the final dot', async (t) => {
  const release: (() => void)[] = [];
  let mails = 0;
  await using relay = await fakeRelay({
    dot: () =>
      ++mails === 2
        ? { held: new Promise((done) => release.push(done)), raw: '250 2.0.0 ok\r\n' }
        : undefined,
  });
  const { clock, delivery, post, postUrgent, status } = await wired(relay.port);
  await post();
  delivery.start();
  await relay.arrived(1);
  const [slow] = await post();
  delivery.nudge();
  await until(() => mails === 2);
  const [urgent] = await postUrgent();
  delivery.nudge();
  await clock.advance(30 * SECOND_MS);
  await until(() => status(urgent) === 'sent');
  t.same([status(slow), relay.connections], ['sending', 2]);
  t.match(delivery.relayView().reason, /: a message has been under way for 30 s$/);
  release[0]?.();
  await until(() => status(slow) === 'sent');
  await delivery.stop();
});

t.test('over the wire: all but the refused mails arrive once, also after a lost connection', async (t) => {
  const subject = (content: Buffer) => /Subject: (\S+)/.exec(content.toString())?.[1] ?? '';
  let asked = 0;
  await using relay = await fakeRelay({
    rcpt: () => {
      asked++;
      if (asked === 5) return '450 4.2.0 later';
      if (asked === 9) return '550 5.1.1 unknown';
      return asked === 20 ? { after: 'rst' } : undefined;
    },
  });
  const { clock, store, delivery, post, status, events } = await wired(relay.port);
  const ids = await post(50);
  delivery.start();
  const ended = () => ids.filter((id) => ['sent', 'failed'].includes(status(id) ?? '')).length;
  await until(() => events().includes('put behind') && store.counts().sending === 0);
  await clock.advance(SECOND_MS);
  await until(() => ended() === 49);
  await clock.advance(0.9 * MINUTE_MS);
  await until(() => ended() === 50);
  const arrived = relay.mails.map(({ content }) => subject(content));
  t.equal(arrived.length, 49);
  t.equal(new Set(arrived).size, 49, 'each once');
  t.equal(ids.filter((id) => status(id) === 'failed').length, 1);
  await delivery.stop();
  t.equal(clock.pending, 0);
});

t.test('over the wire: no relay at first, then one', async (t) => {
  const gone = await fakeRelay();
  const { port } = gone;
  await gone.close();
  const { delivery, post, status, tries } = await wired(port);
  const [id] = await post();
  delivery.start();
  await until(() => delivery.relayView().state === 'failing');
  t.match(delivery.relayView().reason, new RegExp(`127.0.0.1:${port}: .`));
  await using relay = await fakeRelay({}, { port });
  delivery.wake();
  await settled();
  // Without a second try, nothing would ever arrive.
  if (!t.equal(tries(), 2, 'wake() tries at once')) return;
  await relay.arrived(1);
  await until(() => status(id) === 'sent');
  t.equal(delivery.relayView().state, 'ok');
  await delivery.stop();
});
