/** The notifications to the service manager, and the status line. */
import t from 'tap';
import { MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import { type Notifier, STATUS_EVERY_MS, StateNotifier, watchdogMsOf } from '../../src/base/system/notify.js';
import { statusLine } from '../../src/device/daemon.js';
import { FakeClock } from '../support/clock.js';

function bench(watchdogMs: number | null = null) {
  const clock = new FakeClock();
  const said: string[] = [];
  const manager = { slowMs: 0 };
  const hear = async (words: string) => {
    said.push(words);
    if (manager.slowMs > 0) await new Promise<void>((go) => clock.after(manager.slowMs, go));
  };
  const notifier: Notifier = {
    ready: (words) => hear(`ready ${words}`),
    status: hear,
    reloading: () => hear('reloading'),
    stopping: () => hear('stopping'),
    watchdog: () => hear('alive'),
  };
  return { clock, said, manager, state: new StateNotifier({ notifier, clock, watchdogMs }) };
}

t.test('the status is sent when it has changed, and at most every few seconds', async (t) => {
  const { clock, said, state } = bench();
  let words = 'a';
  await state.ready(() => words);
  await clock.advance(MINUTE_MS);
  t.same(said.splice(0), ['ready a'], 'nothing new, nothing told');
  words = 'b';
  await clock.advance(STATUS_EVERY_MS);
  words = 'c';
  await clock.advance(1);
  words = 'd';
  await clock.advance(STATUS_EVERY_MS);
  t.same(said, ['b', 'd']);
});

t.test('a status that takes a while to count is told once it is there', async (t) => {
  const { clock, said, state } = bench();
  let count = 0;
  const words = async () => {
    await new Promise<void>((go) => clock.after(SECOND_MS, go));
    return String(++count);
  };
  const ready = state.ready(words);
  await clock.advance(SECOND_MS);
  await ready;
  await clock.advance(STATUS_EVERY_MS);
  t.same(said, ['ready 1']);
  await clock.advance(SECOND_MS);
  t.same(said, ['ready 1', '2']);
  await clock.advance(STATUS_EVERY_MS);
  t.same(said, ['ready 1', '2'], 'the next one is not counted before');
});

t.test('a reload runs between its two notifications, and tells the new status', async (t) => {
  const { clock, said, state } = bench();
  let words = 'old';
  await state.ready(() => words);
  await state.reloading(async () => {
    said.push('it happens');
    words = 'new';
  });
  await clock.advance(MINUTE_MS);
  t.same(said, ['ready old', 'reloading', 'it happens', 'ready new']);
});

t.test('keep-alives continue until the end', async (t) => {
  const { clock, said, state } = bench(15 * SECOND_MS);
  await state.ready(() => String(clock.bootMs()));
  said.length = 0;
  await clock.advance(MINUTE_MS);
  t.equal(said.filter((words) => words === 'alive').length, 4);
  await state.stopping();
  said.length = 0;
  await clock.advance(MINUTE_MS);
  t.same(said, ['alive', 'alive', 'alive', 'alive'], 'no status any more');
  state.stop();
  await clock.advance(MINUTE_MS);
  t.equal(said.length, 4);
  t.equal(clock.pending, 0);
});

t.test('notifications do not queue up for a slow manager; a stop ends them', async (t) => {
  const { clock, said, manager, state } = bench(SECOND_MS);
  await state.ready(() => 'ok');
  manager.slowMs = 20 * SECOND_MS;
  await clock.advance(MINUTE_MS);
  t.same(said, ['ready ok', 'alive', 'alive', 'alive']);
  state.stop();
  await clock.advance(MINUTE_MS);
  t.equal(said.length, 4);
});

t.test('the interval of keep-alives', async (t) => {
  t.equal(watchdogMsOf({ WATCHDOG_USEC: '60000000', WATCHDOG_PID: '7' }, 7), 30 * SECOND_MS);
  t.equal(watchdogMsOf({ WATCHDOG_USEC: '60000000' }, 7), 30 * SECOND_MS);
  t.equal(watchdogMsOf({ WATCHDOG_USEC: '60000000', WATCHDOG_PID: '8' }, 7), null, 'meant for another');
  for (const WATCHDOG_USEC of [undefined, '', '0', '-1', 'x'])
    t.equal(watchdogMsOf({ WATCHDOG_USEC }, 7), null);
});

t.test('the status line', async (t) => {
  const queue = {
    queued: 2,
    sending: 1,
    deferred: 0,
    failed: 0,
    forCloud: 0,
    oldestAgeMs: 5,
    bytes: 9,
    held: false,
  };
  const well = {
    queue,
    fullReason: null,
    relay: { state: 'ok', reason: null, rate: null },
    link: { state: 'disabled', reason: 'No cloud is configured (FIELDPOST_CLOUD)' },
    storage: { state: 'ok', reason: null },
    settings: null,
  } as const;
  const ill = {
    queue: { ...queue, deferred: 4, failed: 5, held: true },
    fullReason: 'it holds 9500',
    relay: { state: 'failing', reason: 'r:25: no DNS', rate: { used: [], nextMs: 1 } },
    link: { state: 'offline', reason: 'no network' },
    storage: { state: 'full', reason: 'no space' },
    settings: { reason: 'X=1: no', sinceMs: 1 },
  } as const;
  for (const reason of [
    'X=1: no',
    'on hold',
    'queue full (it holds 9500)',
    '5 failed',
    'r:25: no DNS',
    'rate of the relay used up',
    'no network',
    'no space',
  ])
    t.match(statusLine(ill), reason);
  const later = { ...well, queue: { ...queue, oldestAgeMs: 6, bytes: 10 } };
  t.equal(statusLine(later), statusLine(well), 'time alone changes nothing');
  const quiet = { untilMs: Date.UTC(2026, 10, 20, 14, 10, 59), why: 'battery swap' };
  t.match(
    statusLine({ ...ill, quiet }),
    /^quiet until 2026-11-20 14:10 UTC \(battery swap\), settings refused/,
  );
  t.match(
    statusLine({ ...well, quiet: { ...quiet, why: null } }),
    /^quiet until 2026-11-20 14:10 UTC, 3 queued/,
  );
  t.equal(statusLine({ ...well, quiet: { untilMs: null, why: null } }), statusLine(well));
});
