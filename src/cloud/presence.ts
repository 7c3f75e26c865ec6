/**
 * Decides whether a device is online, after each heartbeat and after silence. Moments are milliseconds of one monotonic
 * clock.
 *
 * When an offline device returns, people are told at once. The next outage needs a whole delay of silence again. So
 * people get at most one "silent" and one "back" within a delay. Each outage doubles the silence that the next one
 * needs, up to DAMPED_DELAYS delays. After STEADY_DELAYS steady delays it is one delay again.
 */
import { MINUTE_MS } from '../base/limits.js';

/** What a heartbeat may say of the device. `moved`: it goes to another cloud, so people are not told. */
export const SAID = ['running', 'stopping', 'moved'] as const;
/** One of SAID. */
export type Said = (typeof SAID)[number];

/** The presence of one device. */
export interface Presence {
  /** `offline`: people were told so. */
  readonly state: 'online' | 'offline';
  /** The last heartbeat; after a time without the watch, the moment from which silence counts. */
  readonly heardMs: number;
  readonly said: Said;
  /** The heartbeat interval that the device reports; 0: it reports none. */
  readonly everyMs: number;
  /** The number of delays of silence after which it is offline. */
  readonly damping: number;
  /** When it last returned after an unannounced silence of its delay or more; null: never, or long ago. */
  readonly unsteadyMs: number | null;
  /** When the device sent its last heartbeat, by its own clock; null: it does not report this. */
  readonly sent?: Sent | null;
}

/** A moment on the clock of a device. Within a boot `uptimeMs` grows; in a container it may restart. */
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
/** An older heartbeat can arrive at most this long after a newer one. */
const OVERTAKEN_MS = MINUTE_MS;
/** Leaves time for one lost and one late heartbeat before people are told. */
const HEARTBEATS_PER_DELAY = 2.5;

/** The presence at the first heartbeat. Also the base of a presence that is read from the file. */
export function firstHeard(nowMs: number): Presence {
  return { state: 'online', heardMs: nowMs, said: 'running', everyMs: 0, damping: 1, unsteadyMs: null };
}

/**
 * True for a heartbeat that was delayed: the device sent it before the last one heard. Always false OVERTAKEN_MS after
 * the last heartbeat, because in a container the uptime can restart within a boot.
 */
export function isOvertaken(
  { sent, heardMs }: Pick<Presence, 'sent' | 'heardMs'>,
  nowMs: number,
  now: Sent | null | undefined,
): boolean {
  if (!sent || !now || nowMs - heardMs >= OVERTAKEN_MS) return false;
  return now.bootId === sent.bootId && now.uptimeMs < sent.uptimeMs;
}

/** The presence after a heartbeat. If the device was offline and has not moved, the caller tells people: it is back. */
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

/** The presence after silence. If the device was online and is not now, the caller tells people. */
export function afterSilence(before: Presence, nowMs: number, delays: Delays): Presence {
  const { state, heardMs, said, damping } = before;
  const patienceMs = delayOf(before, delays) * damping;
  const limitMs = said === 'stopping' ? Math.max(delays.stopDelayMs, patienceMs) : patienceMs;
  const isLate = state === 'online' && said !== 'moved' && nowMs - heardMs >= limitMs;
  return isLate ? { ...before, state: 'offline' } : before;
}

/** The delay of a steady device. A long heartbeat interval makes it longer. */
function delayOf({ everyMs }: Pick<Presence, 'everyMs'>, { delayMs }: Delays): number {
  return Math.max(delayMs, HEARTBEATS_PER_DELAY * everyMs);
}

/** The presence after the watch was not running. Silence counts only from `graceMs` after `nowMs` on. */
export function afterAbsence(before: Presence, nowMs: number, graceMs: number): Presence {
  return { ...before, heardMs: Math.max(before.heardMs, nowMs + graceMs) };
}
