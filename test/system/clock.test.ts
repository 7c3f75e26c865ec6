/** The clocks of the device: boot time that neither leaps nor stands still, and timers. */
// A process of its own: it counts and replaces timers.

import { readFileSync } from 'node:fs';
import t from 'tap';
import { EARLIEST_WALL_MS } from '../../src/base/stamp.js';
import { type ClockSource, systemClock } from '../../src/base/system/clock.js';

const DAY_MS = 86_400_000;
/** 2026-11-20T09:00:00Z. */
const WALL_MS = Date.UTC(2026, 10, 20, 9);

/** Clocks whose sources a test moves: `pass` for all, each alone by hand. */
function bench() {
  const now = {
    bootMs: 100_000,
    processMs: 40,
    wallMs: WALL_MS,
    synchronizedMs: null as number | null,
    bootId: '0123abcd-0000-4000-8000-000000000000' as string | null,
    /** How often the file was looked for. */
    looks: 0,
    pass(ms: number) {
      now.bootMs += ms;
      now.wallMs += ms;
      now.processMs += ms;
    },
    suspend(ms: number) {
      now.bootMs += ms;
      now.wallMs += ms;
    },
  };
  const source: ClockSource = {
    uptimeS: () => now.bootMs / 1000,
    processMs: () => now.processMs,
    wallMs: () => now.wallMs,
    synchronizedMs() {
      now.looks++;
      return now.synchronizedMs;
    },
    bootId: () => now.bootId,
  };
  return { now, source, clock: systemClock(source) };
}

t.test('the wall and the boot id are the kernel’s', async (t) => {
  const clock = systemClock();
  const before = Date.now();
  const wallMs = clock.wallMs();
  t.ok(before <= wallMs && wallMs <= Date.now());
  t.ok(readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').startsWith(clock.boot));
  t.match(clock.boot, /^[0-9a-f]{8}$/);
  t.equal(systemClock().boot, clock.boot, 'the same boot');
});

t.test('boot time lies between two looks at the kernel’s uptime', async (t) => {
  const uptimeMs = () => Number(readFileSync('/proc/uptime', 'latin1').split(' ')[0]) * 1000;
  const before = uptimeMs();
  const bootMs = systemClock().bootMs();
  // The kernel tells hundredths, rounded down.
  t.ok(before - 1 <= bootMs && bootMs <= uptimeMs() + 11);
});

t.test('boot time runs on through a suspend, which the process’s own clock misses', async (t) => {
  const { now, clock } = bench();
  t.equal(clock.bootMs(), 100_000);
  now.pass(500);
  t.equal(clock.bootMs(), 100_500, 'between two looks');
  now.suspend(DAY_MS);
  t.equal(clock.bootMs(), 100_500 + DAY_MS, 'at once: a moment stamped now must not seem a day older soon');
  now.pass(1500);
  t.equal(clock.bootMs(), 102_000 + DAY_MS);
});

t.test('awake time misses a suspend, and takes no notice of a wall that leaps', async (t) => {
  const { now, clock } = bench();
  const beganMs = clock.awakeMs();
  now.pass(500);
  now.suspend(DAY_MS);
  now.wallMs += DAY_MS;
  t.equal(clock.awakeMs() - beganMs, 500);
  now.pass(1500);
  t.equal(clock.awakeMs() - beganMs, 2000);
});

t.test('boot time takes no notice of a wall that leaps', async (t) => {
  const { now, clock } = bench();
  clock.bootMs();
  for (const leapMs of [50 * 365 * DAY_MS, -80 * 365 * DAY_MS, 3000]) {
    now.wallMs += leapMs;
    now.pass(10);
    t.equal(clock.bootMs(), now.bootMs);
    t.equal(clock.wallMs(), now.wallMs);
  }
});

t.test('with an uptime in whole seconds boot time neither goes back nor halts', async (t) => {
  const { now, source } = bench();
  now.bootMs = 100_900;
  const clock = systemClock({ ...source, uptimeS: () => Math.floor(now.bootMs / 1000) });
  let last = clock.bootMs();
  for (let step = 0; step < 500; step++) {
    now.pass(370);
    const bootMs = clock.bootMs();
    if (bootMs < last + 370) t.fail(`${bootMs} after ${last}`);
    if (bootMs > now.bootMs) t.fail(`${bootMs} is ahead of ${now.bootMs}`);
    last = bootMs;
  }
  t.ok(now.bootMs - last < 50, 'after some looks it is right to a few hundredths');
});

t.test('without the kernel’s boot id every start is a boot of its own, begun just then', async (t) => {
  const { now, source } = bench();
  now.bootId = null;
  now.bootMs = 30 * DAY_MS;
  const clock = systemClock(source);
  t.match(clock.boot, /^[0-9a-f]{8}$/);
  t.not(systemClock(source).boot, clock.boot);
  t.equal(clock.bootMs(), 0, 'what came before it is not a month old for that');
  now.pass(5000);
  now.suspend(7000);
  t.equal(clock.bootMs(), 12_000);
});

t.test('a wall is plausible from the first release on for twenty years, and wrong otherwise', async (t) => {
  const { now, clock } = bench();
  for (const [wallMs, trust] of [
    [0, 'wrong'],
    [EARLIEST_WALL_MS - 1, 'wrong'],
    [EARLIEST_WALL_MS, 'plausible'],
    [WALL_MS, 'plausible'],
    [Date.UTC(2046, 9, 1), 'plausible'],
    [Date.UTC(2046, 11, 1), 'wrong'],
    [Date.UTC(2099, 0, 1), 'wrong'],
  ] as const) {
    now.wallMs = wallMs;
    t.equal(clock.trust(), trust, new Date(wallMs).toISOString());
  }
});

t.test('a confirmed wall clock is so until it leaps, and again after it leaps back', async (t) => {
  const { now, clock } = bench();
  clock.confirm();
  t.equal(clock.trust(), 'confirmed');
  now.pass(DAY_MS);
  now.suspend(DAY_MS);
  t.equal(clock.trust(), 'confirmed', 'neither time nor suspend is a leap');
  now.wallMs += 1500;
  t.equal(clock.trust(), 'confirmed', 'nor is what clocks differ by anyway');
  now.wallMs += 1000;
  t.equal(clock.trust(), 'plausible');
  now.wallMs -= 80 * 365 * DAY_MS;
  t.equal(clock.trust(), 'wrong');
  now.wallMs += 80 * 365 * DAY_MS - 2500;
  t.equal(clock.trust(), 'confirmed');
  now.wallMs += DAY_MS;
  clock.confirm();
  t.equal(clock.trust(), 'confirmed', 'the last word counts');
});

t.test(
  'a wall that was doubted is wrong until it leaps or is confirmed, but not against a time server',
  async (t) => {
    const { now, clock } = bench();
    clock.confirm();
    clock.doubt();
    t.equal(clock.trust(), 'wrong');
    now.pass(DAY_MS);
    t.equal(clock.trust(), 'wrong');
    now.wallMs += 60 * DAY_MS;
    t.equal(clock.trust(), 'plausible', 'somebody has set it');
    clock.doubt();
    clock.confirm();
    t.equal(clock.trust(), 'confirmed');
    now.synchronizedMs = now.wallMs;
    now.pass(DAY_MS);
    clock.doubt();
    t.equal(clock.trust(), 'confirmed');
  },
);

t.test(
  'a time server confirms the wall: its file is looked for seldom, and not once it was found',
  async (t) => {
    const { now, clock } = bench();
    t.equal(clock.trust(), 'plausible');
    for (let step = 0; step < 100; step++) {
      now.pass(10);
      clock.trust();
    }
    t.ok(now.looks <= 2, `${now.looks} looks in a second`);
    // As it happens at a boot: the wall is put right, then the file is touched.
    now.wallMs += 3 * DAY_MS;
    t.equal(clock.trust(), 'plausible');
    now.pass(5);
    now.synchronizedMs = now.wallMs;
    now.pass(2000);
    t.equal(clock.trust(), 'confirmed');
    const before = now.looks;
    for (let step = 0; step < 100; step++) {
      now.pass(60_000);
      clock.trust();
    }
    t.equal(now.looks, before);
    t.equal(bench().now.looks, 0, 'nothing is looked for by itself');
  },
);

t.test('a file touched before the wall clock leapt confirms nothing after the leap', async (t) => {
  const leaps = [-50 * 365 * DAY_MS, -DAY_MS, -3_600_000, 3_600_000, DAY_MS, 50 * 365 * DAY_MS];
  for (const leapMs of leaps) {
    const { now, source, clock } = bench();
    now.synchronizedMs = now.wallMs;
    now.pass(600_000);
    t.equal(clock.trust(), 'confirmed');
    now.wallMs += leapMs;
    now.pass(5000);
    t.not(clock.trust(), 'confirmed', `${leapMs} ms`);
    // Nor for a process that starts now, unless the leap is shorter than the time since the boot.
    if (Math.abs(leapMs) > now.bootMs) t.not(systemClock(source).trust(), 'confirmed', `${leapMs} ms, new`);
    now.wallMs -= leapMs - 7000;
    now.synchronizedMs = now.wallMs;
    now.pass(5000);
    t.equal(clock.trust(), 'confirmed', 'put right and touched anew');
  }
});

t.test(
  'after a suspend a timer goes off within a minute of the time it was set for, never before',
  async (t) => {
    const { now, clock } = bench();
    const timers: { ms: number; wake: () => void }[] = [];
    const real = globalThis.setTimeout;
    const fake = (wake: () => void, ms: number) => {
      timers.push({ ms, wake });
      return { unref: () => undefined };
    };
    globalThis.setTimeout = fake as unknown as typeof setTimeout;
    t.teardown(() => {
      globalThis.setTimeout = real;
    });
    let woken = 0;
    clock.after(3_600_000, () => woken++);
    /** The timer goes off, after `suspendMs` more than it was set for. */
    const turn = (suspendMs = 0) => {
      const { ms, wake } = timers.shift() ?? { ms: Number.NaN, wake: () => undefined };
      now.pass(ms);
      now.suspend(suspendMs);
      wake();
      return ms;
    };
    t.equal(turn(), 60_000);
    t.equal(turn(3_600_000 - 120_000 - 500), 60_000);
    t.equal(woken, 0);
    t.equal(turn(), 500, 'what is left');
    t.equal(woken, 1);
    clock.after(3_600_000, () => woken++);
    turn(DAY_MS);
    t.equal(woken, 2);
    t.equal(timers.length, 0);
  },
);

t.test('after: once, never when stopped, in order, however far away', async (t) => {
  const clock = systemClock();
  const woken: string[] = [];
  process.once('warning', (warning) => woken.push(warning.name));
  clock.after(2 ** 40, () => woken.push('far'));
  clock.after(Number.POSITIVE_INFINITY, () => woken.push('never'));
  clock.after(1, () => woken.push('stopped')).stop();
  clock.after(-5, () => woken.push('past'));
  // Timers do not keep the process alive, so something else must here.
  const alive = setInterval(() => {}, 1000);
  await new Promise<void>((resolve) => void clock.after(20, resolve));
  clearInterval(alive);
  t.same(woken, ['past']);
});

t.test('a timer does not keep the process alive', async (t) => {
  const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
  const before = timers();
  const timer = systemClock().after(DAY_MS, () => {});
  t.equal(timers(), before);
  timer.stop();
});
