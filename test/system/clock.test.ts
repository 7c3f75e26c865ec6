/** The clocks of the device: boot time that neither leaps nor stands still, and timers. */
import { readFileSync } from 'node:fs';
import t from 'tap';
import { systemClock } from '../../src/system/clock.js';

const DAY_MS = 86_400_000;

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
  const now = { bootMs: 100_000, processMs: 40 };
  const clock = systemClock({ uptimeS: () => now.bootMs / 1000, processMs: () => now.processMs });
  t.equal(clock.bootMs(), 100_000);
  now.bootMs += 500;
  now.processMs += 500;
  t.equal(clock.bootMs(), 100_500, 'between two looks');
  now.bootMs += DAY_MS + 1000;
  now.processMs += 1000;
  t.equal(clock.bootMs(), 100_000 + DAY_MS + 1500);
});

t.test('an uptime in whole seconds makes it neither go back nor halt', async (t) => {
  const now = { bootMs: 100_900, processMs: 0 };
  const clock = systemClock({
    uptimeS: () => Math.floor(now.bootMs / 1000),
    processMs: () => now.processMs,
  });
  let last = clock.bootMs();
  for (let step = 0; step < 500; step++) {
    now.bootMs += 370;
    now.processMs += 370;
    const bootMs = clock.bootMs();
    if (bootMs < last + 370) t.fail(`${bootMs} after ${last}`);
    if (bootMs > now.bootMs) t.fail(`${bootMs} is ahead of ${now.bootMs}`);
    last = bootMs;
  }
  t.ok(now.bootMs - last < 50, 'after some looks it is right to a few hundredths');
});

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
