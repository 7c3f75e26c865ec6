/**
 * What the clocks tell: how far the wall is to be believed, and of a moment how long ago it was and what the
 * wall would have said (delivery.md, Clock).
 */
import { EARLIEST_WALL_MS, PLAUSIBLE_YEARS, SECOND_MS, YEAR_MS } from '../limits.js';
import type { Boot, Stamp } from './message.js';

/** `confirmed`: somebody who knows has said so in this boot. `wrong`: it cannot be true. */
export type Trust = 'confirmed' | 'plausible' | 'wrong';

/** The clocks, as far as a stamp needs them. */
interface Clocks {
  wallMs(): number;
  bootMs(): number;
  readonly boot: string;
  trust(): Trust;
}

/** The boots of the moments that are kept, by id. */
export type Boots = ReadonlyMap<string, Boot>;

// The clocks are not read in the same instant, and not all kernels tell their uptime to more than the second.
const LEAP_MS = 2 * SECOND_MS;

/** True if a wall clock that shows this may be right: it is not before the first release, nor decades after. */
export function isPlausible(wallMs: number): boolean {
  return wallMs >= EARLIEST_WALL_MS && wallMs < EARLIEST_WALL_MS + PLAUSIBLE_YEARS * YEAR_MS;
}

/** True if two looks at when the boot began, by the wall, differ by more than looks do. */
export function hasLeapt(startMs: number, laterStartMs: number): boolean {
  return Math.abs(laterStartMs - startMs) > LEAP_MS;
}

/** When this boot began, by the wall as it is now. It changes when the wall leaps, and at nothing else. */
export function startMsOf(clocks: Clocks): number {
  return clocks.wallMs() - clocks.bootMs();
}

/** What has become known of this boot and does not stand in `boots`, or null if that is nothing. */
export function bootNews(clocks: Clocks, boots: Boots): Boot | null {
  const known = boots.get(clocks.boot);
  const startMs = startMsOf(clocks);
  const confirmed = clocks.trust() === 'confirmed';
  // What was confirmed is not unsettled by a leap that nobody has confirmed.
  if (known?.confirmed && !confirmed) return null;
  if (known?.confirmed === confirmed && !hasLeapt(known.startMs, startMs)) return null;
  return { startMs, confirmed };
}

/** Now, or `laterMs` from now. */
export function stampOf(clocks: Clocks, laterMs = 0): Stamp {
  return { boot: clocks.boot, bootMs: clocks.bootMs() + laterMs };
}

/**
 * How long ago `stamp` was, in ms. Within a boot by the boot's clock. Of another boot only the time since this
 * one began is certain, and the rest where the wall was confirmed in both. The answer may be too small, never
 * too large.
 */
export function ageMs(stamp: Stamp, clocks: Clocks, boots: Boots): number {
  const nowMs = clocks.bootMs();
  if (stamp.boot === clocks.boot) return Math.max(0, nowMs - stamp.bootMs);
  const then = boots.get(stamp.boot);
  if (!then?.confirmed || clocks.trust() !== 'confirmed') return nowMs;
  return Math.max(nowMs, clocks.wallMs() - (then.startMs + stamp.bootMs));
}

/** What a right wall clock would have shown at `stamp`, as far as this one tells now. For people, not for ages. */
export function wallMsOf(stamp: Stamp, clocks: Clocks, boots: Boots): number {
  const then = boots.get(stamp.boot);
  const startMs = startMsOf(clocks);
  if (stamp.boot === clocks.boot) {
    // Without a leap it is the same to the millisecond whenever it is asked for.
    return (then && !hasLeapt(then.startMs, startMs) ? then.startMs : startMs) + stamp.bootMs;
  }
  const thenMs = then ? then.startMs + stamp.bootMs : 0;
  if (then && (then.confirmed || clocks.trust() === 'wrong')) return thenMs;
  // A clock that was wrong does not tell; but it was before this boot began.
  return isPlausible(thenMs) ? Math.min(thenMs, startMs) : startMs;
}
