/**
 * How old a message is when it is asked whether it has expired. An email ages only while a relay can be reached;
 * what goes through the cloud ages all the time, for a day-old alarm call is harmful (delivery.md, When).
 */
import type { Message } from '../message/message.js';
import { ageMs } from '../message/stamp.js';
import type { Store } from '../store/store.js';
import type { Clock } from '../system/clock.js';

/**
 * True if a message shall not be offered again. An email is asked about only when it has just been offered in vain;
 * what ages all the time need not have been offered at all.
 */
export function isExpired(message: Message, maxAgeMs: number, store: Store, clock: Clock): boolean {
  return expiryAgeMs(message, store, clock) >= maxAgeMs;
}

/** The age that counts, in ms. */
export function expiryAgeMs(message: Message, store: Store, clock: Clock): number {
  if (message.type === 1) return Math.max(0, store.reachability.countedMs - message.reachMs);
  return ageMs(message.retried ?? message.accepted, clock, store.boots);
}
