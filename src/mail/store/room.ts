/**
 * Amounts of room.
 */
import { KIB, MESSAGE_RECORD_BYTES } from '../../base/limits.js';
import { type Message, NO_ATTACHMENTS } from '../message/message.js';
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

/** Who asks for room. */
export interface Asker {
  /** It may use the room that is kept for urgent messages. */
  readonly isUrgent: boolean;
  /** It may only send: askers like that share a part of the room. */
  readonly onlySends: boolean;
}

/** Who asks for a message like most. */
export const ANYBODY: Asker = { isUrgent: false, onlySends: false };

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

/** This share of the room. */
export function partOf({ count, bytes, memoryBytes }: Room, share: number): Room {
  return {
    count: Math.floor(count * share),
    bytes: Math.floor(bytes * share),
    memoryBytes: memoryBytes * share,
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

/** The same of the callers who may only send: their waiting messages, with content of theirs that is kept for a retry. */
export function roomOfSenders({ state: { onlySent, weights } }: Stored): Room {
  const bytes = weights.onlySentBytes + onlySent.size * MESSAGE_RECORD_BYTES;
  return { count: onlySent.size, bytes, memoryBytes: weights.onlySent };
}

/** The room that new messages may take over: failed messages' content, kept for a retry. */
export function roomGiving({ state }: Stored, isOf: (message: Message) => boolean = () => true): Room {
  const freed = new Freed(state);
  for (const message of messagesOf(state, state.kept)) if (isOf(message)) freed.add(message);
  return { ...NOTHING, bytes: freed.fileBytes + freed.textBytes };
}

/** The memory of a message without attachments. */
export const PLAIN_WEIGHT = messageWeight({ destination: '', subject: '', attachments: NO_ATTACHMENTS });

export const NOTHING: Room = { count: 0, bytes: 0, memoryBytes: 0 };
/** The room that a message of 1 KiB needs. */
export const SMALL: Room = { count: 1, bytes: KIB, memoryBytes: PLAIN_WEIGHT };
