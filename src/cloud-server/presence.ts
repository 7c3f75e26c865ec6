/**
 * Whether a device is there: what a heartbeat and the passing of time make of what was known (pure; watch.ts keeps
 * it). Moments are milliseconds of one clock that never leaps.
 *
 * A device that was told to be offline and returns is told to be back at once; then it must be silent for its whole
 * delay again. So within one delay there is never more than one pair of messages. A device that keeps falling silent
 * wearies people all the same: each outage that was told doubles the silence it takes to be told the next one, up to
 * DAMPED_DELAYS delays, until the device has been steady for STEADY_DELAYS delays.
 */

import { MINUTE_MS } from '../limits.js';

/** What a heartbeat says of the device's plans. `moved`: it goes to another cloud, and this one tells nobody. */
export type Said = 'running' | 'stopping' | 'moved';

/** What is known of one device. */
export interface Presence {
  /** What people believe: they were told last that it is offline, or never, or that it is back. */
  readonly state: 'online' | 'offline';
  /** The last heartbeat; or, when the watch itself was away, the moment from which silence counts. */
  readonly heardMs: number;
  /** What the last heartbeat said. */
  readonly said: Said;
  /** How often the device says that it comes; 0 where it does not say. */
  readonly everyMs: number;
  /** It counts as offline after so many delays of silence. */
  readonly damping: number;
  /** When it last was silent for its delay; null while it never was, or long ago. */
  readonly unsteadyMs: number | null;
  /** When the device sent its last heartbeat, where it says so. */
  readonly sent?: Sent | null;
}

/** A moment on the clock of a device: `uptimeMs` grows as long as `bootId` is the same, also when the daemon restarts. */
export interface Sent {
  readonly bootId: string;
  readonly uptimeMs: number;
}

/** How long is too long. */
export interface Delays {
  readonly delayMs: number;
  /** For a device that has said that it was stopping. */
  readonly stopDelayMs: number;
}

const DAMPED_DELAYS = 8;
const STEADY_DELAYS = 20;
/** No call is held up for longer. */
const OVERTAKEN_MS = MINUTE_MS;
/** One heartbeat in a row may be lost, and the next late, before anybody is alarmed. */
const HEARTBEATS_PER_DELAY = 2.5;

/** A device that is heard of for the first time, or for the first time since the watch was away. */
export function firstHeard(nowMs: number): Presence {
  return { state: 'online', heardMs: nowMs, said: 'running', everyMs: 0, damping: 1, unsteadyMs: null };
}

/**
 * True for a heartbeat that was sent before the last one that was heard: it was held up on its way, and says nothing of now.
 * Not for long, as an uptime may begin anew in the same boot (a container's).
 */
export function isOvertaken(
  { sent, heardMs }: Presence,
  nowMs: number,
  now: Sent | null | undefined,
): boolean {
  if (!sent || !now || nowMs - heardMs >= OVERTAKEN_MS) return false;
  return now.bootId === sent.bootId && now.uptimeMs < sent.uptimeMs;
}

/** After a heartbeat. If it was offline before and has not moved, people are to be told that it is back. */
export function afterHeartbeat(
  before: Presence,
  nowMs: number,
  { said, everyMs, sent = null }: Pick<Presence, 'said' | 'everyMs' | 'sent'>,
  delays: Delays,
): Presence {
  const wasRunning = before.said === 'running';
  const wasOutage = before.state === 'offline' && wasRunning;
  const wasSilent = wasRunning && nowMs - before.heardMs >= delayOf(before, delays);
  const unsteadyMs = wasOutage || wasSilent ? nowMs : before.unsteadyMs;
  const delayMs = delayOf({ everyMs }, delays);
  const isSteady = unsteadyMs === null || nowMs - unsteadyMs >= STEADY_DELAYS * delayMs;
  return {
    state: 'online',
    heardMs: nowMs,
    said,
    everyMs,
    sent,
    damping: isSteady ? 1 : Math.min(before.damping * (wasOutage ? 2 : 1), DAMPED_DELAYS),
    unsteadyMs: isSteady ? null : unsteadyMs,
  };
}

/** After the passing of time. If it was online before and is not now, people are to be told. */
export function afterSilence(before: Presence, nowMs: number, delays: Delays): Presence {
  const { state, heardMs, said, damping } = before;
  const patienceMs = delayOf(before, delays) * damping;
  const limitMs = said === 'stopping' ? Math.max(delays.stopDelayMs, patienceMs) : patienceMs;
  const isLate = state === 'online' && said !== 'moved' && nowMs - heardMs >= limitMs;
  return isLate ? { ...before, state: 'offline' } : before;
}

/** The delay of a steady device: a device that comes seldom is not late when it comes as it said. */
function delayOf({ everyMs }: Pick<Presence, 'everyMs'>, { delayMs }: Delays): number {
  return Math.max(delayMs, HEARTBEATS_PER_DELAY * everyMs);
}

/** After the watch was away: nobody is to blame for that time, and a device may take `graceMs` to find us again. */
export function afterAbsence(before: Presence, nowMs: number, graceMs: number): Presence {
  return { ...before, heardMs: Math.max(before.heardMs, nowMs + graceMs) };
}
