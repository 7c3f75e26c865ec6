/**
 * The moment of a heartbeat in a form that survives a restart and a wrong clock: boot time and wall time.
 */
import { startMsOf } from '../base/stamp.js';
import type { Clock } from '../base/system/clock.js';

type Clocks = Pick<Clock, 'wallMs' | 'bootMs' | 'boot' | 'trust'>;

/** A moment, as `presence.json` has it. */
export interface Moment {
  readonly boot: string;
  readonly bootMs: number;
  /** The wall time; null if the wall clock was known to be wrong. */
  readonly wallMs: number | null;
  /** True if the wall clock was confirmed at that moment. */
  readonly confirmed: boolean;
}

/** The shape of a moment. */
export const MOMENT = { boot: '', bootMs: 1.5, 'wallMs|null': 1.5, confirmed: true };

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

/** The moment in wall time; null if it is not known. */
export function wallMsOf(moment: Moment, clocks: Clocks): number | null {
  // Within a boot the present wall clock is used: it may have been set since the moment.
  if (moment.boot === clocks.boot && clocks.trust() !== 'wrong') return startMsOf(clocks) + moment.bootMs;
  return moment.wallMs;
}

/** The time since the moment in ms; null if the machine has booted since and its wall clock was not confirmed twice. */
export function sinceMs(moment: Moment, clocks: Clocks): number | null {
  const nowMs = clocks.bootMs();
  if (moment.boot === clocks.boot) return nowMs - moment.bootMs;
  if (moment.wallMs === null || !moment.confirmed || clocks.trust() !== 'confirmed') return null;
  const passedMs = clocks.wallMs() - moment.wallMs;
  // The moment lies before this boot.
  return passedMs >= nowMs ? passedMs : null;
}
