/** The link on a clock that stands still: every transition, the week offline, what the cloud may ask for, the fleet. */
// A process of its own: it takes long.
import t from 'tap';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, YEAR_MS } from '../../src/base/limits.js';
import { CloudError } from '../../src/base/retry/call-error.js';
import type { LogFields } from '../../src/base/system/log.js';
import type { LinkMode } from '../../src/base/views.js';
import type { HeartbeatAnswer, HeartbeatReport } from '../../src/device/link/client.js';
import {
  firstState,
  Link,
  type LinkEvent,
  type LinkOptions,
  type LinkState,
  overdueMs,
  step,
} from '../../src/device/link/link.js';
import { FakeClock, settled } from '../support/clock.js';
import { seededRandom, testSeed } from '../support/random.js';
import { fleetReport, simulateFleet } from './fleet.js';

const SETTINGS = { heartbeatMs: 30 * SECOND_MS, backoffMinMs: SECOND_MS, backoffMaxMs: 5 * MINUTE_MS };
const seed = testSeed();

/** A link, and what it does. */
function bench(options: Partial<LinkOptions> = {}, bootMs = HOUR_MS) {
  const clock = new FakeClock({ bootMs });
  const made = {
    clock,
    answer: (async () => ({})) as (report: HeartbeatReport, signal: AbortSignal) => Promise<HeartbeatAnswer>,
    reports: [] as HeartbeatReport[],
    lines: [] as [event: string, fields: LogFields][],
    /** What it told: that it became online, and the ETags. */
    told: [] as (string | null)[],
    /** When each heartbeat began, since the start. */
    beatsMs: [] as number[],
  };
  const log = (event: string, fields: LogFields = {}) => void made.lines.push([event, fields]);
  const startMs = clock.bootMs();
  const link = new Link({
    client: {
      heartbeat: (report, signal) => {
        made.reports.push(report);
        made.beatsMs.push(clock.bootMs() - startMs);
        return made.answer(report, signal);
      },
    },
    config: SETTINGS,
    report: () => ({ queue: { queued: 3, deferred: 2, failed: 1 }, version: '1.2.3' }),
    clock,
    random: () => 0.5,
    log: { debug: log, info: log, warn: log, error: log },
    ...options,
  });
  const start = () =>
    link.start({
      online: () => void made.told.push('online'),
      destinations: (etag) => void made.told.push(etag),
    });
  return Object.assign(made, { link, start, mode: () => link.view().state });
}

/** A started link to a cloud that answers as `answer` says. */
function started(
  answer?: ReturnType<typeof bench>['answer'],
  options?: Partial<LinkOptions>,
  bootMs?: number,
) {
  const made = bench(options, bootMs);
  if (answer) made.answer = answer;
  made.start();
  return made;
}

const failing =
  (reason = 'no route', retryAfterMs: number | null = null) =>
  async () => {
    throw new CloudError(reason, retryAfterMs);
  };

t.test('every event in every mode', async (t) => {
  const at = (mode: LinkMode, failures: number): LinkState => ({
    ...firstState(0, 0, 0),
    mode,
    failures,
    reason: mode === 'online' ? null : 'old',
  });
  const good: LinkEvent = { kind: 'good' };
  const bad: LinkEvent = { kind: 'failed', reason: 'new' };
  const late: LinkEvent = { kind: 'late' };
  const wake: LinkEvent = { kind: 'wake', withinMs: 0 };
  const [EARLY, LATE] = [20 * SECOND_MS, 30 * SECOND_MS];
  // As the table in link.ts: one failure is unsteady, three in a row or 30 s are offline, one success is online.
  const rows: [LinkMode, failures: number, LinkEvent, nowMs: number, LinkMode][] = [
    ['connecting', 0, good, EARLY, 'online'],
    ['connecting', 0, bad, EARLY, 'connecting'],
    ['connecting', 1, bad, EARLY, 'connecting'],
    ['connecting', 2, bad, EARLY, 'offline'],
    ['connecting', 0, bad, LATE, 'offline'],
    ['connecting', 2, good, LATE, 'online'],
    ['connecting', 1, late, EARLY, 'connecting'],
    ['connecting', 1, late, LATE, 'offline'],
    ['connecting', 1, wake, LATE, 'connecting'],
    ['online', 0, good, LATE, 'online'],
    ['online', 0, bad, EARLY, 'unsteady'],
    ['online', 0, bad, LATE, 'unsteady'],
    ['online', 0, late, LATE, 'online'],
    ['online', 0, wake, LATE, 'online'],
    ['unsteady', 1, good, EARLY, 'online'],
    ['unsteady', 2, good, LATE, 'online'],
    ['unsteady', 1, bad, EARLY, 'unsteady'],
    ['unsteady', 2, bad, EARLY, 'offline'],
    ['unsteady', 1, bad, LATE, 'offline'],
    ['unsteady', 1, late, EARLY, 'unsteady'],
    ['unsteady', 1, late, LATE, 'offline'],
    ['unsteady', 1, wake, EARLY, 'unsteady'],
    ['offline', 3, good, EARLY, 'online'],
    ['offline', 3, bad, LATE, 'offline'],
    ['offline', 3, late, LATE, 'offline'],
    ['offline', 3, wake, EARLY, 'offline'],
  ];
  for (const [mode, failures, event, nowMs, wanted] of rows) {
    const state = step(at(mode, failures), event, nowMs, 0.5, SETTINGS);
    const name = `${mode} after ${failures} failures, ${event.kind} at ${nowMs / SECOND_MS} s`;
    t.equal(state.mode, wanted, name);
    t.equal(state.sinceMs, wanted === mode ? 0 : nowMs, `${name}: since`);
    const reason = { good: null, failed: 'new', late: mode === 'online' ? null : 'old', wake: 'old' }[
      event.kind
    ];
    if (!(mode === 'online' && event.kind === 'wake')) t.equal(state.reason, reason, `${name}: reason`);
    t.equal(Number.isFinite(overdueMs(state)), wanted === 'connecting' || wanted === 'unsteady', name);
  }
});

t.test('heartbeats every 30 s ± 10 %, at once at the start', async (t) => {
  for (const [random, everyS] of [
    [0, 27],
    [0.5, 30],
    [1 - Number.EPSILON, 33],
  ] as const) {
    const made = started(undefined, { random: () => random });
    await made.clock.advance(100 * SECOND_MS);
    t.same(
      made.beatsMs.map((ms) => ms / SECOND_MS),
      [0, everyS, 2 * everyS, 3 * everyS],
    );
    t.match(made.reports[3], {
      bootId: made.clock.boot,
      sequence: 4,
      uptimeMs: HOUR_MS + 3 * everyS * SECOND_MS,
      state: 'running',
      queue: { queued: 3, deferred: 2, failed: 1 },
      version: '1.2.3',
      link: 'online',
    });
    t.match(made.reports[0], { link: 'connecting' }, 'before this heartbeat');
  }
});

t.test('down and up again: each change is logged once, with the length of the former state', async (t) => {
  const made = started();
  await made.clock.advance(60 * SECOND_MS);
  t.equal(made.mode(), 'online');
  t.same(made.told, ['online', null, null, null]);
  made.answer = failing('the name cloud.example cannot be resolved');
  await made.clock.advance(30 * SECOND_MS);
  t.equal(made.mode(), 'unsteady');
  await made.clock.advance(18_750);
  t.equal(made.mode(), 'unsteady');
  t.same(made.beatsMs.slice(-2), [90_000, 108_750], 'tried again after 12.5 to 25 s');
  await made.clock.advance(11_250);
  t.match(made.link.view(), { state: 'offline', reason: 'the name cloud.example cannot be resolved' });
  await made.clock.advance(HOUR_MS);
  t.equal(made.lines.length, 3, 'nothing is told while nothing changes');
  made.answer = async () => ({});
  await made.clock.advance(5 * MINUTE_MS);
  t.equal(made.mode(), 'online');
  t.equal(made.told.filter((what) => what === 'online').length, 2);
  const offlineMs = made.lines[3]?.[1].lastedMs as number;
  t.ok(offlineMs > HOUR_MS && offlineMs <= HOUR_MS + 5 * MINUTE_MS);
  const reason = 'the name cloud.example cannot be resolved';
  t.same(made.lines, [
    ['link online', { before: 'connecting', lastedMs: 0, reason: null }],
    ['link unsteady', { before: 'online', lastedMs: 90_000, reason }],
    ['link offline', { before: 'unsteady', lastedMs: 30_000, reason }],
    ['link online', { before: 'offline', lastedMs: offlineMs, reason: null }],
  ]);
  const { history, sinceMs, lastHeartbeatMs } = made.link.view();
  t.match(history, [
    { state: 'offline', durationMs: offlineMs, reason, sinceMs: sinceMs - offlineMs },
    { state: 'unsteady', durationMs: 30_000 },
    { state: 'online', durationMs: 90_000, reason: null },
    { state: 'connecting', durationMs: 0 },
  ]);
  t.ok((lastHeartbeatMs ?? 0) >= sinceMs);
});

t.test('a cloud that says nothing at all: offline 30 s after the first sign', async (t) => {
  const made = bench();
  const silent = async (_: HeartbeatReport, signal: AbortSignal) => {
    // As the client does: it gives up after 15 s.
    await new Promise((done) => made.clock.after(15 * SECOND_MS, () => done(undefined)));
    if (signal.aborted) throw new CloudError('given up');
    throw new CloudError('no answer within 15 s');
  };
  made.start();
  await made.clock.advance(0);
  made.answer = silent;
  await made.clock.advance(30 * SECOND_MS + 15 * SECOND_MS);
  t.equal(made.mode(), 'unsteady');
  await made.clock.advance(30 * SECOND_MS - 1);
  t.equal(made.mode(), 'unsteady');
  await made.clock.advance(1);
  t.equal(made.mode(), 'offline', 'also while a heartbeat is under way');
  const fresh = started(silent);
  await fresh.clock.advance(30 * SECOND_MS - 1);
  t.equal(fresh.mode(), 'connecting');
  await fresh.clock.advance(1);
  t.equal(fresh.mode(), 'offline', 'a start is not given longer');
});

t.test('an unsteady link keeps its back-off; a good minute ends it', async (t) => {
  const pauses = (goodMs: number) => {
    let state = firstState(0, 0, 0);
    let nowMs = 0;
    const happen = (event: LinkEvent) => {
      state = step(state, event, nowMs, 0, SETTINGS);
    };
    for (let flap = 0; flap < 10; flap++) {
      happen({ kind: 'good' });
      nowMs += goodMs;
      for (let n = 0; n < 3; n++) happen({ kind: 'failed', reason: 'x' });
    }
    return state.nextMs - nowMs;
  };
  t.equal(pauses(59 * SECOND_MS), 5 * MINUTE_MS);
  t.equal(pauses(60 * SECOND_MS), 25 * SECOND_MS);
});

t.test(`a week offline: no more than 20 timers in any hour (seed ${seed})`, async (t) => {
  const made = started(failing(), { random: seededRandom(seed) });
  await made.clock.advance(HOUR_MS);
  let most = 0;
  for (let hour = 1; hour < 7 * 24; hour++) {
    const before = made.clock.fired;
    // The link has one timer, so the clock may go from one to the next without waiting for turns in between.
    await made.clock.advance(HOUR_MS);
    most = Math.max(most, made.clock.fired - before);
  }
  t.ok(most <= 20, `${most} timers in the worst hour`);
  t.equal(made.clock.pending, 1);
  t.equal(made.lines.length, 1, 'and one line in the log');
  made.answer = async () => ({});
  await made.clock.advance(5 * MINUTE_MS);
  t.equal(made.mode(), 'online');
});

t.test('the time zone of the cloud is that of its last answer', async (t) => {
  const made = started(async () => ({ zone: 'Europe/Amsterdam' }));
  t.notOk('zone' in made.link.view());
  await made.clock.advance(30 * SECOND_MS);
  t.equal(made.link.view().zone, 'Europe/Amsterdam');
  made.answer = async () => ({});
  await made.clock.advance(MINUTE_MS);
  t.notOk('zone' in made.link.view(), 'now it is UTC, or another cloud');
});

t.test('the cloud may slow us down, within reason', async (t) => {
  const cases: [HeartbeatAnswer, nextS: number][] = [
    [{ heartbeatMs: 120_000 }, 120],
    [{ heartbeatMs: 1000 }, 30],
    [{ heartbeatMs: 9e15 }, 3600],
    [{ retryAfterMs: 5000 }, 30],
    [{ retryAfterMs: 600_000 }, 630],
  ];
  for (const [answer, nextS] of cases) {
    const made = started(async () => answer);
    await made.clock.advance(DAY_MS / 4);
    t.equal(made.beatsMs[1], nextS * SECOND_MS, JSON.stringify(answer));
  }
  const made = started(failing('it asks us to slow down', 600_000));
  await made.clock.advance(30 * SECOND_MS);
  t.equal(made.mode(), 'offline', 'a failed heartbeat is one, however politely');
  made.link.wake();
  await made.clock.advance(600 * SECOND_MS - 1);
  t.equal(made.beatsMs.length, 2 - 1, 'nobody hurries a cloud that wants to be left alone');
  await made.clock.advance(MINUTE_MS);
  t.equal(made.beatsMs[1], 630 * SECOND_MS, 'a little later than asked, for a fleet is told the same');
});

t.test('a person need not wait for the back-off', async (t) => {
  const made = started(failing());
  await made.clock.advance(HOUR_MS);
  const beats = made.beatsMs.length;
  made.answer = async () => ({});
  made.link.wake();
  await settled();
  t.equal(made.beatsMs.length, beats + 1);
  t.equal(made.mode(), 'online');
  made.link.wake();
  await settled();
  t.equal(made.beatsMs.length, beats + 1, 'online there is nothing to hurry');
});

t.test('a request to try during a heartbeat that hangs brings another at once', async (t) => {
  const made = started(failing());
  await made.clock.advance(HOUR_MS);
  let fail: (error: CloudError) => void = () => undefined;
  made.answer = () => new Promise((_, reject) => (fail = reject));
  made.link.wake();
  const beats = made.beatsMs.length;
  made.link.wake();
  t.equal(made.beatsMs.length, beats, 'one at a time');
  made.answer = failing();
  fail(new CloudError('no answer from DNS within 15 s'));
  await settled();
  t.equal(made.beatsMs.length, beats + 1);
  await made.clock.advance(MINUTE_MS);
  t.equal(made.beatsMs.length, beats + 1, 'but by no more than one');
});

t.test('a clean stop says so; calls in progress end soon', async (t) => {
  const made = started();
  await made.clock.advance(0);
  await made.link.stop();
  t.match(made.reports[1], { state: 'stopping', sequence: 2 });
  await made.clock.advance(HOUR_MS);
  t.equal(made.reports.length, 2);
  t.equal(made.clock.pending, 0);

  const hung = started();
  await hung.clock.advance(0);
  hung.answer = (_, signal) =>
    new Promise((_, reject) => {
      const giveUp = () => reject(new CloudError('given up'));
      signal.addEventListener('abort', giveUp);
    });
  await hung.clock.advance(30 * SECOND_MS);
  t.equal(hung.reports.length, 2, 'one is under way');
  let isStopped = false;
  const stopped = hung.link.stop().then(() => {
    isStopped = true;
  });
  await hung.clock.advance(3 * SECOND_MS - 1);
  t.notOk(isStopped);
  await hung.clock.advance(1);
  await stopped;
  t.equal(hung.clock.pending, 0);
  t.equal(hung.mode(), 'online', 'what we gave up ourselves says nothing of the link');

  const young = bench();
  young.answer = (_, signal) =>
    new Promise((_, reject) => {
      signal.addEventListener('abort', () => reject(new CloudError('given up')));
    });
  young.start();
  const leaving = young.link.stop();
  await young.clock.advance(3 * SECOND_MS);
  await leaving;
  t.same(
    young.reports.map(({ state }) => state),
    ['running', 'stopping'],
    'the first heartbeat, which was given up, may have been heard',
  );

  const offline = started(failing());
  await offline.clock.advance(MINUTE_MS);
  const beats = offline.reports.length;
  await offline.link.stop();
  t.equal(offline.reports.length, beats, 'where nobody hears it nothing is said');
});

t.test("the wall clock is confirmed where it agrees with the cloud's, and only there", async (t) => {
  for (const [aheadMs, trust] of [
    [0, 'confirmed'],
    [5000, 'confirmed'],
    [-5000, 'confirmed'],
    [6000, 'plausible'],
    [-6000, 'plausible'],
    [-DAY_MS, 'plausible'],
    [2 * YEAR_MS, 'wrong'],
    [60 * DAY_MS, 'wrong'],
    [-50 * YEAR_MS, 'plausible'],
  ] as const) {
    const made = bench();
    made.answer = async () => ({ serverTimeMs: made.clock.wallMs() + aheadMs });
    made.start();
    await made.clock.advance(0);
    t.equal(made.clock.trust(), trust, String(aheadMs));
  }
});

t.test('the ETag of each good heartbeat is passed on, after the link is known to be online', async (t) => {
  const made = started(async () => ({ destinations: '"v1"' }));
  await made.clock.advance(30 * SECOND_MS);
  t.same(made.told, ['online', '"v1"', '"v1"']);
  made.answer = async () => ({});
  await made.clock.advance(30 * SECOND_MS);
  made.answer = failing();
  await made.clock.advance(30 * SECOND_MS);
  t.same(made.told.slice(3), [null], 'that there is none as well; a failed heartbeat says nothing of it');
});

t.test('a leap of the wall clock moves what is shown, and nothing else', async (t) => {
  const made = started();
  await made.clock.advance(10 * SECOND_MS);
  const before = made.link.view();
  made.clock.leap(DAY_MS);
  const after = made.link.view();
  t.equal(after.sinceMs - before.sinceMs, DAY_MS);
  t.equal((after.lastHeartbeatMs ?? 0) - (before.lastHeartbeatMs ?? 0), DAY_MS);
  await made.clock.advance(20 * SECOND_MS);
  t.equal(made.beatsMs.length, 2);
});

t.test('a hundred states are remembered', async (t) => {
  const made = started();
  let isGood = true;
  made.answer = async () => {
    isGood = !isGood;
    if (!isGood) throw new CloudError('lost');
    return {};
  };
  await made.clock.advance(2 * HOUR_MS);
  t.equal(made.link.view().history.length, 100);
});

t.test(
  'each heartbeat tells how often the device comes, also where the cloud has slowed it down',
  async (t) => {
    const made = started(async () => ({ heartbeatMs: 10 * MINUTE_MS }));
    await made.clock.advance(11 * MINUTE_MS);
    t.same(
      made.reports.map(({ intervalMs }) => intervalMs),
      [30 * SECOND_MS, 10 * MINUTE_MS],
    );
  },
);

t.test('a device that goes to another cloud says so', async (t) => {
  const made = started();
  await made.clock.advance(0);
  await made.link.stop('moved');
  t.same(
    made.reports.map(({ state }) => state),
    ['running', 'moved'],
  );
});

t.test('soon after a boot the first heartbeat, and what a new network wakes, are spread', async (t) => {
  const first = async (bootMs: number, random: number) => {
    const made = started(undefined, { random: () => random }, bootMs);
    await made.clock.advance(25 * SECOND_MS);
    return made.beatsMs[0];
  };
  t.equal(await first(60_000, 0.4), 10 * SECOND_MS);
  t.equal(await first(5 * MINUTE_MS - 1, 0.4), 10 * SECOND_MS);
  t.equal(await first(5 * MINUTE_MS, 0.4), 0, 'a restart alone is no common boot');
  const waiting: LinkState = { ...firstState(0, 0, 0), mode: 'offline', nextMs: 100_000 };
  const wake = (withinMs: number, state = waiting) =>
    step(state, { kind: 'wake', withinMs }, 1000, 0.5, SETTINGS).nextMs;
  t.equal(wake(25 * SECOND_MS), 13_500);
  t.equal(wake(0), 1000);
  t.equal(wake(25 * SECOND_MS, { ...waiting, nextMs: 26_000 }), 26_000, 'due soon enough as it is');
});

t.test(`a fleet comes back gently after any outage, and after a common boot (seed ${seed})`, async (t) => {
  const random = seededRandom(seed);
  const devices = 3000;
  const outages = [1, 5, 10, 20, 30, 45, 60, 300, 3600].flatMap((outageS) =>
    (['refused', 'unanswered'] as const).map((outage) => ({ outage, outageMs: outageS * SECOND_MS })),
  );
  const busy = { outage: 'busy', outageMs: HOUR_MS } as const;
  const powerCut = { outage: 'power cut', outageMs: MINUTE_MS } as const;
  for (const world of [...outages, busy, powerCut]) {
    const options = { devices, ...world, random };
    const figures = simulateFleet(options);
    const { requests, handshakes, documents, allOnlineMs } = figures;
    const report = fleetReport(options, figures);
    // 100 requests a second are the steady rate of so few; chance adds some 30 to the busiest of a thousand.
    t.ok(Math.max(requests.during, requests.after) < 3.4 * requests.steady, report);
    t.ok(Math.max(handshakes.during, handshakes.after) < 2.8 * requests.steady, report);
    t.equal(handshakes.steady, 0, 'heartbeats keep the connection');
    t.equal(documents.steady, 0, 'a heartbeat has the ETag');
    if (world.outageMs === HOUR_MS) t.ok(allOnlineMs <= 5 * MINUTE_MS + 20 * SECOND_MS, `${allOnlineMs} ms`);
  }
});

t.test('each device of a simulated fleet connects once, and syncs once after a boot', async (t) => {
  const random = seededRandom(seed);
  const options = { devices: 1, random, outage: 'power cut', outageMs: MINUTE_MS, edited: 0 } as const;
  const booted = simulateFleet(options);
  t.equal(booted.handshakes.sum, 1);
  t.equal(booted.documents.sum, 1, 'a GET');
  const kept = simulateFleet({ ...options, outage: 'refused', edited: 1 });
  t.equal(kept.handshakes.sum, 1);
  t.equal(kept.documents.sum, 3, 'GET, PUT, GET after an edit');
  t.equal(simulateFleet({ ...options, outage: 'refused' }).documents.sum, 0, 'only after an edit');
  const rare = { ...SETTINGS, heartbeatMs: MINUTE_MS };
  const { handshakes, requests } = simulateFleet({ ...options, outage: 'refused', settings: rare });
  t.equal(handshakes.steady, requests.steady, 'a rare heartbeat needs a connection each time');
});
