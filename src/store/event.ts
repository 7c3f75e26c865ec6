/**
 * What can happen to the store. Events are written to the journal and are the only thing that changes the
 * state (state.ts). They carry results, not differences, so that one that is applied twice does no harm.
 */
import type { Address } from '../message/address.js';
import type { MessageType, Stamp } from '../message/message.js';

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

export interface AcceptedMessage extends ContentSum {
  readonly id: string;
  readonly type: MessageType;
  readonly destination: Address;
}

export type StoreEvent =
  | {
      readonly e: 'accepted';
      readonly at: Stamp;
      readonly messages: readonly AcceptedMessage[];
      readonly key?: string;
      readonly hash?: string;
    }
  | {
      readonly e: 'deferred';
      readonly id: string;
      readonly attempts: number;
      readonly due: Stamp;
      readonly reply: string;
    }
  | {
      readonly e: 'sent' | 'failed' | 'expired';
      readonly id: string;
      readonly attempts: number;
      readonly at: Stamp;
      readonly reply: string;
    }
  | { readonly e: 'cancelled'; readonly id: string; readonly at: Stamp }
  | { readonly e: 'retried'; readonly id: string; readonly at: Stamp }
  | { readonly e: 'flushed' }
  | { readonly e: 'held'; readonly held: boolean }
  /** The content of these messages, copied to this record so that old segments can go. */
  | { readonly e: 'relocated'; readonly messages: readonly (ContentSum & { readonly id: string })[] }
  /** The content of these failed messages has been kept long enough. */
  | { readonly e: 'dropped'; readonly ids: readonly string[] };
