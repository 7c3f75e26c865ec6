/**
 * Times of recorded moments: their age, their wall time, and whether the wall clock can be trusted.
 */
import { SECOND_MS, YEAR_MS } from './limits.js';

/** A wall clock is wrong before this moment, */
export const EARLIEST_WALL_MS = Date.UTC(2026, 10, 1);
/** and more than this after it. */
const PLAUSIBLE_YEARS = 20;

/** A moment on the clock of a boot, which never leaps. The wall time follows from the Boot. */
export interface Stamp {
  /** The first eight hex digits of the kernel's boot id. */
  readonly boot: string;
  /** Since the boot began. */
  readonly bootMs: number;
}

/** What is known of a boot: one correction of it corrects all its moments. */
export interface Boot {
  /** When it began, by the wall clock as last seen in that boot. */
  readonly startMs: number;
  /** True if the wall was confirmed then. */
  readonly confirmed: boolean;
}

/** How far the wall clock is trusted. `confirmed`: by NTP or the cloud, in this boot. `wrong`: impossible. */
export type Trust = 'confirmed' | 'plausible' | 'wrong';

/** The clocks, as far as a stamp needs them. */
interface Clocks {
  wallMs(): number;
  bootMs(): number;
  readonly boot: string;
  trust(): Trust;
}

/** The known boots, by id. */
export type Boots = ReadonlyMap<string, Boot>;

// The clocks are not read at one instant, and some kernels give the uptime in whole seconds.
const LEAP_MS = 2 * SECOND_MS;

/** True if this wall time is neither before the first release nor decades after it. */
export function isPlausible(wallMs: number): boolean {
  return wallMs >= EARLIEST_WALL_MS && wallMs < EARLIEST_WALL_MS + PLAUSIBLE_YEARS * YEAR_MS;
}

/** True if the wall clock has leapt between two readings of startMsOf(). */
export function hasLeapt(startMs: number, laterStartMs: number): boolean {
  return Math.abs(laterStartMs - startMs) > LEAP_MS;
}

/** When this boot began, by the present wall clock. It changes only when the wall leaps. */
export function startMsOf(clocks: Pick<Clocks, 'wallMs' | 'bootMs'>): number {
  return clocks.wallMs() - clocks.bootMs();
}

/** This boot as it is known now. Null if `boots` has it so already. */
export function bootNews(clocks: Clocks, boots: Boots): Boot | null {
  const known = boots.get(clocks.boot);
  const startMs = startMsOf(clocks);
  const confirmed = clocks.trust() === 'confirmed';
  // A leap that is not confirmed does not change a confirmed start, nor one to 1970 a plausible one.
  if (known && !confirmed && (known.confirmed || (isPlausible(known.startMs) && !isPlausible(startMs))))
    return null;
  if (known?.confirmed === confirmed && !hasLeapt(known.startMs, startMs)) return null;
  return { startMs, confirmed };
}

/** Now, or `laterMs` from now. */
export function stampOf(clocks: Clocks, laterMs = 0): Stamp {
  return { boot: clocks.boot, bootMs: clocks.bootMs() + laterMs };
}

/**
 * How long ago `stamp` was, never too much. A stamp of this boot is measured by the boot's clock. For a stamp of another
 * boot only the time since this boot began is certain. The rest counts only if the wall clock was confirmed in both.
 */
export function ageMs(stamp: Stamp, clocks: Clocks, boots: Boots): number {
  const nowMs = clocks.bootMs();
  if (stamp.boot === clocks.boot) return Math.max(0, nowMs - stamp.bootMs);
  const then = boots.get(stamp.boot);
  if (then === undefined || !isAgeKnown(stamp, clocks, boots)) return nowMs;
  return Math.max(nowMs, clocks.wallMs() - (then.startMs + stamp.bootMs));
}

/** False if `stamp` may be older than ageMs() gives. */
export function isAgeKnown(stamp: Stamp, clocks: Clocks, boots: Boots): boolean {
  return (
    stamp.boot === clocks.boot ||
    (boots.get(stamp.boot)?.confirmed === true && clocks.trust() === 'confirmed')
  );
}

/** The wall time of `stamp`, as far as it is known. For people to read, not for ages. */
export function wallMsOf(stamp: Stamp, clocks: Clocks, boots: Boots): number {
  const then = boots.get(stamp.boot);
  const startMs = startMsOf(clocks);
  if (stamp.boot === clocks.boot) {
    // Without a leap every call gives the same millisecond.
    return (then && !hasLeapt(then.startMs, startMs) ? then.startMs : startMs) + stamp.bootMs;
  }
  const thenMs = then ? then.startMs + stamp.bootMs : 0;
  if (then && (then.confirmed || clocks.trust() === 'wrong')) return thenMs;
  // The clock of that boot was wrong, but the moment was before this boot began.
  return isPlausible(thenMs) ? Math.min(thenMs, startMs) : startMs;
}

/**
 * The date of a mail that was accepted at `stamp`; null: a wrong clock has never known it. Once the clock of that boot is
 * confirmed, no unconfirmed leap changes it: all copies of a mail have the same date. Before, the best known time holds.
 */
export function dateMsOf(stamp: Stamp, clocks: Clocks, boots: Boots): number | null {
  const then = boots.get(stamp.boot);
  const thenMs = then ? then.startMs + stamp.bootMs : 0;
  if (then?.confirmed) return thenMs;
  if (clocks.trust() !== 'wrong') return wallMsOf(stamp, clocks, boots);
  // A time that the cloud doubts has not leapt since.
  const isDoubted = then && stamp.boot === clocks.boot && !hasLeapt(then.startMs, startMsOf(clocks));
  return isPlausible(thenMs) && !isDoubted ? thenMs : null;
}
