/**
 * Whether a device is online, and what it says of itself. Pure. Moments are milliseconds of one monotonic clock.
 *
 * When an offline device returns, people are told at once. The next outage needs a whole delay of silence again. So
 * people get at most one "silent" and one "back" within a delay. Each outage doubles the silence that the next one
 * needs, up to DAMPED_DELAYS delays and DAMPED_MAX_MS. After STEADY_DELAYS steady delays it is one delay again.
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
import { HOUR_MS, MINUTE_MS } from '../base/limits.js';
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
  /** Counts the heartbeats since its program started; left out: it does not report this. */
  readonly sequence?: number;
}

/** The delays after which people are told. */
export interface Delays {
  readonly delayMs: number;
  /** After a planned stop. */
  readonly stopDelayMs: number;
}

const DAMPED_DELAYS = 8;
/** A device that is silent by its nature for longer than this is not damped. */
const DAMPED_MAX_MS = HOUR_MS;
/** After so many steady delays an earlier outage does not count any more. */
export const STEADY_DELAYS = 20;
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
  const delayMs = delayOf(before, delays);
  const patienceMs = Math.max(delayMs, Math.min(delayMs * damping, DAMPED_MAX_MS));
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
  /** Names of programs that gave no sign in time. */
  readonly late: readonly string[];
}

const VERSION_CHARS_MAX = 40;
const WORD_CHARS_MAX = 20;
const LATE_MAX = 20;
const LATE_CHARS_MAX = 64;
/** Most devices. */
const NONE_LATE: readonly string[] = [];

/** A device that has reported nothing. */
export const NO_STATUS: DeviceStatus = {
  version: null,
  queue: null,
  relay: null,
  link: null,
  late: NONE_LATE,
};
/** Shared by all devices whose queue is empty, which are most: memory holds the status of each device. */
const EMPTY: QueueDepth = { queued: 0, deferred: 0, failed: 0 };
const WORDS: readonly string[] = [...RELAY_STATES, ...LINK_STATES];

/** The status in the body of a heartbeat, or in a file. NO_STATUS: it has none. */
export function statusOf(body: JsonObject): DeviceStatus {
  const version = textOf(body.version, VERSION_CHARS_MAX);
  const queue = depthOf(body.queue);
  const [relay, link] = [wordOf(body.relay), wordOf(body.link)];
  const late = lateIn(body.late);
  const isEmpty = !(version ?? queue ?? relay ?? link) && late.length === 0;
  return isEmpty ? NO_STATUS : { version, queue, relay, link, late };
}

/** True if a person should look after the device: a relay is failing or refusing, messages have failed, or a program is late. */
export function needsHelp(status: DeviceStatus): boolean {
  return areMailsStuck(status) || status.late.length > 0;
}

/** True if its mails do not leave: a relay is failing or refusing, or messages have failed. */
export function areMailsStuck({ relay, queue }: DeviceStatus): boolean {
  return isRelayDown(relay) || (queue !== null && queue.failed > 0);
}

function lateIn(value: unknown): readonly string[] {
  if (!Array.isArray(value) || value.length === 0) return NONE_LATE;
  const names = value.slice(0, LATE_MAX).flatMap((name) => textOf(name, LATE_CHARS_MAX) ?? []);
  return names.length === 0 ? NONE_LATE : names;
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

/** The content of a heartbeat. */
export interface Report extends Pick<Presence, 'said' | 'everyMs' | 'sent'> {
  /** Left out: the device reports nothing of itself. */
  readonly status?: DeviceStatus;
  /** Somebody at the device asks for quiet of so many ms from now on; 0: for its end. */
  readonly quiet?: { readonly forMs: number; readonly why: string | null } | null;
  /** Its last word: it expects to go offline, and why. */
  readonly last?: string | null;
}
