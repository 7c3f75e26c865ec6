/**
 * Devices with a wrong clock or without a network keep every promise. They boot in 1970 or 2099, their wall clock leaps,
 * they sleep, and they lose their power.
 */
// A process of its own: it takes long.
import t from 'tap';
import { addressOf } from '../../src/base/config/endpoints.js';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import { ageMs, wallMsOf } from '../../src/base/stamp.js';
import { createDaemon } from '../../src/device/daemon.js';
import { SWEEP_MS } from '../../src/mail/store/store.js';
import { apiAt } from '../support/ask.js';
import { makeCertificate } from '../support/certificate.js';
import { FakeClock } from '../support/clock.js';
import { CONFIG, reply, TAKEN } from '../support/delivery.js';
import { Device } from '../support/device.js';
import type { Operation } from '../support/faulty-disk.js';
import { seededRandom, testSeed } from '../support/random.js';
import { fakeRelay } from '../support/relay.js';
import { bookOf, STATE_DIR } from '../support/store.js';
import { configOf, testSystem } from '../support/system.js';

const LATER = reply('rcpt', '450 4.2.0 greylisted');
const NOON_MS = Date.UTC(2026, 10, 20, 12);
const Y2099_MS = Date.UTC(2099, 5, 1);
const YEARS_MS = 50 * 365 * DAY_MS;
/** A leap from one plausible time to another. */
const LEAP_MS = 400 * DAY_MS;
const MAX_AGE_MS = CONFIG.maxAgeMs[1];

t.test('a week offline and a reboot expire, charge and delay nothing; all go out in order', async (t) => {
  for (const plug of [false, true]) {
    for (const wallMs of [0, Y2099_MS, undefined]) {
      const device = await Device.start();
      device.answer = () => LATER;
      const deferred = await device.post(3);
      await device.pass(HOUR_MS / 2);
      device.isLinkUp = false;
      const queued = await device.post(70);
      await device.pass(7 * DAY_MS);
      queued.push(...(await device.post(5)));
      const before = [...deferred, ...queued].map((id) => device.store.get(id)?.attempts);
      await device.reboot({ plug, ...(wallMs !== undefined && { wallMs }) });
      await device.pass(7 * DAY_MS);
      t.same(
        [...deferred, ...queued].map((id) => device.store.get(id)?.attempts),
        before,
      );
      t.same([...new Set(before)], [6, 0]);
      device.offered.length = 0;
      device.answer = () => TAKEN;
      device.isLinkUp = true;
      await device.pass(5 * MINUTE_MS);
      t.match(device.store.counts(), { queued: 0, deferred: 0, sending: 0, failed: 0 });
      const all = [...deferred, ...queued];
      t.same(new Set(all.map((id) => device.store.get(id)?.status)), new Set(['sent']));
      t.same(
        device.offered.filter((id) => queued.includes(id)),
        queued,
      );
      t.same(
        device.offered.filter((id) => deferred.includes(id)),
        deferred,
      );
    }
  }
});

t.test('reachable time adds up over reboots, and at its limit a message expires', async (t) => {
  const device = await Device.start();
  device.answer = () => LATER;
  let expiredMs = 0;
  let bootedMs = device.clock.bootMs();
  let onMs = 0;
  const nowMs = () => onMs + device.clock.bootMs() - bootedMs;
  device.onLog = (event) => {
    if (event === 'expired') expiredMs = nowMs();
  };
  const [id = ''] = await device.post();
  for (let day = 0; expiredMs === 0 && day < 10; day++) {
    await device.pass(DAY_MS);
    onMs = nowMs();
    await device.reboot({ plug: day % 2 === 0, offMs: DAY_MS, wallMs: day % 3 === 0 ? 0 : NOON_MS });
    bootedMs = device.clock.bootMs();
  }
  t.match(device.store.get(id), { status: 'expired', lastReply: '450 4.2.0 greylisted' });
  t.ok(expiredMs >= MAX_AGE_MS, 'it does not expire early');
  // A reboot loses the time between the relay's last answer before it and the first after it.
  t.ok(
    expiredMs <= MAX_AGE_MS + 5 * (1.1 * HOUR_MS + MINUTE_MS) + 1.1 * HOUR_MS,
    'it expires soon after its limit',
  );
});

t.test('a deferred message is due on time over leaps of the wall clock, and after a sleep', async (t) => {
  const device = await Device.start();
  device.answer = () => LATER;
  const [id = ''] = await device.post();
  const triedMs: number[] = [];
  device.answer = () => {
    triedMs.push(device.clock.bootMs());
    return LATER;
  };
  const startMs = device.clock.bootMs();
  for (const leapMs of [YEARS_MS, -2 * YEARS_MS, 3 * HOUR_MS, -HOUR_MS, YEARS_MS]) {
    device.clock.leap(leapMs);
    await device.pass(3 * MINUTE_MS);
  }
  t.same(
    triedMs.map((ms) => (ms - startMs) / MINUTE_MS),
    [0, 1, 2, 4, 8],
  );
  device.clock.suspend(DAY_MS);
  await device.pass(0);
  t.equal(triedMs.length, 6);
  t.equal(device.store.get(id)?.attempts, 6);
});

t.test('a leap is recorded once, with the next change or within the hour', async (t) => {
  const quiet = { settings: { relays: [] } };
  const idle = await Device.start(quiet);
  await idle.post();
  await idle.pass(SWEEP_MS);
  const seen: Operation[] = [];
  idle.disk.onOperation = (_n, operation) => {
    seen.push(operation);
    return 'ok';
  };
  idle.clock.suspend(DAY_MS);
  await idle.pass(DAY_MS);
  t.same(seen, [], 'an idle day and one of sleep write nothing');
  idle.clock.leap(LEAP_MS);
  await idle.pass(DAY_MS);
  t.same(
    seen.map(({ kind, path }) => `${kind} ${path.replace(/.*\/(journal|synced).*/, '$1')}`),
    ['write journal', 'sync journal', 'write synced'],
    'a record, and the synced length of the journal',
  );
  seen.length = 0;
  idle.clock.leap(-LEAP_MS);
  idle.store.list({ status: null, limit: 1, after: null });
  await idle.pass(SECOND_MS);
  t.same(seen, [], 'a list of messages only reads');
  seen.length = 0;
  idle.clock.leap(LEAP_MS);
  await idle.post();
  t.equal(seen.filter(({ kind }) => kind === 'write').length, 1, 'the leap is in the record of the message');
  const fresh = await Device.start(quiet);
  fresh.disk.onOperation = idle.disk.onOperation;
  seen.length = 0;
  fresh.clock.leap(LEAP_MS);
  fresh.store.list({ status: null, limit: 1, after: null });
  await fresh.pass(DAY_MS);
  t.same(seen, [], 'a boot without messages has nothing to correct');
});

t.test('each kind of record after a leap records the leap, too', async (t) => {
  const calls: Readonly<Record<string, (device: Device) => Promise<unknown>>> = {
    book: ({ store }) =>
      bookOf(store).add({ type: 1, destination: 'john@example.com', lang: 'en', name: '' }),
    hold: ({ store }) => store.hold(),
    message: (device) => device.post(),
  };
  for (const [name, call] of Object.entries(calls)) {
    const device = await Device.start({ clock: new FakeClock({ wallMs: 0 }), settings: { relays: [] } });
    const [early = ''] = await device.post();
    device.clock.leap(NOON_MS);
    await call(device);
    await device.reboot({ plug: true, offMs: DAY_MS });
    t.equal(device.acceptedAtMs(early), NOON_MS, name);
  }
});

t.test('people read the right dates of earlier boots', async (t) => {
  for (const plug of [false, true]) {
    const device = await Device.start({ clock: new FakeClock({ wallMs: 0 }), settings: { relays: [] } });
    const [early = ''] = await device.post();
    await device.pass(HOUR_MS);
    t.equal(device.acceptedAtMs(early), 0, 'a clock of 1970 gives 1970');
    device.clock.leap(NOON_MS - HOUR_MS);
    t.equal(device.acceptedAtMs(early), NOON_MS - HOUR_MS, 'until the clock is set');
    const [late = ''] = await device.post();
    await device.reboot({ plug, offMs: DAY_MS });
    const read = () => [early, late].map((id) => device.acceptedAtMs(id));
    t.same(read(), [NOON_MS - HOUR_MS, NOON_MS], 'the dates survive a reboot');
    await device.reboot({ plug, wallMs: 0 });
    t.same(read(), [NOON_MS - HOUR_MS, NOON_MS], 'the dates survive a wrong clock');
    const [lost = ''] = await device.post();
    await device.pass(HOUR_MS);
    await device.reboot({ plug, wallMs: NOON_MS + 30 * DAY_MS });
    t.equal(
      device.acceptedAtMs(lost),
      NOON_MS + 30 * DAY_MS,
      'a boot without a date ended when this one began',
    );
    // After three checkpoints the journal is new; the boots are in the document.
    for (let turn = 0; turn < 3; turn++) await device.reboot({ offMs: DAY_MS });
    t.same(read(), [NOON_MS - HOUR_MS, NOON_MS]);
  }
});

t.test('an age counts the time between boots if both clocks were confirmed', async (t) => {
  for (const confirmed of [true, false]) {
    const device = await Device.start({ settings: { relays: [] } });
    await device.post();
    await device.pass(HOUR_MS);
    if (confirmed) device.clock.confirm();
    await device.reboot({ offMs: 3 * HOUR_MS });
    if (confirmed) device.clock.confirm();
    const bootMs = device.clock.bootMs();
    t.equal(device.store.counts().oldestAgeMs, confirmed ? 4 * HOUR_MS + bootMs : bootMs);
  }
});

/** A daemon in memory with real sockets, and a relay at this port. */
async function daemonBefore(port: number, clock: FakeClock, env: Record<string, string> = {}, ca = '') {
  const settings = { FIELDPOST_STATE_DIR: STATE_DIR, FIELDPOST_RELAY: `smtp://127.0.0.1:${port}`, ...env };
  const daemon = await createDaemon(
    configOf(settings, () => ca),
    testSystem({ clock, random: () => 0.5 }).system,
  );
  const api = apiAt(daemon.addresses.map(addressOf).join());
  const call = async (path: string, body?: object) => (await api(path, body)).json;
  const post = async (subject: string): Promise<string> =>
    (await call('messages', [{ type: 1, destination: 'john@example.com', subject }]))[0].id;
  return { stop: () => daemon.stop(), call, post };
}

const dateOf = (content: Buffer | undefined) =>
  /^Date: (.*)\r$/m.exec(content?.toString() ?? '')?.[1] ?? null;

t.test('Date has the time of acceptance as known at the sending, or is left out', async (t) => {
  let isGrey = false;
  await using relay = await fakeRelay({ rcpt: () => (isGrey ? '450 4.2.0 later' : undefined) });
  const clock = new FakeClock({ wallMs: 0 });
  const { call, post, stop } = await daemonBefore(relay.port, clock);
  t.match(await call('state'), { clock: { trusted: false } });
  await post('in 1970');
  await relay.arrived(1);
  t.equal(dateOf(relay.mails[0]?.content), null, 'the submission server adds the date');

  isGrey = true;
  await clock.advance(HOUR_MS);
  const id = await post('waits');
  await until(async () => (await call(`messages/${id}`)).status === 'deferred');
  t.match(await call(`messages/${id}`), {
    acceptedAt: '1970-01-01T01:00:00.000Z',
    nextAttemptAt: '1970-01-01T01:01:00.000Z',
  });
  clock.leap(NOON_MS - HOUR_MS);
  t.match(await call(`messages/${id}`), {
    acceptedAt: '2026-11-20T12:00:00.000Z',
    nextAttemptAt: '2026-11-20T12:01:00.000Z',
  });
  t.match(await call('messages?limit=1'), { messages: [{ acceptedAt: '2026-11-20T12:00:00.000Z' }] });
  t.match(await call('state'), { clock: { trusted: true }, relay: { since: '2026-11-20T11:00:00.000Z' } });
  isGrey = false;
  await clock.advance(MINUTE_MS);
  await relay.arrived(2);
  t.equal(dateOf(relay.mails[1]?.content), 'Fri, 20 Nov 2026 12:00:00 +0000');

  isGrey = true;
  const last = await post('before 2076');
  await until(async () => (await call(`messages/${last}`)).status === 'deferred');
  clock.leap(YEARS_MS);
  t.match(await call('state'), { clock: { trusted: false } });
  isGrey = false;
  await clock.advance(MINUTE_MS);
  await relay.arrived(3);
  t.equal(dateOf(relay.mails[2]?.content), 'Fri, 20 Nov 2026 12:01:00 +0000', 'it was known once');
  await post('in 2076');
  await relay.arrived(4);
  t.equal(
    dateOf(relay.mails[3]?.content),
    'Fri, 20 Nov 2026 12:02:00 +0000',
    'as the clock before the leap has it',
  );
  await stop();
});

t.test('all copies of a mail have one date once the clock was confirmed', async (t) => {
  const taken = new Set<string>();
  await using relay = await fakeRelay({
    rcpt: ({ command }) => (taken.has(command.slice(9, -1)) ? undefined : '450 4.2.0 later'),
  });
  const clock = new FakeClock({ wallMs: NOON_MS });
  clock.confirm();
  const { system } = testSystem({ clock, random: () => 0.5 });
  const env = { FIELDPOST_STATE_DIR: STATE_DIR, FIELDPOST_RELAY: `smtp://127.0.0.1:${relay.port}` };
  let daemon = await createDaemon(configOf(env), system);
  const call = (path: string, body: object) => apiAt(daemon.addresses.map(addressOf).join())(path, body);
  const to = ['one', 'two', 'three'].map((name) => `${name}@x.org`);
  await call('messages', [{ type: 1, to, subject: 'to three' }]);
  const leaps = [0, LEAP_MS, -YEARS_MS];
  for (const [count, address] of to.entries()) {
    await daemon.stop();
    clock.leap(leaps[count] ?? 0);
    daemon = await createDaemon(configOf(env), system);
    taken.add(address);
    await call('queue/flush', {});
    await relay.arrived(count + 1);
  }
  await daemon.stop();
  const ids = relay.mails.map(({ content }) => /^Message-ID: .*$/m.exec(String(content))?.[0]);
  t.equal(new Set(ids).size, 1);
  t.same(
    relay.mails.map(({ content }) => dateOf(content)),
    to.map(() => 'Fri, 20 Nov 2026 12:00:00 +0000'),
  );
});

t.test('the state says that the clock is wrong, not the certificate that is not yet valid', async (t) => {
  const ca = makeCertificate({ name: 'Test CA', fromMs: Date.now() - 3 * DAY_MS });
  const [fromMs, hosts] = [Date.now() + DAY_MS, ['localhost']];
  const tls = makeCertificate({ name: 'relay', hosts, issuer: ca, fromMs, untilMs: fromMs + DAY_MS });
  await using relay = await fakeRelay({}, { tls, implicit: true });
  const clock = new FakeClock({ wallMs: 0 });
  const env = {
    FIELDPOST_RELAY: `smtps://localhost:${relay.port}`,
    FIELDPOST_RELAY_CA_FILE: '/etc/fieldpost/ca.pem',
  };
  const { call, post, stop } = await daemonBefore(relay.port, clock, env, ca.cert);
  await post('waits');
  await until(async () => (await call('state')).relay.state === 'failing');
  const { relay: state } = await call('state');
  t.match(state.reason, /certificate is not yet valid, but this device's clock is wrong \(1970-01-01\)/);
  await stop();
});

/** Resolves when it holds; each look is a request, so the loop cannot spin. */
async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds()));
}

const seed = testSeed();
const HISTORIES = process.env.FIELDPOST_TEST_LONG === '1' ? 300 : 25;
const STEPS = 60;

/** Lives one random life of a device; gives the broken promises in words. */
async function live(seed: number): Promise<{ broken: string[]; expired: number; sent: number }> {
  const random = seededRandom(seed);
  const pick = <T>(...of: readonly T[]): T => of[Math.floor(random() * of.length)] as T;
  const broken: string[] = [];
  const maxAgeMs = 12 * HOUR_MS;
  const { retryMaxMs, backoffMaxMs } = CONFIG;
  const settings = { maxAgeMs: { 1: maxAgeMs, 2: maxAgeMs, 3: maxAgeMs, 4: maxAgeMs } };
  const startWallMs = NOON_MS;
  const device = await Device.start({ clock: new FakeClock({ wallMs: startWallMs }), settings });

  // Two times that the device cannot know: how long it was on, and the true time.
  let [onBaseMs, trueBaseMs] = [0, startWallMs - device.clock.bootMs()];
  const onMs = () => onBaseMs + device.clock.bootMs();
  const trueMs = () => trueBaseMs + device.clock.bootMs();
  const isRight = () => Math.abs(device.clock.wallMs() - trueMs()) <= 4 * SECOND_MS;

  const accepted = new Map<string, { onMs: number; trueMs: number; boot: string }>();
  const outages: { fromMs: number; toMs: number; noticed: boolean }[] = [];
  let upSinceMs = onMs();
  let [expired, sent] = [0, 0];
  device.onOpen = (isOpened) => {
    const outage = outages.at(-1);
    if (!isOpened && outage) outage.noticed = true;
  };
  device.onLog = (event, { id }) => {
    if (event === 'sent') sent++;
    if (event !== 'expired') return;
    expired++;
    const fromMs = accepted.get(String(id))?.onMs ?? 0;
    // An outage during which no session was tried counts as reachable: the device cannot know of it.
    let reachableMs = onMs() - fromMs;
    for (const outage of outages) {
      if (outage.noticed) {
        reachableMs -= Math.max(0, Math.min(onMs(), outage.toMs) - Math.max(fromMs, outage.fromMs));
      }
    }
    if (reachableMs < maxAgeMs) broken.push(`${id} expired ${maxAgeMs - reachableMs} ms early`);
    if (!device.offered.includes(String(id))) broken.push(`${id} expired without an offer`);
  };
  const greylisted = new Set<string>();
  device.answer = (id) => (greylisted.has(id) ? LATER : TAKEN);

  const check = () => {
    const { clock, store } = device;
    const isTried = device.isLinkUp && onMs() - upSinceMs > backoffMaxMs;
    for (const message of store.deferred()) {
      const { due, id } = message;
      if (due?.boot !== clock.boot) {
        if (isTried) broken.push(`${id} is deferred since another boot`);
      } else if (due.bootMs > clock.bootMs() + 1.1 * retryMaxMs) broken.push(`${id} is delayed`);
      else if (isTried && due.bootMs < clock.bootMs()) broken.push(`${id} is overdue`);
    }
    if (isTried && store.counts().queued > 0) broken.push('a queued message is not sent');
    for (const [id, was] of accepted) {
      const message = store.get(id);
      if (!message) {
        broken.push(`${id} is lost`);
        continue;
      }
      // Both confirmed clocks may be wrong by less than a leap.
      const tooOldMs = ageMs(message.accepted, clock, store.boots) - (trueMs() - was.trueMs);
      if (tooOldMs > 8 * SECOND_MS) broken.push(`${id} seems ${tooOldMs} ms too old`);
      const toldMs = wallMsOf(message.accepted, clock, store.boots);
      if (was.boot === clock.boot) {
        const offMs = toldMs - clock.wallMs() - (was.trueMs - trueMs());
        if (Math.abs(offMs) > 3 * SECOND_MS) broken.push(`${id} is misdated by ${offMs} ms`);
      } else if (
        isRight() &&
        !store.boots.get(was.boot)?.confirmed &&
        toldMs > clock.wallMs() - clock.bootMs()
      ) {
        broken.push(`${id} is from the future`);
      }
    }
  };
  const steps: Record<string, () => Promise<void> | void> = {
    pass: () =>
      device.pass(pick(SECOND_MS, MINUTE_MS, 10 * MINUTE_MS, HOUR_MS, 5 * HOUR_MS) * (0.5 + random())),
    sleep: () => device.clock.suspend(pick(SECOND_MS, MINUTE_MS, HOUR_MS) * random()),
    leap: () => device.clock.leap(pick(-1, 1) * pick(1500, 10_000, HOUR_MS, DAY_MS, YEARS_MS)),
    ntp() {
      device.clock.leap(trueMs() - device.clock.wallMs());
      device.clock.confirm();
    },
    async post() {
      const before = { onMs: onMs(), trueMs: trueMs(), boot: device.clock.boot };
      for (const id of await device.post(pick(1, 1, 3))) {
        accepted.set(id, before);
        if (random() < 0.7) greylisted.add(id);
      }
    },
    link() {
      device.isLinkUp = !device.isLinkUp;
      if (device.isLinkUp) {
        upSinceMs = onMs();
        (outages.at(-1) as { toMs: number }).toMs = onMs();
      } else outages.push({ fromMs: onMs(), toMs: Number.POSITIVE_INFINITY, noticed: false });
    },
    async reboot() {
      const offMs = pick(SECOND_MS, HOUR_MS, DAY_MS) * random();
      const wallMs = pick(undefined, 0, Y2099_MS, device.clock.wallMs() - DAY_MS);
      const [wasOnMs, wasMs, countedMs] = [onMs(), trueMs(), device.store.reachability.countedMs];
      const options = { plug: random() < 0.5, offMs, ...(wallMs !== undefined && { wallMs }) };
      // Set first: the clock of the new boot starts at the time since the power came back.
      onBaseMs = wasOnMs;
      await device.reboot(options);
      trueBaseMs = wasMs + offMs;
      if (device.store.reachability.countedMs > countedMs)
        broken.push('the count of reachable time has grown');
    },
  };
  const names = ['pass', 'pass', 'pass', 'pass', 'sleep', 'leap', 'ntp', 'post', 'post', 'link', 'reboot'];
  for (let step = 0; step < STEPS; step++) {
    const name = pick(...names);
    await steps[name]?.();
    await device.pass(0);
    check();
    if (broken.length > 0) {
      broken.push(`after ${name}, step ${step}`);
      break;
    }
  }
  return { broken, expired, sent };
}

t.test('random lives break no promise', async (t) => {
  t.comment(`FIELDPOST_TEST_SEED=${seed}`);
  let [expired, sent] = [0, 0];
  for (let i = 0; i < HISTORIES; i++) {
    const life = await live(seed + i);
    expired += life.expired;
    sent += life.sent;
    t.same(life.broken, [], `seed ${seed + i}`);
    if (life.broken.length > 0) break;
  }
  t.comment(`${expired} expired, ${sent} sent`);
  t.ok(expired > 0 && sent > 0);
});
