import t from 'tap';
import { retryDelayMs } from '../../src/delivery/schedule.js';
import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/limits.js';
import { backoffMs } from '../../src/network/backoff.js';

const ALMOST_1 = 1 - Number.EPSILON;

t.test('a message waits as long as it is old, between the bounds, ± 10 %', async (t) => {
  const wait = (ageMs: number, random: number) => retryDelayMs(ageMs, random, MINUTE_MS, HOUR_MS);
  for (const [ageMs, middleMs] of [
    [0, MINUTE_MS],
    [MINUTE_MS, MINUTE_MS],
    [7 * MINUTE_MS, 7 * MINUTE_MS],
    [HOUR_MS, HOUR_MS],
    [100 * HOUR_MS, HOUR_MS],
  ] as const) {
    t.equal(wait(ageMs, 0.5), middleMs);
    t.equal(wait(ageMs, 0), Math.round(middleMs * 0.9));
    t.equal(wait(ageMs, ALMOST_1), Math.round(middleMs * 1.1));
  }
});

t.test('a relay is left alone for 1 s doubling to 5 min, all of the span being possible', async (t) => {
  const wait = (failures: number, random: number) => backoffMs(failures, random, SECOND_MS, 5 * MINUTE_MS);
  t.same(
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map((failures) => wait(failures, 0) / SECOND_MS),
    [1, 2, 4, 8, 16, 32, 64, 128, 256, 300],
  );
  t.equal(wait(10_000, 0), 5 * MINUTE_MS, 'no failure count is too high');
  t.equal(wait(4, 0.5), 4 * SECOND_MS);
  t.equal(wait(1, ALMOST_1), 1, 'never nothing at all');
});
