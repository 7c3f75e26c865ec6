/**
 * How long a peer that is in trouble is left alone. Pure; used for relays and for the cloud.
 */
import { assert } from '../errors.js';

/**
 * How long to leave a peer alone after its `failures`th trouble in a row (from 1): full jitter below `minMs`
 * doubling up to `maxMs`. Never nothing, so that no loop can spin on it. `random` is in [0, 1).
 */
export function backoffMs(failures: number, random: number, minMs: number, maxMs: number): number {
  assert(failures >= 1 && random >= 0 && random < 1);
  const ceilingMs = Math.min(minMs * 2 ** (failures - 1), maxMs);
  return Math.ceil((1 - random) * ceilingMs);
}
