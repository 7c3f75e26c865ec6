/**
 * Moments that outlast a process. Within a boot they are exact, whatever the wall clock does.
 */
import { shapeOf } from '../base/json.js';
import { startMsOf } from '../base/stamp.js';
import type { Clock } from '../base/system/clock.js';

type Clocks = Pick<Clock, 'wallMs' | 'bootMs' | 'boot' | 'trust'>;

/** A moment, as `presence.json` has it. */
export interface Moment {
  /** '': a moment of another machine, of which only the wall time is known. */
  readonly boot: string;
  readonly bootMs: number;
  /** The wall time; null if the wall clock was known to be wrong. */
  readonly wallMs: number | null;
  /** True if the wall clock was confirmed at that moment. */
  readonly confirmed: boolean;
}

/** The shape of a moment, for shapeOf. */
export const MOMENT = { boot: '', bootMs: 1.5, 'wallMs|null': 1.5, confirmed: true };

/** True for a moment in a file. */
export const isMoment = shapeOf(MOMENT);

/** The present moment. */
export function momentOf(clocks: Clocks): Moment {
  const trust = clocks.trust();
  return {
    boot: clocks.boot,
    bootMs: clocks.bootMs(),
    wallMs: trust === 'wrong' ? null : clocks.wallMs(),
    confirmed: trust === 'confirmed',
  };
}

/** A moment of which another machine has written the wall time. */
export function momentAt(wallMs: number | null): Moment {
  return { boot: '', bootMs: 0, wallMs, confirmed: true };
}

/** The moment in wall time; null if it is not known. */
export function wallMsOf(moment: Moment, clocks: Clocks): number | null {
  // Within a boot the present wall clock is used: it may have been set since the moment.
  if (moment.boot === clocks.boot && clocks.trust() !== 'wrong') return startMsOf(clocks) + moment.bootMs;
  return moment.wallMs;
}

/**
 * The time from a moment to the next one in ms; null if it is not known. Between two boots of this machine it is known only if
 * the wall clock was confirmed at both.
 */
export function sinceMs(moment: Moment, clocks: Clocks, next: Moment): number | null {
  if (moment.boot === next.boot && next.boot !== '') return next.bootMs - moment.bootMs;
  const [fromMs, toMs] = [wallMsOf(moment, clocks), wallMsOf(next, clocks)];
  if (fromMs === null || toMs === null) return null;
  if (moment.boot === '' || next.boot === '') return Math.max(0, toMs - fromMs);
  // The moment lies before the boot of the next one.
  return moment.confirmed && next.confirmed && toMs - fromMs >= next.bootMs ? toMs - fromMs : null;
}
