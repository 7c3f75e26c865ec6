/**
 * The store, as the api and delivery know it.
 */

import type { Boots } from '../../base/stamp.js';
import type { QueueCounts, QueueRoom, Status, StorageState } from '../../base/views.js';
import type { BookKeeping } from '../book/book.js';
import type { Attachment, Content, Draft, Message, Verdict } from '../message/message.js';
import type { Reachability } from './reachability.js';
import type { Asker } from './room.js';

/** An Idempotency-Key and the SHA-256 (hex) of the content it came with. */
export interface KeyedContent {
  readonly key: string;
  readonly hash: string;
}

/** The answer of `accept`. */
export interface Accepted {
  /** One for each recipient of each draft, in order. */
  readonly ids: readonly string[];
  /** True if these are the ids of an earlier acceptance with the same key. Then nothing is queued. */
  readonly replayed: boolean;
}

/** `Store.accept` with a key that the caller holds; `hash` is the SHA-256 (hex) of the content. */
export type AcceptKeyed = (drafts: readonly Draft[], hash: string) => Promise<Accepted>;

/** A page of a listing. */
export interface Page {
  messages: Message[];
  /** The next page begins after this id; null at the end. */
  next: string | null;
}

/** The files of one request on their way into the spool (Q0, Q1). They are not promised yet. */
export interface Upload {
  /** Begins a file; `type` is its media type. Rejects with queue-full, storage-full, storage-failed, busy. */
  begin(file: { readonly name: string; readonly type: string }): Promise<IncomingFile>;
  /** Removes a whole file that another one has replaced. */
  drop(file: Attachment): Promise<void>;
  /** Ends the upload: removes every file that no acceptance took, and frees the reserved room. Never rejects. */
  discard(): Promise<void>;
}

/** One file on its way into the spool. The end of its upload removes an unfinished file. */
export interface IncomingFile {
  /**
   * Copies the next octets. Gives a promise only if the disk must catch up first; until it resolves, do not change them.
   * Throws queue-full, storage-full, storage-failed.
   */
  write(bytes: Buffer): Promise<void> | void;
  /** Resolves when the octets are synced (Q0). Throws like `write`. */
  finish(): Promise<Attachment>;
}

/** The lists of waiting messages. */
export type WaitingList = 'queued' | 'deferred' | 'urgent';

/** Whether a walk over waiting messages wants a message. It may be asked once for many of a type without extras. */
export type IsWanted = (
  message: Pick<Message, 'type' | 'status'> & Partial<Pick<Message, 'extras'>>,
) => boolean;

/** Every message from its acceptance on, and the address book. */
export interface Store {
  /** Drawn at random when the store was created; 16 hex digits. */
  readonly storeId: string;

  /**
   * Begins an upload, and reserves room for one message and `expectedBytes` on the disk. If the size is unknown (0), or
   * content of failed messages must be dropped first, the reservation grows with the bytes that come. Throws queue-full,
   * storage-full, storage-failed, stopping. Without an asker it is neither urgent nor of a caller who may only send.
   */
  upload(expectedBytes: number, asker?: Asker): Promise<Upload>;

  /**
   * Q2: resolves once all drafts and the key are on the device. Accepts all drafts or none. Throws queue-full,
   * storage-full, storage-failed (outcome unknown), stopping; with a key also conflict (another request holds it) and
   * invalid (it was used with other content). The attachments leave their upload, unless the key is already known.
   */
  accept(drafts: readonly Draft[], keyed: KeyedContent | null): Promise<Accepted>;

  /**
   * Holds the key while `work` runs. `work` reads the body and accepts its drafts with the given function. Throws
   * conflict if another request holds the key.
   */
  withKey<T>(key: string, work: (accept: AcceptKeyed) => Promise<T>): Promise<T>;

  /**
   * The ids accepted with this key, and the SHA-256 (hex) of the content; null if the key is unknown. Throws storage-full
   * and storage-failed while the disk refuses writes.
   */
  recall(key: string): { readonly ids: readonly string[]; readonly hash: string } | null;
  /** The keys that are remembered. */
  readonly keys: Iterable<readonly [key: string, { readonly ids: readonly string[] }]>;

  /** Unless it is claimed, a message may be another object after an await: look for its id again. */
  get(id: string): Message | undefined;
  /** Resolves when the message is final or unknown, or when the signal aborts. Never rejects. */
  whenFinal(id: string, signal?: AbortSignal): Promise<void>;
  /** Newest first. */
  list(query: { status: Status | null; limit: number; after: string | null }): Page;
  /**
   * Cancels a message that is not final. A failed one stays failed, and loses its content. Throws not-found; conflict if
   * the message is being sent, or is final without content.
   */
  cancel(id: string): Promise<void>;
  /**
   * Makes the message due now. Queues a failed one again if its content is still stored. Throws not-found, conflict.
   */
  retry(id: string): Promise<void>;
  /** Makes everything due now. */
  flush(): Promise<void>;
  /**
   * Overwrites the content of final messages; with `withDamaged` also the copies of damage. If it throws storage-full,
   * storage-failed or stopping, some content may be left.
   */
  purge(withDamaged: boolean): Promise<void>;
  hold(): Promise<void>;
  release(): Promise<void>;

  /** The boots that a stamp refers to. */
  readonly boots: Boots;
  readonly reachability: Reachability;
  /** How the address book is kept: in the same journal. An edit waits neither for the queue nor for the link. */
  readonly book: BookKeeping;

  readonly held: boolean;
  counts(): QueueCounts;
  room(): QueueRoom;
  storage(): StorageState;
  /** Looks at the disk now. Returns the reason why no message of 1 KiB fits, or null. Never rejects. */
  look(): Promise<string | null>;

  /**
   * True if there is certainly room to record the outcome of one more message. Delivery offers nothing while it is
   * false.
   */
  readonly hasReserve: boolean;
  /** Resolves once `hasReserve` is true. Rejects with storage-full or storage-failed. */
  fillReserve(): Promise<void>;

  /** Messages never deferred (`queued` or `sending`), oldest first. Do not keep the iterator across an await. */
  queued(isWanted?: IsWanted): Iterable<Message>;
  /** The urgent ones of both, in the order of their acceptance. */
  urgent(isWanted?: IsWanted): Iterable<Message>;
  /** Messages with status `deferred` or, while being sent, `sending`; in the order of their deferral. */
  deferred(isWanted?: IsWanted): Iterable<Message>;
  /** How many messages a walk over this list passes, wanted or not. */
  lengthOf(list: WaitingList): number;
  /**
   * The only way to get a message for sending. Marks it as `sending` (Q3, only in memory) and gives it. Null if it is
   * unknown, final, claimed or being cancelled, or if the queue is on hold. `expire` sends nothing, so it ignores a hold.
   */
  claim(id: string, purpose?: 'send' | 'expire'): Message | null;
  /** Ends a claim without an outcome: the message is as before. */
  giveBack(id: string): void;
  /**
   * Ends a claim with an outcome (Q4…Q6). Resolves when it is written; if `StoreOptions.outcomes` is `synced`, when it
   * is synced. Rejects with storage-full or storage-failed.
   */
  settle(id: string, verdict: Verdict): Promise<void>;
  /** Throws storage-damaged if the content has changed. */
  content(message: Message): Promise<Content>;
  /** Reads an attachment, one chunk ahead. If it has changed, throws storage-damaged before the last chunk. */
  openAttachment(attachment: Attachment): AsyncIterable<Buffer>;

  /** Writes pending events, makes a checkpoint, and closes the directory's files. */
  close(): Promise<void>;
}
