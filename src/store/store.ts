/**
 * The store: what the api and delivery know of it. See store.md.
 */

import type { AddressBook } from '../destinations/address-book.js';
import type { Attachment, Content, Draft, Message, Status, Verdict } from '../message/message.js';
import type { Boots } from '../message/stamp.js';
import type { STORAGE_STATES } from '../views.js';
import type { Reachability } from './reachability.js';

/** An Idempotency-Key and the SHA-256 (hex) of the content it came with. */
export interface KeyedContent {
  readonly key: string;
  readonly hash: string;
}

/** What `accept` answers. */
export interface Accepted {
  /** One per draft, in order. */
  readonly ids: readonly string[];
  /** True when these are the ids of an earlier acceptance with the same key; nothing was queued. */
  readonly replayed: boolean;
}

/** How many messages there are in each state. */
export interface QueueCounts {
  queued: number;
  sending: number;
  deferred: number;
  failed: number;
  /** Age of the oldest message that is not final; 0 if there is none. */
  oldestAgeMs: number;
  /** Bytes that journal, spool and snapshots take on the disk. */
  bytes: number;
  held: boolean;
}

/** What of the queue's budget is used or reserved, and its limits. */
export interface QueueRoom {
  readonly used: { readonly messages: number; readonly bytes: number; readonly memoryBytes: number };
  /** `memoryBytes` is null where the service's memory is not limited. */
  readonly limits: { readonly messages: number; readonly bytes: number; readonly memoryBytes: number | null };
  /** Why no message of 1 KiB fits, as a sentence; null while one does. */
  readonly reason: string | null;
}

/** Whether the storage works now. */
export interface StorageState {
  state: (typeof STORAGE_STATES)[number];
  /** A sentence a technician understands; null when ok. */
  reason: string | null;
  /** Infinite while it is not known. */
  freeBytes: number;
  /** The number of pieces that recovery could not read, and of files of a newer version. */
  damaged: number;
  /** The names of files that a newer version wrote, and that are put aside. */
  newer: readonly string[];
  /** The names that can be neither read nor renamed. */
  unusable: readonly string[];
}

/** A part of a listing. */
export interface Page {
  messages: Message[];
  /** The next page begins after this id; null at the end. */
  next: string | null;
}

/** The files of one request on their way into the spool (Q0, Q1). They are not yet promised to anybody. */
export interface Upload {
  /** Begins a file; `type` is its media type. Rejects with queue-full, storage-full, storage-failed, busy. */
  begin(file: { readonly name: string; readonly type: string }): Promise<IncomingFile>;
  /**
   * Ends the upload: removes every file that no acceptance took, and gives back its reserved room. Never rejects. It may
   * be called at any time, also twice.
   */
  discard(): Promise<void>;
}

/** One file on its way into the spool. A file that is not finished goes with its upload. */
export interface IncomingFile {
  /**
   * Takes the next octets; their memory may be used again when that is done. Gives a promise only where the disk must
   * catch up first. Throws queue-full, storage-full, storage-failed.
   */
  write(bytes: Buffer): Promise<void> | void;
  /** Resolves when the octets are synced (Q0). Throws as write does. */
  finish(): Promise<Attachment>;
}

/** Every message from its acceptance on, and the address book. */
export interface Store {
  /** Drawn at random when the store was created; 16 hex digits. */
  readonly storeId: string;

  /**
   * Begins an upload, and reserves room for one message in the queue and `expectedBytes` on the disk. Where the size is not
   * known (0), or content of failed messages must be dropped first, the reservation grows with the bytes that come.
   * Throws queue-full, storage-full, storage-failed, stopping.
   */
  upload(expectedBytes: number): Promise<Upload>;

  /**
   * Q2: resolves once the drafts and the key are together on stable storage; all or none.
   * Throws queue-full, storage-full, storage-failed (outcome unknown), stopping; with a key also conflict
   * (the first request with it is still under way) and invalid (it was used with other content).
   * The attachments leave their upload, unless the key is already known.
   */
  accept(drafts: readonly Draft[], keyed: KeyedContent | null): Promise<Accepted>;

  /**
   * What was accepted with this key, if it is still remembered: the ids, and the SHA-256 (hex) of the content. Throws
   * storage-full and storage-failed while the disk refuses writes, as accept does.
   */
  recall(key: string): { readonly ids: readonly string[]; readonly hash: string } | null;

  get(id: string): Message | undefined;
  /** Newest first. */
  list(query: { status: Status | null; limit: number; after: string | null }): Page;
  /**
   * Cancels a message that is not final. A failed one stays failed, and loses its content. Throws not-found; conflict if
   * the message is being sent, or is final and has no content.
   */
  cancel(id: string): Promise<void>;
  /** Makes it due now; a failed one is queued anew while its content is kept. Throws not-found, conflict. */
  retry(id: string): Promise<void>;
  /** Makes everything due now. */
  flush(): Promise<void>;
  /**
   * Overwrites what is left of the content of final messages; with `withDamaged` also the copies of damage. If it throws
   * storage-full, storage-failed or stopping, some content may be left.
   */
  purge(withDamaged: boolean): Promise<void>;
  hold(): Promise<void>;
  release(): Promise<void>;

  /** The boots in which messages were accepted. The clock may know more of the present one. */
  readonly boots: Boots;
  /** The time by which emails age. */
  readonly reachability: Reachability;
  /** Kept in the same journal. An edit waits neither for the queue nor for the link. */
  readonly book: AddressBook;

  readonly held: boolean;
  counts(): QueueCounts;
  room(): QueueRoom;
  storage(): StorageState;
  /** Looks at the disk now. Gives why no message of 1 KiB fits, as a sentence, or null. Never rejects. */
  look(): Promise<string | null>;

  /** True if the outcome of one more message can be recorded for certain. Delivery offers nothing while it is false. */
  readonly hasReserve: boolean;
  /** Resolves once that is so. Rejects with storage-full or storage-failed. */
  fillReserve(): Promise<void>;

  /** Messages never deferred (`queued` or `sending`), oldest first. Do not keep the iterator across an await. */
  queued(): Iterable<Message>;
  /** Messages with status `deferred` or, while being sent, `sending`; in the order of their deferral. */
  deferred(): Iterable<Message>;
  /**
   * The only way to get a message for sending. Marks it as `sending` (Q3, only in memory) and gives it; null if it is
   * unknown, final, claimed already or being cancelled, or if the queue is on hold. To `expire` a message sends
   * nothing, so that is possible on hold as well.
   */
  claim(id: string, purpose?: 'send' | 'expire'): Message | null;
  /** Ends a claim with nothing charged and nothing written: the message is as it was before. */
  giveBack(id: string): void;
  /** Ends a claim with an outcome (Q4…Q6): resolves when it is written, which is before it is synced. Rejects with storage-failed/storage-full if it cannot be written. */
  settle(id: string, verdict: Verdict): Promise<void>;
  /** Reads the content back. Throws storage-damaged if it is not what was accepted. */
  content(message: Message): Promise<Content>;
  /**
   * Reads an attachment back, a chunk ahead at most. Throws storage-damaged, before the last chunk is given, if it
   * is not what was accepted.
   */
  openAttachment(attachment: Attachment): AsyncIterable<Buffer>;

  /** Writes what is pending, checkpoints, and lets go of the directory. */
  close(): Promise<void>;
}
