/**
 * Where the fleet's state is in etcd. All keys begin with FIELDPOST_CLOUD_SERVER_STORE_PREFIX:
 *
 *   doc/<device>             its destinations document
 *   seen/<bucket>/<device>   its last heartbeat
 *   told/<device>            what people were last told of it; absent: nothing
 *   outbox/<device>/<id>     news of which people are not told yet
 *   whole/<batch>            all news of this closed batch have its id
 *   message/<device>/<id>    a device's message that no instance has accepted yet
 *   taken/<device>/<id>      the hash of such a message, for a week: a repeated call is recognized
 *   keys/<device>            its keys, hashed
 *   instance/<id>            an instance, under its lease
 *   owner/<role>             the instance that has a role, under the instance's lease
 *   grace                    under a lease: there was an outage, so silence does not count
 *
 * A role is the watch over one bucket of devices, or TELLER: the notifications. Values are JSON, in `seen` and `told` with
 * short names, because each heartbeat is written:
 *
 *   seen   a: wall time; f: since when it is so; s: said; e: interval in ms; b, u: its boot and uptime; st: its status
 *   told   o: 1 if people were told that it is offline; a: the wall time of its last heartbeat
 */
import { crc32 } from '../../base/crc.js';
import { isJsonObject, type JsonObject } from '../../base/json.js';
import { SECOND_MS } from '../../base/limits.js';
import { type Report, SAID, type Said, statusOf } from '../presence.js';
import { TXN_OPS_MAX } from './etcd.js';

/** An instance renews its lease at each tick. */
export const FLEET_TICK_MS = 2 * SECOND_MS;
/** An instance whose memory is older than this refuses calls. */
export const FLEET_STALE_MS = 10 * SECOND_MS;

/** Keys of one transaction that takes a condition and an operation for each. */
export const KEYS_MAX = TXN_OPS_MAX / 2;

const BUCKETS = 256;

/** The role of the instance that accepts notifications and messages for delivery. */
export const TELLER = 'tell';

/** `00` to `ff`: the bucket of a device, which never changes. */
export function bucketOf(device: string): string {
  return hexOf(crc32(Buffer.from(device)) % BUCKETS);
}

const hexOf = (bucket: number) => bucket.toString(16).padStart(2, '0');

export const ROLES: readonly string[] = [
  ...Array.from({ length: BUCKETS }, (_, bucket) => hexOf(bucket)),
  TELLER,
];

/** The key of a role's owner. */
export function ownerKey(role: string): string {
  return `owner/${role}`;
}

/**
 * The instance that should have a role, among those that live: each role ranks the instances in an order of its own, so
 * an instance that comes or goes moves only its own share.
 */
export function rightfulOwner(role: string, instances: Iterable<string>): string | null {
  let best: string | null = null;
  let bestRank = -1;
  for (const instance of instances) {
    const rank = mixed(crc32(Buffer.from(`${role} ${instance}`)));
    if (rank > bestRank || (rank === bestRank && instance < (best as string)))
      [best, bestRank] = [instance, rank];
  }
  return best;
}

/** A CRC is linear: without this, the ranks of two instances would go with each other (MurmurHash3's finalizer). */
function mixed(hash: number): number {
  let h = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

/** The items in chunks of at most `size`. */
export function* chunksOf<Item>(items: readonly Item[], size: number): Generator<readonly Item[]> {
  for (let from = 0; from < items.length; from += size) yield items.slice(from, from + size);
}

/** The JSON object in a value; null if it is none. */
export function objectIn(value: string): JsonObject | null {
  try {
    const read: unknown = JSON.parse(value);
    return isJsonObject(read) ? read : null;
  } catch {
    return null;
  }
}

/** A heartbeat. Wall times are null if the clock was wrong. */
export interface Seen extends Report {
  readonly atMs: number | null;
  /** Since when the device is in the state that it had with this heartbeat. */
  readonly sinceMs: number | null;
}

/** A heartbeat as it is written. */
export function seenText({ atMs, sinceMs, said, everyMs, sent, status }: Seen): string {
  return JSON.stringify({
    a: atMs,
    f: sinceMs,
    s: said,
    e: everyMs,
    ...(sent && { b: sent.bootId, u: sent.uptimeMs }),
    ...(status !== undefined && { st: status }),
  });
}

/** Null: not a value of seenText. */
export function parseSeen(text: string): Seen | null {
  const value = objectIn(text);
  if (value === null || !SAID.includes(value.s as Said)) return null;
  const { a, f, s, e, b, u, st } = value;
  return {
    atMs: numberOf(a),
    sinceMs: numberOf(f),
    said: s as Said,
    everyMs: numberOf(e) ?? 0,
    sent: typeof b === 'string' && typeof u === 'number' ? { bootId: b, uptimeMs: u } : null,
    ...(isJsonObject(st) && { status: statusOf(st) }),
  };
}

/** What people were last told. */
export interface LastTold {
  readonly isOffline: boolean;
  /** Offline: when the device was last heard; null: not known. */
  readonly heardMs: number | null;
}

/** What people were told, as it is written. */
export function toldText({ isOffline, heardMs }: LastTold): string {
  return JSON.stringify({ o: Number(isOffline), a: heardMs });
}

/** A value that cannot be read counts as never told. */
export function parseTold(text: string): LastTold {
  const { o, a } = objectIn(text) ?? {};
  return { isOffline: o === 1, heardMs: numberOf(a) };
}

const numberOf = (value: unknown) => (typeof value === 'number' ? value : null);
