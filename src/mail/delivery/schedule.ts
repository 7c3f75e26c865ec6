/**
 * When delivery tries a message again that is at fault itself. Pure: it reads no clock.
 */
import { assert } from '../../base/errors.js';
import { spread } from '../../base/retry/backoff.js';

/**
 * The wait before the next attempt: the message's age, but at least `minMs` and at most `maxMs`, ± 10 %. So the waits
 * double, and the number of attempts grows only with the logarithm of the age.
 * `random` is in [0, 1).
 */
export function retryDelayMs(ageMs: number, random: number, minMs: number, maxMs: number): number {
  assert(random >= 0 && random < 1);
  return spread(Math.min(Math.max(ageMs, minMs), maxMs), random);
}
