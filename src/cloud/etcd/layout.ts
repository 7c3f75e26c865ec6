/**
 * Where the fleet's state is in etcd (fleet.md). All keys begin with FIELDPOST_CLOUD_SERVER_STORE_PREFIX:
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
 * A role is the watch over one bucket of devices, or TELLER: the notifications.
 */
import { crc32 } from '../../base/crc.js';

const BUCKETS = 256;

/** The role of the instance that accepts notifications and messages for delivery. */
export const TELLER = 'tell';
export const GRACE = 'grace';

/** `00` to `ff`: the bucket of a device, which never changes. */
export function bucketOf(device: string): string {
  return hexOf(crc32(Buffer.from(device)) % BUCKETS);
}

const hexOf = (bucket: number) => bucket.toString(16).padStart(2, '0');

export const ROLES: readonly string[] = [
  ...Array.from({ length: BUCKETS }, (_, bucket) => hexOf(bucket)),
  TELLER,
];

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
