/**
 * How many files this process may open. A connection that finds no free descriptor would be reset by libuv, unread.
 */
import { readdirSync, readFileSync } from 'node:fs';

/** For what the daemon opens later: a segment, a checkpoint, relays, the cloud. */
const OWN_COUNT = 10;

/** How many more files this process may open for its clients (RLIMIT_NOFILE). Infinity if there is no limit, or no /proc. */
export function freeDescriptors(): number {
  try {
    const limit = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1'))?.[1];
    if (limit !== undefined) return Number(limit) - readdirSync('/proc/self/fd').length - OWN_COUNT;
  } catch {
    // The lock tells of a missing /proc.
  }
  return Number.POSITIVE_INFINITY;
}
