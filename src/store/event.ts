/**
 * What can happen to the store. Events are written to the journal and are the only thing that changes the
 * state (state.ts). They carry results, not differences, so that one that is applied twice does no harm.
 */
import type { BookEvent } from '../destinations/book.js';
import type { JsonObject } from '../json.js';
import type { Address } from '../message/address.js';
import type { Attachment, MessageType, Stamp } from '../message/message.js';
import { unknownMembers } from './format.js';

/** A position in the journal: a segment's number and a byte offset in it. */
export interface Position {
  readonly segment: number;
  readonly offset: number;
}

/** Length and CRC-32 of a content of the same record; the n-th of them in the record's events is its n-th content. */
export interface ContentSum {
  readonly length: number;
  readonly crc: number;
}

/** Outcomes, written anyway, carry the count of reachable time (reachability.ts) where it has grown enough. */
interface Outcome {
  readonly id: string;
  readonly attempts: number;
  readonly reply: string;
  readonly reachMs?: number;
}

/** A message of an acceptance; its content stands in the same record. */
export interface AcceptedMessage extends ContentSum {
  readonly id: string;
  readonly type: MessageType;
  readonly destination: string;
  /** The sender of an email. */
  readonly from?: Address | undefined;
  /** Left out where there are none. */
  readonly attachments?: readonly Attachment[];
}

const ACCEPTED_MEMBERS: ReadonlySet<string> = new Set<keyof AcceptedMessage>([
  ...(['id', 'type', 'destination', 'from', 'attachments', 'length', 'crc'] as const),
]);

/** The members that only a newer version knows. */
export function moreOf(accepted: AcceptedMessage): JsonObject | undefined {
  return unknownMembers(accepted, ACCEPTED_MEMBERS);
}

/** One thing that has happened. Those of one record stand or fall together. */
export type StoreEvent =
  /** When a boot began, by the wall: ahead of its first record, and again when the wall has leapt or was confirmed. */
  | { readonly e: 'boot'; readonly boot: string; readonly startMs: number; readonly confirmed?: true }
  | {
      readonly e: 'accepted';
      readonly at: Stamp;
      /** Where the messages' own reachable time begins. */
      readonly reachMs: number;
      readonly messages: readonly AcceptedMessage[];
      readonly key?: string;
      readonly hash?: string;
    }
  | (Outcome & { readonly e: 'deferred'; readonly due: Stamp })
  | (Outcome & { readonly e: 'sent' | 'failed' | 'expired'; readonly at: Stamp })
  | { readonly e: 'cancelled'; readonly id: string; readonly at: Stamp }
  | { readonly e: 'retried'; readonly id: string; readonly at: Stamp; readonly reachMs: number }
  | { readonly e: 'flushed' }
  | { readonly e: 'held'; readonly held: boolean }
  /** The content of these messages, copied to this record so that old segments can go. */
  | { readonly e: 'relocated'; readonly messages: readonly (ContentSum & { readonly id: string })[] }
  /** The content of these failed messages is dropped. */
  | { readonly e: 'dropped'; readonly ids: readonly string[] }
  | BookEvent;
