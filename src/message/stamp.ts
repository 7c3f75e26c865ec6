/** Moments as both clocks saw them, and the ages that can be told from them (delivery.md, Clock). */
import type { Stamp } from './message.js';

/** The two clocks, as far as a stamp needs them. */
interface Clocks {
  wallMs(): number;
  bootMs(): number;
  readonly boot: string;
}

/** Now, or `laterMs` from now. */
export function stampOf(clocks: Clocks, laterMs = 0): Stamp {
  return { wallMs: clocks.wallMs() + laterMs, boot: clocks.boot, bootMs: clocks.bootMs() + laterMs };
}

/**
 * How long ago `stamp` was, in ms. Within a boot by the boot's clock; of another boot only the time since
 * this one began is certain, so the answer may be too small, never too large.
 */
export function ageMs(stamp: Stamp, now: Stamp): number {
  return stamp.boot === now.boot ? now.bootMs - stamp.bootMs : now.bootMs;
}
