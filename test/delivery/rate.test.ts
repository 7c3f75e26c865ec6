/** FIELDPOST_RELAY_RATE in the queue of emails: no relay ever gets more, and nothing suffers from the wait. */
import t from 'tap';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import { ageMs, type Stamp } from '../../src/base/stamp.js';
import { keptForUrgent, type RateWindow } from '../../src/base/views.js';
import { FakeClock, settled } from '../support/clock.js';
import { bench, RELAY, reply, SPARE, TAKEN, trouble } from '../support/delivery.js';
import { pick, seededRandom, testSeed } from '../support/random.js';
import { acceptOne, newDisk, openQuietly } from '../support/store.js';

const seed = testSeed();
t.comment(`FIELDPOST_TEST_SEED=${seed}`);

const A_DAY: readonly RateWindow[] = [{ limit: 50, windowMs: DAY_MS }];

t.test('without the setting nothing of it is stored or shown', async (t) => {
  const { clock, store, delivery, post } = await bench();
  await post(3);
  delivery.start();
  await clock.advance(0);
  t.equal(store.sentBy.size, 0);
  t.equal(delivery.relayView().rate, null);
});

t.test('300 mails and a relay of 50 a day: 47 a day, in order, and no work in between', async (t) => {
  const { clock, store, watched, relays, delivery, post, postUrgent, status, events } = await bench({
    settings: { relayRate: A_DAY },
  });
  const ids = await post(300);
  delivery.start();
  await clock.advance(0);
  t.same(relays.offered, ids.slice(0, 47));
  t.equal(watched.claimed.length, 47);
  const nextMs = clock.wallMs() + DAY_MS;
  t.same(delivery.relayView().rate, { used: [{ limit: 50, windowMs: DAY_MS, sent: 47 }], nextMs });
  t.match(delivery.relayView(), { state: 'ok', reason: null });
  await clock.advance(10 * SECOND_MS);
  const { fired, pending } = clock;
  t.equal(pending, 1, 'one timer, for the next');
  const claims = watched.claimed.length;
  for (let turn = 0; turn < 100; turn++) delivery.nudge();
  delivery.wake();
  await store.flush();
  await clock.advance(23 * HOUR_MS);
  t.same([clock.fired - fired, watched.claimed.length, relays.opened.length], [0, claims, 1], 'sleeps');
  const urgent = [];
  for (let count = 0; count < 4; count++) urgent.push(...(await postUrgent()));
  delivery.nudge();
  await clock.advance(0);
  t.same(urgent.map(status), ['sent', 'sent', 'sent', 'queued'], 'three are kept for urgent ones');
  await clock.advance(HOUR_MS);
  // The urgent ones, sent in this window, count.
  t.equal(status(urgent[3]), 'sent');
  t.same(relays.offered.slice(50, 60), [urgent[3], ...ids.slice(47, 56)]);
  // One that is over may count with an urgent one.
  t.ok([93, 94].includes(relays.offered.length), `${relays.offered.length}`);
  await clock.advance(10 * DAY_MS);
  t.same(new Set(ids.map(status)), new Set(['sent']));
  t.same([...new Set(events())], ['relay ok', 'sent']);
  t.same(new Set(ids.map((id) => store.get(id)?.attempts)), new Set([1]));
});

t.test('an urgent mail that is deferred does not wait for the turn of ordinary ones', async (t) => {
  const { clock, relays, delivery, post, postUrgent, status } = await bench({
    settings: { relayRate: A_DAY },
  });
  await post(60);
  const [urgent = ''] = await postUrgent();
  let offers = 0;
  relays.onSend = (id) => (id === urgent && offers++ === 0 ? reply('rcpt', '450 4.2.1 busy') : TAKEN);
  delivery.start();
  await clock.advance(0);
  t.equal(status(urgent), 'deferred');
  await clock.advance(2 * HOUR_MS);
  t.equal(status(urgent), 'sent');
});

t.test('urgent mails on one session, or on several, stay within the limit', async (t) => {
  for (const relayConnections of [1, 4]) {
    const { clock, relays, delivery, postUrgent } = await bench({
      settings: { relayRate: [{ limit: 5, windowMs: DAY_MS }], relayConnections },
    });
    for (let count = 0; count < 20; count++) await postUrgent();
    delivery.start();
    await clock.advance(HOUR_MS);
    t.equal(relays.offered.length, 5);
  }
});

t.test('the time in which only the rate keeps mails back expires none of them', async (t) => {
  const { clock, relays, delivery, post, status } = await bench({
    settings: { relayRate: [{ limit: 1, windowMs: HOUR_MS }], retryMaxMs: HOUR_MS },
  });
  const ids = await post(300);
  delivery.start();
  // Refused for now, so that each may expire after its offer.
  relays.onSend = (id) => (id === ids[299] ? reply('rcpt', '450 4.2.1 mailbox busy') : TAKEN);
  await clock.advance(300 * HOUR_MS);
  t.ok(relays.offered.includes(ids[299] ?? ''));
  t.equal(status(ids[299]), 'deferred', 'twelve days with a relay in reach, and 5 days is the age');
});

t.test('a mail that the relay did not take gives its place back, unless it may have arrived', async (t) => {
  for (const [name, ending, used] of [
    ['refused', reply('rcpt', '550 5.1.1 no such user'), 0],
    ['later', reply('rcpt', '450 4.2.1 busy'), 0],
    ['lost before the end', trouble('data', 'lost'), 0],
    ['no session', trouble('connect', 'unreachable'), 0],
    ['lost after the end', trouble('dot', 'lost'), 1],
    ['no answer after the end', trouble('dot', 'deadline'), 1],
  ] as const) {
    const { clock, relays, delivery, post } = await bench({
      settings: { relayRate: [{ limit: 2, windowMs: DAY_MS }] },
    });
    if (ending.phase === 'connect') relays.onOpen = () => ending;
    else relays.onSend = () => ending;
    await post();
    delivery.start();
    await clock.advance(0);
    t.equal(delivery.relayView().rate?.used[0]?.sent, used, name);
  }
});

t.test('an aborted send counts after a reload', async (t) => {
  const { clock, relays, delivery, post, reload, status } = await bench({
    settings: { relayRate: [{ limit: 2, windowMs: DAY_MS }] },
  });
  const ids = await post(2);
  relays.onSend = () => new Promise(() => undefined);
  delivery.start();
  await clock.advance(0);
  const reloading = reload();
  relays.onSend = () => TAKEN;
  await clock.advance(MINUTE_MS);
  await reloading;
  await clock.advance(HOUR_MS);
  t.same(ids.map(status), ['queued', 'queued'], 'the first may have arrived, and one place is kept');
});

t.test('each relay has windows of its own, and a full one is no reason for another relay', async (t) => {
  const { clock, relays, delivery, post } = await bench({
    settings: { relays: [RELAY, SPARE], relayRate: [{ limit: 2, windowMs: HOUR_MS }] },
  });
  const got: string[] = [];
  relays.onSend = (_id, { host }) => {
    got.push(host);
    return TAKEN;
  };
  await post(10);
  delivery.start();
  await clock.advance(0);
  t.same(got, [RELAY.host]);
  let isDown = true;
  relays.onOpen = ({ host }) => (isDown && host === RELAY.host ? trouble('connect', 'refused') : null);
  await clock.advance(HOUR_MS);
  t.same(got, [RELAY.host, SPARE.host], 'the first is down, and the spare one has its own count');
  t.match(delivery.relayView().rate?.used, [{ sent: 1 }]);
  isDown = false;
  const opened = relays.opened.length;
  await clock.advance(DAY_MS);
  t.ok(got.length >= 10, `${got}`);
  t.ok(relays.opened.length - opened < 40, `${relays.opened.length - opened} connections`);
});

t.test('a relay that is down is not probed while its rate is used up', async (t) => {
  const { clock, relays, delivery, post } = await bench({
    settings: { relays: [RELAY, SPARE], relayRate: [{ limit: 1, windowMs: HOUR_MS }] },
  });
  const ofRelay = () => relays.opened.filter((host) => host === RELAY.host).length;
  // A bound, so that a loop without end fails.
  relays.onOpen = () => (relays.opened.length > 50 ? trouble('connect', 'refused') : null);
  relays.onSend = (_id, { host }) => (host === RELAY.host ? trouble('dot', 'lost') : TAKEN);
  await post(10);
  delivery.start();
  for (let minute = 0; minute < 59; minute++) {
    await clock.advance(MINUTE_MS);
    delivery.nudge();
  }
  t.equal(ofRelay(), 1);
  await clock.advance(10 * MINUTE_MS);
  t.equal(ofRelay(), 2);
});

t.test('a relay that is down and used up keeps mail from no other', async (t) => {
  const { clock, relays, delivery, post, status } = await bench({
    settings: { relays: [RELAY, SPARE], relayRate: [{ limit: 1, windowMs: DAY_MS }] },
  });
  relays.onOpen = ({ host }) => (host === SPARE.host ? trouble('connect', 'refused') : null);
  relays.onSend = () => trouble('dot', 'lost');
  const [id = ''] = await post();
  delivery.start();
  await clock.advance(MINUTE_MS);
  t.equal(delivery.relayView().state, 'failing', 'both are down');
  relays.onOpen = () => null;
  relays.onSend = () => TAKEN;
  await clock.advance(2 * HOUR_MS);
  t.equal(status(id), 'sent');
  t.equal(relays.opened.filter((host) => host === RELAY.host).length, 1);
});

t.test('it is tried when its window ends, also while the others pause for longer', async (t) => {
  const { clock, relays, delivery, post, status } = await bench({
    settings: { relays: [RELAY, SPARE], relayRate: [{ limit: 1, windowMs: 2 * MINUTE_MS }] },
  });
  const quota = reply('mail', '550 5.4.5 Daily user sending quota exceeded');
  relays.onSend = (_id, { host }) => (host === SPARE.host ? quota : trouble('dot', 'lost'));
  const [id = ''] = await post();
  delivery.start();
  await clock.advance(MINUTE_MS);
  t.same(relays.opened, [RELAY.host, SPARE.host]);
  relays.onSend = () => TAKEN;
  await clock.advance(2 * MINUTE_MS);
  t.equal(status(id), 'sent');
});

t.test('a restart goes on counting, also with a clock that nobody trusts', async (t) => {
  const settings = { relayRate: [{ limit: 5, windowMs: DAY_MS }] };
  for (const [name, isConfirmed, wallMs, waitMs] of [
    ['confirmed', true, undefined, 20 * HOUR_MS - 2 * MINUTE_MS],
    ['not confirmed', false, undefined, DAY_MS - MINUTE_MS],
    ['dead battery', false, 0, DAY_MS - MINUTE_MS],
  ] as const) {
    const first = await bench({ settings, disk: newDisk() });
    if (isConfirmed) first.clock.confirm();
    await first.post(10);
    first.delivery.start();
    await first.clock.advance(MINUTE_MS);
    t.equal(first.relays.offered.length, 4);
    await first.delivery.stop();
    await first.store.close();
    const clock = first.clock.reboot({ offMs: 4 * HOUR_MS, ...(wallMs !== undefined && { wallMs }) });
    if (isConfirmed) clock.confirm();
    const { relays, delivery } = await bench({ settings, disk: first.disk, clock });
    delivery.start();
    await clock.advance(waitMs - 1);
    t.equal(relays.offered.length, 0, name);
    await clock.advance(1);
    t.equal(relays.offered.length, 4, name);
    await delivery.stop();
  }
});

t.test('the count knows its age after two restarts, also without a message of its boot', async (t) => {
  let clock = new FakeClock();
  const disk = newDisk();
  for (const life of [1, 2, 3]) {
    clock.confirm();
    const { store } = await openQuietly(clock, { disk, historyMax: 0 });
    if (life === 1) {
      const id = await acceptOne(store, 'a');
      store.claim(id);
      await store.settle(id, { kind: 'sent', reply: '', relay: 'r' });
    }
    const ageOf = (stamp: Stamp) => ageMs(stamp, clock, store.boots);
    if (life === 3) t.ok((store.sentBy.get('r')?.waitMs(DAY_MS, 0, ageOf) ?? 0) < 20 * HOUR_MS);
    await store.close();
    clock = clock.reboot({ offMs: 4 * HOUR_MS });
  }
});

t.test('the count is in the journal, too: a killed process loses none that is written', async (t) => {
  const settings = { relayRate: [{ limit: 5, windowMs: DAY_MS }] };
  const first = await bench({ settings });
  await first.post(10);
  first.delivery.start();
  await first.clock.advance(MINUTE_MS);
  // As it is, without a checkpoint.
  const { delivery, relays, clock } = await bench({
    settings,
    disk: first.disk,
    clock: first.clock.reboot(),
  });
  delivery.start();
  await clock.advance(HOUR_MS);
  t.equal(relays.offered.length, 0);
});

t.test('what is known counts in new windows', async (t) => {
  const first = await bench({ settings: { relayRate: [{ limit: 40, windowMs: HOUR_MS }] } });
  await first.post(60);
  first.delivery.start();
  await first.clock.advance(0);
  t.equal(first.relays.offered.length, 38);
  await first.delivery.stop();
  await first.store.close();
  const { clock, relays, delivery } = await bench({
    settings: { relayRate: [{ limit: 41, windowMs: DAY_MS }] },
    disk: first.disk,
    clock: first.clock,
  });
  delivery.start();
  await clock.advance(23 * HOUR_MS);
  t.equal(relays.offered.length, 0);
  await clock.advance(HOUR_MS);
  t.equal(relays.offered.length, 22);
});

t.test('no window is ever exceeded, whatever happens', async (t) => {
  const random = seededRandom(seed);
  for (let round = 0; round < 10; round++) {
    const relayRate = pick<readonly RateWindow[]>(random, [
      [{ limit: 1, windowMs: MINUTE_MS }],
      [{ limit: 7, windowMs: 10 * MINUTE_MS }],
      [
        { limit: 3, windowMs: 10 * SECOND_MS },
        { limit: 45, windowMs: HOUR_MS },
      ],
      [{ limit: 60, windowMs: HOUR_MS }],
    ]);
    const relayList = random() < 0.3 ? [RELAY, SPARE] : [RELAY];
    const settings = {
      ...{ relayRate, relays: relayList, relayConnections: 1 + Math.floor(random() * 4) },
      ...{ retryMinMs: SECOND_MS, retryMaxMs: MINUTE_MS },
    };
    // By relay: the true time of each mail that may have arrived, from its offer on; and whether it was urgent.
    const got = new Map<string, { atMs: number; isUrgent: boolean }[]>();
    let bootedMs = 0;
    let made = await bench({ settings, random });
    const urgentIds = new Set<string>();
    const beganMs = made.clock.wallMs() - made.clock.bootMs();
    // In whole milliseconds: fractions of them are lost from one boot to another.
    const trueMs = () => Math.round(bootedMs + made.clock.bootMs());
    const serve = () => {
      const { relays } = made;
      relays.takesAhead = random() < 0.8;
      relays.onOpen = () => (random() < 0.1 ? trouble('connect', 'unreachable') : null);
      relays.onSend = async (id, { host }) => {
        const chance = random();
        if (chance < 0.1) return reply('rcpt', '450 4.2.1 busy');
        if (chance < 0.15) return trouble('mail', 'lost');
        const list = got.get(host) ?? [];
        got.set(host, list);
        list.push({ atMs: trueMs(), isUrgent: urgentIds.has(id) });
        if (chance < 0.3) await new Promise<void>((done) => made.clock.after(random() * 20_000, done));
        if (chance < 0.2) return trouble('dot', 'lost');
        return TAKEN;
      };
      made.delivery.start();
    };
    serve();
    for (let step = 0; step < 40; step++) {
      const act = random();
      if (act < 0.5) await made.post(1 + Math.floor(random() * 20));
      else if (act < 0.7) for (const id of await made.postUrgent()) urgentIds.add(id);
      else if (act < 0.8) await Promise.all([made.reload(), made.clock.advance(30 * SECOND_MS)]);
      else if (act < 0.9) made.clock.leap((random() - 0.5) * DAY_MS);
      else {
        await Promise.all([made.delivery.stop(), made.clock.advance(30 * SECOND_MS)]);
        await made.store.close();
        const { clock, disk } = made;
        const offMs = Math.floor(random() * HOUR_MS);
        // Another boot, or the same.
        const next: FakeClock = random() < 0.5 ? clock : clock.reboot({ offMs });
        if (next !== clock) bootedMs = trueMs() + offMs;
        if (random() < 0.5) {
          // As NTP does: the wall is right then.
          next.leap(beganMs + bootedMs + next.bootMs() - next.wallMs());
          next.confirm();
        }
        made = await bench({ settings, random, disk, clock: next });
        serve();
      }
      made.delivery.nudge();
      await made.clock.advance(random() * 5 * MINUTE_MS);
    }
    for (const [host, list] of got)
      for (const { limit, windowMs } of relayRate)
        list.forEach(({ atMs }, at) => {
          const within = list.slice(0, at + 1).filter((one) => atMs - one.atMs < windowMs);
          const ordinary = within.filter((one) => !one.isUrgent).length;
          const where = `in ${windowMs} ms at ${host}, round ${round}`;
          if (within.length > limit) t.fail(`${within.length} of ${limit} ${where}`);
          // An urgent one that is claimed later may be offered first.
          if (ordinary > limit - keptForUrgent(limit))
            t.fail(`${ordinary} ordinary ones of ${limit} ${where}`);
        });
    t.ok(got.size > 0);
    await settled();
  }
});
