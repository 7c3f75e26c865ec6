/**
 * Whether a device is online, and what it says of itself. Pure. Moments are milliseconds of one monotonic clock.
 *
 * When an offline device returns, people are told at once. The next outage needs a whole delay of silence again. So
 * people get at most one "silent" and one "back" within a delay. Each outage doubles the silence that the next one
 * needs, up to DAMPED_DELAYS delays. After STEADY_DELAYS steady delays it is one delay again.
 *
 *   from      on                                        to        people are told
 *   online    silence of a delay, times the damping     offline   silent
 *   online    the same after `stopping`, or of the      offline   stopped
 *             longer delay for stops
 *   online    any silence after `moved`                 online
 *   offline   `running` or `stopping`                   online    back
 *   offline   `moved`                                   online
 *
 * Devices may be of any version and any maker, so nothing in a status makes a heartbeat invalid: what cannot be used is
 * ignored.
 */
import { type JsonObject, shapeOf } from '../base/json.js';
import { MINUTE_MS } from '../base/limits.js';
import { oneLine } from '../base/text.js';
import { isRelayDown, LINK_STATES, RELAY_STATES } from '../base/views.js';

/** After the cloud itself was down, devices have this long to retry: it is the longest pause of their links. */
export const CLOUD_GRACE_MS = 5 * MINUTE_MS;

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

/** How many messages of a device wait, and how many have failed. */
interface QueueDepth {
  readonly queued: number;
  readonly deferred: number;
  readonly failed: number;
}

/** The last report of a device; null: it does not report this. */
export interface DeviceStatus {
  readonly version: string | null;
  readonly queue: QueueDepth | null;
  /** The state of its relays: one of RELAY_STATES, or a word that this version does not know. */
  readonly relay: string | null;
  /** The state of its link before that heartbeat: one of LINK_STATES, or a word that this version does not know. */
  readonly link: string | null;
}

const VERSION_CHARS_MAX = 40;
const WORD_CHARS_MAX = 20;

/** A device that has reported nothing. */
export const NO_STATUS: DeviceStatus = { version: null, queue: null, relay: null, link: null };
/** Shared by all devices whose queue is empty, which are most: memory holds the status of each device. */
const EMPTY: QueueDepth = { queued: 0, deferred: 0, failed: 0 };
const WORDS: readonly string[] = [...RELAY_STATES, ...LINK_STATES];

/** The status in the body of a heartbeat, or in a file. NO_STATUS: it has none. */
export function statusOf(body: JsonObject): DeviceStatus {
  const version = textOf(body.version, VERSION_CHARS_MAX);
  const queue = depthOf(body.queue);
  const [relay, link] = [wordOf(body.relay), wordOf(body.link)];
  return (version ?? queue ?? relay ?? link) ? { version, queue, relay, link } : NO_STATUS;
}

/** True if a person should look after the device: its relay is failing or refusing, or messages have failed. */
export function needsHelp({ relay, queue }: DeviceStatus): boolean {
  return isRelayDown(relay) || (queue !== null && queue.failed > 0);
}

function textOf(value: unknown, charsMax: number): string | null {
  if (typeof value !== 'string' || value.length > charsMax) return null;
  return oneLine(value) || null;
}

function wordOf(value: unknown): string | null {
  // One text for all devices.
  return WORDS.find((word) => word === value) ?? textOf(value, WORD_CHARS_MAX);
}

const isDepth = shapeOf({ queued: 0, deferred: 0, failed: 0 });
function depthOf(value: unknown): QueueDepth | null {
  if (!isDepth(value)) return null;
  const { queued, deferred, failed } = value as QueueDepth;
  return queued + deferred + failed === 0 ? EMPTY : { queued, deferred, failed };
}

/** A device, as the watch shows it. */
export interface Sighting {
  readonly id: string;
  readonly state: 'online' | 'offline' | 'moved';
  /** Wall time of its last heartbeat; null: not known. */
  readonly heardMs: number | null;
  /** Wall time since which it is in this state; if it is offline, of its last heartbeat. Null: not known. */
  readonly sinceMs: number | null;
  readonly status: DeviceStatus;
}

/** The content of a heartbeat. */
export interface Report extends Pick<Presence, 'said' | 'everyMs' | 'sent'> {
  /** Left out: the device reports nothing of itself. */
  readonly status?: DeviceStatus;
}

/** The device as the watch shows it. `sinceMs`: since when it is in its state; of one that is offline it does not count. */
export function sightingOf(
  id: string,
  { said, state: heard }: Presence,
  { heardMs, sinceMs, status }: Pick<Sighting, 'heardMs' | 'sinceMs' | 'status'>,
): Sighting {
  const state = said === 'moved' ? 'moved' : heard;
  return { id, state, heardMs, sinceMs: state === 'offline' ? heardMs : sinceMs, status };
}
