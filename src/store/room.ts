/**
 * Amounts of room.
 */
import { KIB } from '../limits.js';
import { NO_ATTACHMENTS } from '../message/message.js';
import { countWaiting, messagesOf } from './lists.js';
import { Freed } from './places.js';
import type { State } from './state.js';
import { messageWeight, neededMemoryBytes } from './weight.js';

/** Messages in the queue, bytes in the state directory, and bytes of memory (weight.ts). */
export interface Room {
  readonly count: number;
  readonly bytes: number;
  readonly memoryBytes: number;
}

/** The sum. */
export function plus(one: Room, other: Room): Room {
  return {
    count: one.count + other.count,
    bytes: one.bytes + other.bytes,
    memoryBytes: one.memoryBytes + other.memoryBytes,
  };
}

/** The amounts with the opposite sign. */
export function negative({ count, bytes, memoryBytes }: Room): Room {
  return { count: -count, bytes: -bytes, memoryBytes: -memoryBytes };
}

/** The room without this share of it, but at least one message. */
export function withoutPart({ count, bytes, memoryBytes }: Room, share: number): Room {
  return {
    count: count - Math.max(0, Math.min(Math.floor(count * share), count - 1)),
    bytes: bytes - Math.floor(bytes * share),
    memoryBytes: memoryBytes * (1 - share),
  };
}

/** The parts of a store that a budget measures. */
export interface Stored {
  readonly state: State;
  /** See Ledger.usedBytes. */
  readonly usedBytes: number;
}

/** The room in use, without memory that new messages may take over. */
export function roomUsed({ state, usedBytes }: Stored): Room {
  return { count: countWaiting(state), bytes: usedBytes, memoryBytes: neededMemoryBytes(state) };
}

/** The room that new messages may take over: failed messages' content, kept for a retry. */
export function roomGiving({ state }: Stored): Room {
  const freed = new Freed(state);
  for (const message of messagesOf(state, state.kept)) freed.add(message);
  return { ...NOTHING, bytes: freed.fileBytes + freed.textBytes };
}

/** The memory of a message without attachments. */
export const PLAIN_WEIGHT = messageWeight({ destination: '', subject: '', attachments: NO_ATTACHMENTS });

export const NOTHING: Room = { count: 0, bytes: 0, memoryBytes: 0 };
/** The room that a message of 1 KiB needs. */
export const SMALL: Room = { count: 1, bytes: KIB, memoryBytes: PLAIN_WEIGHT };
