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
