import t from 'tap';
import { HOUR_MS, MINUTE_MS } from '../../src/base/limits.js';
import { retryDelayMs } from '../../src/mail/delivery/blame.js';

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
