/**
 * What a device says of itself in a heartbeat, for the operator. Devices may be of any version and any maker, so nothing here
 * makes a heartbeat invalid: what cannot be used is ignored. Pure.
 */
import { isJsonObject, type JsonObject } from '../base/json.js';
import { oneLine } from '../base/text.js';
import { isRelayDown, LINK_STATES, RELAY_STATES } from '../base/views.js';

/** How many messages of a device wait, and how many have failed. */
export interface QueueDepth {
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

/** The status in the body of a heartbeat, or in a file. */
export function statusOf({ version, queue, relay, link }: JsonObject): DeviceStatus {
  return {
    version: textOf(version, VERSION_CHARS_MAX),
    queue: depthOf(queue),
    relay: wordOf(relay),
    link: wordOf(link),
  };
}

/** `now`; or `before`, which is in memory already, if it says the same. */
export function keptStatus(before: DeviceStatus, now: DeviceStatus): DeviceStatus {
  const [a, b] = [before.queue, now.queue];
  const sameQueue =
    a === b ||
    (a !== null && b !== null && a.queued === b.queued && a.deferred === b.deferred && a.failed === b.failed);
  const sameTexts = before.version === now.version && before.relay === now.relay && before.link === now.link;
  return sameQueue && sameTexts ? before : now;
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

function depthOf(value: unknown): QueueDepth | null {
  if (!isJsonObject(value)) return null;
  const { queued, deferred, failed } = value;
  if (!isCount(queued) || !isCount(deferred) || !isCount(failed)) return null;
  return queued + deferred + failed === 0 ? EMPTY : { queued, deferred, failed };
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
