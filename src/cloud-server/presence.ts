/**
 * Whether a device is online: the state after each heartbeat and after the passing of time. Moments are milliseconds of
 * one clock that never leaps.
 *
 * When a device that people think offline returns, they are told at once. Then it must be silent for its whole delay
 * again, so within one delay there is at most one pair of messages. Each outage doubles the silence before the next one is
 * told, up to DAMPED_DELAYS delays, until the device has been steady for STEADY_DELAYS delays. Used by watch.ts.
 */
import { MINUTE_MS } from '../limits.js';

/** The device's plans in a heartbeat. `moved`: it goes to another cloud, so people are not told. */
export type Said = 'running' | 'stopping' | 'moved';

/** The presence of one device. */
export interface Presence {
  /** `offline`: the last news that people were told. */
  readonly state: 'online' | 'offline';
  /** The last heartbeat; or, when the watch itself was away, the moment from which silence counts. */
  readonly heardMs: number;
  readonly said: Said;
  /** The interval of its heartbeats as the device tells it; 0 where it does not. */
  readonly everyMs: number;
  /** Delays of silence after which it is offline. */
  readonly damping: number;
  /** When it was last silent for its delay; null: never, or long ago. */
  readonly unsteadyMs: number | null;
  /** When the device sent its last heartbeat; null where it does not tell. */
  readonly sent?: Sent | null;
}

/** A moment on the clock of a device: within a boot `uptimeMs` grows, also when the daemon restarts. */
export interface Sent {
  readonly bootId: string;
  readonly uptimeMs: number;
}

/** The delays after which people are told. */
export interface Delays {
  readonly delayMs: number;
  /** After a planned stop. */
  readonly stopDelayMs: number;
}

const DAMPED_DELAYS = 8;
const STEADY_DELAYS = 20;
/** No heartbeat is delayed for longer on its way. */
const OVERTAKEN_MS = MINUTE_MS;
/** One heartbeat may be lost and the next late before people are told. */
const HEARTBEATS_PER_DELAY = 2.5;

/** A device at its first heartbeat, or at the first since the watch was away. */
export function firstHeard(nowMs: number): Presence {
  return { state: 'online', heardMs: nowMs, said: 'running', everyMs: 0, damping: 1, unsteadyMs: null };
}

/**
 * True for a heartbeat that the device sent before the last one heard: it was delayed on its way. False after OVERTAKEN_MS,
 * because in a container the uptime may begin anew in the same boot.
 */
export function isOvertaken(
  { sent, heardMs }: Presence,
  nowMs: number,
  now: Sent | null | undefined,
): boolean {
  if (!sent || !now || nowMs - heardMs >= OVERTAKEN_MS) return false;
  return now.bootId === sent.bootId && now.uptimeMs < sent.uptimeMs;
}

/** After a heartbeat. If the device was offline and has not moved, the caller tells people that it is back. */
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

/** After the passing of time. If the device was online and is not now, the caller tells people. */
export function afterSilence(before: Presence, nowMs: number, delays: Delays): Presence {
  const { state, heardMs, said, damping } = before;
  const patienceMs = delayOf(before, delays) * damping;
  const limitMs = said === 'stopping' ? Math.max(delays.stopDelayMs, patienceMs) : patienceMs;
  const isLate = state === 'online' && said !== 'moved' && nowMs - heardMs >= limitMs;
  return isLate ? { ...before, state: 'offline' } : before;
}

/** The delay of a steady device. One with long intervals gets a longer delay. */
function delayOf({ everyMs }: Pick<Presence, 'everyMs'>, { delayMs }: Delays): number {
  return Math.max(delayMs, HEARTBEATS_PER_DELAY * everyMs);
}

/** After the watch was away: that time does not count, and a device has `graceMs` for its next heartbeat. */
export function afterAbsence(before: Presence, nowMs: number, graceMs: number): Presence {
  return { ...before, heardMs: Math.max(before.heardMs, nowMs + graceMs) };
}
