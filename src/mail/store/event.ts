/**
 * What can happen to the store. The journal holds events, and only they change the state. They carry results, not
 * differences, so that applying one twice does no harm.
 */
import type { Stamp } from '../../base/stamp.js';
import type { BookEvent } from '../book/book.js';
import type { Attachment, Extras, MessageType, Sender } from '../message/message.js';

/** A position in the journal: a segment's number, and an offset in bytes. */
export interface Position {
  readonly segment: number;
  readonly offset: number;
}

/** Length in bytes and CRC-32 of a content in the same record; the n-th sum of a record belongs to its n-th content. */
export interface ContentSum {
  readonly length: number;
  readonly crc: number;
  /** The message shares the content of the one before it: there is no further content. */
  readonly shares?: true;
}

/** What each outcome says; `reachMs` is the count of reachable time (reachability.ts), if it has grown enough. */
interface Outcome {
  readonly id: string;
  readonly attempts: number;
  readonly reply: string;
  readonly reachMs?: number;
}

/** A message that was accepted. */
export interface AcceptedMessage extends ContentSum {
  readonly id: string;
  readonly type: MessageType;
  readonly destination: string;
  /** Stamped on emails only. */
  readonly from?: Sender | undefined;
  /** The beginning of an email's subject. Left out if it is empty. */
  readonly subject?: string;
  readonly extras?: Extras;
  /** Left out if there are none. */
  readonly attachments?: readonly Attachment[];
}

/**
 * A message whose content has moved. Its acceptance is repeated, because the record of that goes with the old segment: then
 * only the snapshots have it. Earlier programs wrote the id alone.
 */
export interface MovedMessage extends ContentSum, Partial<Omit<AcceptedMessage, keyof ContentSum>> {
  readonly id: string;
  readonly at?: Stamp;
  readonly reachMs?: number;
}

/** One thing that has happened. The events of one record stand or fall together. */
export type StoreEvent =
  /** When a boot began by the wall clock: before its first record, and again when that clock leapt or was confirmed. */
  | { readonly e: 'boot'; readonly boot: string; readonly startMs: number; readonly confirmed?: true }
  | {
      readonly e: 'accepted';
      readonly at: Stamp;
      /** The count of reachable time at the acceptance. */
      readonly reachMs: number;
      readonly messages: readonly AcceptedMessage[];
      readonly key?: string;
      readonly hash?: string;
      /** The key's caller may do everything. Programs that did not tell callers apart left it out. */
      readonly full?: true;
    }
  | (Outcome & { readonly e: 'deferred'; readonly due: Stamp })
  /** `relay`: who took the mail; only with FIELDPOST_RELAY_RATE. */
  | (Outcome & { readonly e: 'sent'; readonly at: Stamp; readonly relay?: string })
  | (Outcome & { readonly e: 'failed' | 'expired'; readonly at: Stamp })
  | { readonly e: 'cancelled'; readonly id: string; readonly at: Stamp }
  | {
      readonly e: 'replaced';
      readonly id: string;
      /** The newer message of its collapse key, */
      readonly by: string;
      /** and how many that one has replaced now, unless its acceptance in the same record says so. */
      readonly count?: number;
      readonly at: Stamp;
    }
  | { readonly e: 'retried'; readonly id: string; readonly at: Stamp; readonly reachMs: number }
  | { readonly e: 'flushed' }
  | { readonly e: 'held'; readonly held: boolean }
  /** The content of these messages, copied to this record so that old segments can go. */
  | { readonly e: 'relocated'; readonly messages: readonly MovedMessage[] }
  /** The subjects of finished messages are forgotten. */
  | { readonly e: 'purged' }
  /** The content of these failed messages is dropped. */
  | { readonly e: 'dropped'; readonly ids: readonly string[] }
  | BookEvent;
