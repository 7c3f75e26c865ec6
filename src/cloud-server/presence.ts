/**
 * Whether a device is there: what a heartbeat and the passing of time make of what was known (pure; watch.ts keeps
 * it). Moments are milliseconds of one clock that never leaps.
 *
 * A device that was told to be offline and returns is told to be back at once; then it must be silent for its whole
 * delay again. So within one delay there is never more than one pair of messages. A device that keeps falling silent
 * wearies people all the same: each outage that was told doubles the silence it takes to be told the next one, up to
 * DAMPED_DELAYS delays, until the device has been steady for STEADY_DELAYS delays.
 */

/** What is known of one device. */
export interface Presence {
  /** What people believe: they were told last that it is offline, or never, or that it is back. */
  readonly state: 'online' | 'offline';
  /** The last heartbeat; or, when the watch itself was away, the moment from which silence counts. */
  readonly heardMs: number;
  /** The last heartbeat said that the device was stopping. */
  readonly stopping: boolean;
  /** The silence after which it counts as offline. */
  readonly patienceMs: number;
  /** When it last was silent for its delay; null while it never was, or long ago. */
  readonly unsteadyMs: number | null;
}

/** How long is too long. */
export interface Delays {
  readonly delayMs: number;
  /** For a device that has said that it was stopping. */
  readonly stopDelayMs: number;
}

const DAMPED_DELAYS = 8;
const STEADY_DELAYS = 20;

/** A device that is heard of for the first time, or for the first time since the watch was away. */
export function firstHeard(nowMs: number, { delayMs }: Delays): Presence {
  return { state: 'online', heardMs: nowMs, stopping: false, patienceMs: delayMs, unsteadyMs: null };
}

/** After a heartbeat. If it was offline before, people are to be told that it is back. */
export function afterHeartbeat(before: Presence, nowMs: number, stopping: boolean, delays: Delays): Presence {
  const { delayMs } = delays;
  const wasOutage = before.state === 'offline' && !before.stopping;
  const wasSilent = !before.stopping && nowMs - before.heardMs >= delayMs;
  const unsteadyMs = wasOutage || wasSilent ? nowMs : before.unsteadyMs;
  const isSteady = unsteadyMs === null || nowMs - unsteadyMs >= STEADY_DELAYS * delayMs;
  return {
    state: 'online',
    heardMs: nowMs,
    stopping,
    patienceMs: isSteady
      ? delayMs
      : Math.min(before.patienceMs * (wasOutage ? 2 : 1), DAMPED_DELAYS * delayMs),
    unsteadyMs: isSteady ? null : unsteadyMs,
  };
}

/** After the passing of time. If it was online before and is not now, people are to be told. */
export function afterSilence(before: Presence, nowMs: number, { stopDelayMs }: Delays): Presence {
  const { state, heardMs, stopping, patienceMs } = before;
  const limitMs = stopping ? Math.max(stopDelayMs, patienceMs) : patienceMs;
  return state === 'online' && nowMs - heardMs >= limitMs ? { ...before, state: 'offline' } : before;
}

/** After the watch was away: nobody is to blame for that time, and a device may take `graceMs` to find us again. */
export function afterAbsence(before: Presence, nowMs: number, graceMs: number): Presence {
  return { ...before, heardMs: Math.max(before.heardMs, nowMs + graceMs) };
}
