import t from 'tap';
import { Alarm } from '../../src/base/retry/alarm.js';
import { FakeClock } from '../support/clock.js';

function start(ring: (alarm: Alarm) => void = () => {}) {
  const clock = new FakeClock({ bootMs: 1000 });
  const rung: number[] = [];
  const alarm = new Alarm(clock, () => {
    rung.push(clock.bootMs());
    ring(alarm);
  });
  return { alarm, clock, rung };
}

t.test('an alarm rings once, at the time set last', async (t) => {
  const { alarm, clock, rung } = start();
  t.equal(alarm.isSet, false);
  alarm.at(1500);
  alarm.in(200);
  alarm.at(1300);
  t.same([alarm.isSet, clock.pending], [true, 1]);
  await clock.advance(1000);
  t.same([rung, alarm.isSet, clock.pending], [[1300], false, 0]);
});

t.test('the same moment again keeps its timer, and so its turn', async (t) => {
  const { alarm, clock, rung } = start();
  alarm.at(1100);
  const before: number[] = [];
  clock.after(100, () => before.push(rung.length));
  alarm.at(1100);
  alarm.in(100);
  await clock.advance(100);
  t.same([before, rung], [[1], [1100]]);
});

t.test('a moment in the past is in 1 ms, never within the call', async (t) => {
  const { alarm, clock, rung } = start();
  alarm.at(5);
  alarm.in(0);
  t.same([rung, clock.nextInMs], [[], 1]);
  await clock.advance(1);
  t.same(rung, [1001]);
});

t.test('Infinity and off() leave an alarm unset', async (t) => {
  const { alarm, clock, rung } = start();
  alarm.in(10);
  alarm.at(Number.POSITIVE_INFINITY);
  t.same([alarm.isSet, clock.pending], [false, 0]);
  alarm.in(10);
  alarm.off();
  t.same([alarm.isSet, clock.pending], [false, 0]);
  alarm.in(10);
  await clock.advance(10);
  t.same(rung, [1010]);
});

t.test('while an alarm rings it is not set, and may be set', async (t) => {
  const states: boolean[] = [];
  const { alarm, clock, rung } = start((alarm) => {
    states.push(alarm.isSet);
    if (states.length < 3) alarm.in(10);
  });
  alarm.in(10);
  await clock.advance(100);
  t.same([rung, states, clock.pending], [[1010, 1020, 1030], [false, false, false], 0]);
});

t.test('after its end an alarm is not set', async (t) => {
  const { alarm, clock, rung } = start();
  alarm.in(10);
  alarm.end();
  alarm.in(10);
  t.same([alarm.isSet, clock.pending], [false, 0]);
  await clock.advance(10);
  t.same(rung, []);
});

t.test('a later moment keeps the timer, which is set again when it fires', async (t) => {
  const { alarm, clock, rung } = start();
  alarm.in(100);
  await clock.advance(50);
  alarm.in(100);
  t.same([clock.pending, clock.nextInMs], [1, 50], 'the first timer');
  await clock.advance(50);
  t.same([rung, alarm.isSet, clock.nextInMs], [[], true, 50]);
  await clock.advance(50);
  t.same([rung, alarm.isSet, clock.pending], [[1150], false, 0]);
  alarm.in(100);
  alarm.in(10);
  t.same([clock.pending, clock.nextInMs], [1, 10], 'an earlier moment needs another timer');
});
