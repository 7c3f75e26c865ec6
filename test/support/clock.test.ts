import t from 'tap';
import { FakeClock } from './clock.js';

t.test('time moves only when told, both clocks alike', async (t) => {
  const clock = new FakeClock({ bootMs: 100, wallMs: 5000 });
  await clock.advance(40);
  t.same([clock.bootMs(), clock.wallMs()], [140, 5040]);
  clock.leap(-3000);
  t.same([clock.bootMs(), clock.wallMs()], [140, 2040]);
});

t.test('timers go off in order, each at its own time, those of one moment as they were set', async (t) => {
  const clock = new FakeClock({ bootMs: 0 });
  const seen: [string, number][] = [];
  const note = (name: string) => () => seen.push([name, clock.bootMs()]);
  clock.after(30, note('c'));
  clock.after(10, note('a'));
  clock.after(10, note('b'));
  clock.after(31, note('late'));
  clock.after(20, note('stopped')).stop();
  await clock.advance(30);
  t.same(seen, [
    ['a', 10],
    ['b', 10],
    ['c', 30],
  ]);
  t.equal(clock.bootMs(), 30);
  t.equal(clock.pending, 1);
  t.equal(clock.nextInMs, 1);
  t.equal(clock.fired, 3);
});

t.test('timers that are not counted go off, too', async (t) => {
  const clock = new FakeClock({ bootMs: 0 });
  const seen: number[] = [];
  clock.uncounted.after(10, () => seen.push(clock.bootMs()));
  t.equal(clock.pending, 0);
  await clock.advance(20);
  t.same([seen, clock.fired], [[10], 0]);
});

t.test('promises settle between timers, and timers they set go off in the same advance', async (t) => {
  const clock = new FakeClock({ bootMs: 0 });
  const sleep = (ms: number) => new Promise<void>((wake) => clock.after(ms, wake));
  const seen: number[] = [];
  const work = (async () => {
    for (let turn = 0; turn < 5; turn++) {
      await sleep(10);
      seen.push(clock.bootMs());
    }
  })();
  await clock.advance(50);
  t.same(seen, [10, 20, 30, 40, 50]);
  await work;
});

t.test('in a suspend time passes and nothing runs; what came due goes off after it', async (t) => {
  const clock = new FakeClock({ bootMs: 100, wallMs: 5000 });
  const seen: number[] = [];
  clock.after(10, () => seen.push(clock.bootMs()));
  clock.suspend(1000);
  t.same([clock.bootMs(), clock.wallMs(), seen.length], [1100, 6000, 0]);
  await clock.advance(0);
  t.same(seen, [1100]);
});

t.test('a reboot is another clock: its boot, its wall and its trust are new', async (t) => {
  const clock = new FakeClock();
  clock.confirm();
  const next = clock.reboot({ offMs: 1000 });
  t.not(next.boot, clock.boot);
  t.match(next.boot, /^[0-9a-f]{8}$/);
  t.equal(next.wallMs() - next.bootMs(), clock.wallMs() + 1000, 'it began when the power came back');
  t.same([clock.trust(), next.trust(), next.pending], ['confirmed', 'plausible', 0]);
  const dead = clock.reboot({ offMs: 1000, wallMs: 0 });
  t.same([dead.wallMs(), dead.trust()], [dead.bootMs(), 'wrong']);
});
