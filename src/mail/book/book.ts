/**
 * The state of the address book, its events, and the only function that applies them. It stands in the same journal and
 * snapshot as the rest of the state.
 */

import { Recent } from '../../base/collections.js';
import { canonical, type JsonObject } from '../../base/json.js';
import type { Entry } from './destination.js';

/** Removed entries whose id is kept, in case they return. */
export const REMOVED_IDS_MAX = 1000;
/** After damage the last id is unknown: this many ids are skipped. */
export const ID_GAP = 1000;
/** Documents sent to the cloud whose arrival is unknown. */
export const SYNC_ATTEMPTS_MAX = 8;

/** The member of the document that holds the mark. A cloud keeps it as any member that it does not know. */
export const MARK = 'fieldpost';

/** This device writes it into the document, beside the entries. */
export interface Mark {
  /** Drawn when a document is made; every PUT keeps it. */
  readonly lineage: string;
  /** Grows with each PUT. */
  readonly counter: number;
  /** Drawn for each PUT. */
  readonly nonce: string;
}

/** A document of the cloud and its ETag. */
export interface Remote {
  readonly etag: string;
  readonly document: readonly unknown[];
  /** Its other members; left out if there are none. */
  readonly more?: JsonObject;
}

/** The cloud's document as this device knows it. */
export interface Base extends Omit<Remote, 'etag'> {
  /** Null: another cloud is configured, to which the former ETag does not apply. */
  readonly etag: string | null;
  /** The document that was put, if the cloud stores something else. */
  readonly given?: readonly unknown[];
  /** It had no mark when it was last fetched; a mark in `more` is from a later PUT. */
  readonly bare?: true;
}

/** The document of a PUT that may or may not have arrived. */
export interface Attempt {
  readonly document: readonly unknown[];
  readonly mark: Mark;
}

/** The state of the address book. */
export interface Book {
  /** This id and all above were never used. */
  nextId: number;
  /** The entries that clients see, by id. */
  entries: Map<number, Entry>;
  /** The ids of removed entries, by uid: one that returns keeps its id. */
  readonly removed: Recent<string, number>;
  /** Values in the document that are no entries. */
  hidden: readonly unknown[];
  /** The cloud that the base's ETag belongs to; null if there was none yet. */
  cloud: string | null;
  /** The cloud's document as it was last merged; null if none is known. */
  base: Base | null;
  /** Documents of later PUTs; any of them may have arrived. */
  attempted: readonly Attempt[];
}

/** One event. Applying it twice does no harm. */
export type BookEvent =
  /** Added or replaced on this device. */
  | { readonly e: 'destination'; readonly id: number; readonly entry: Entry }
  | { readonly e: 'destination removed'; readonly id: number }
  /** The cloud's document was merged. `attempt`: the document to put next. */
  | {
      readonly e: 'merged';
      readonly base: Base | null;
      readonly entries: readonly (readonly [id: number, entry: Entry])[];
      readonly hidden: readonly unknown[];
      readonly attempt: Attempt | null;
    }
  | { readonly e: 'hidden removed'; readonly value: unknown }
  /** The book is in step with another cloud from now on. */
  | { readonly e: 'cloud'; readonly cloud: string }
  /** This document is put next; the base stays. */
  | { readonly e: 'attempted'; readonly attempt: Attempt }
  /** The cloud has stored the last attempt. */
  | { readonly e: 'stored'; readonly etag: string };

// The rules of an entry may change: only its shape is looked at.
const ENTRY = { uid: '', type: 0, destination: '', lang: '', name: '' };
const ATTEMPT = { document: [], mark: { lineage: '', counter: 0, nonce: '' } };
const MERGED = {
  'base|null': { 'etag|null': '', document: [], 'given?': [], 'more?': {}, 'bare?': true },
  entries: [[0, ENTRY]],
  hidden: [],
};

/** The shapes of the events. */
export const BOOK_EVENTS = {
  destination: { id: 0, entry: ENTRY },
  'destination removed': { id: 0 },
  merged: { ...MERGED, 'attempt|null': ATTEMPT },
  'hidden removed': {},
  cloud: { cloud: '' },
  attempted: { attempt: ATTEMPT },
  stored: { etag: '' },
} satisfies Readonly<Record<BookEvent['e'], object>>;

/** False for an event that only a newer version of this program knows. */
export function isBookEvent(event: { readonly e: string }): event is BookEvent {
  return Object.hasOwn(BOOK_EVENTS, event.e);
}

/** The book of a new store. */
export function emptyBook(): Book {
  return {
    nextId: 1,
    entries: new Map(),
    removed: new Recent(REMOVED_IDS_MAX),
    hidden: [],
    cloud: null,
    base: null,
    attempted: [],
  };
}

/** Applies one event. */
export function applyBook(book: Book, event: BookEvent): void {
  switch (event.e) {
    case 'destination':
      book.entries.set(event.id, event.entry);
      book.nextId = Math.max(book.nextId, event.id + 1);
      return;
    case 'destination removed':
      replaceEntries(book, new Map([...book.entries].filter(([id]) => id !== event.id)));
      return;
    case 'merged':
      replaceEntries(book, new Map(event.entries));
      book.hidden = event.hidden;
      book.base = event.base;
      // An attempt on another base can no longer arrive: its ETag does not match.
      book.attempted = event.attempt === null ? [] : [event.attempt];
      return;
    case 'hidden removed':
      book.hidden = book.hidden.filter((value) => canonical(value) !== canonical(event.value));
      return;
    case 'cloud':
      book.cloud = event.cloud;
      book.base = book.base && { ...book.base, etag: null };
      return;
    case 'attempted':
      book.attempted = [...book.attempted, event.attempt].slice(-SYNC_ATTEMPTS_MAX);
      return;
    case 'stored': {
      const put = book.attempted.at(-1);
      if (put === undefined) return;
      const { given: _, ...base } = book.base ?? {};
      const more = { ...book.base?.more, [MARK]: put.mark };
      book.base = { ...base, etag: event.etag, document: put.document, more };
      book.attempted = [];
      return;
    }
  }
}

/** Replaces the entries, and remembers the ids of removed ones. */
function replaceEntries(book: Book, entries: Map<number, Entry>): void {
  const uids = new Set([...entries.values()].map(({ uid }) => uid));
  for (const uid of uids) book.removed.delete(uid);
  for (const [id, { uid }] of book.entries) {
    // Another uid may have the id now.
    if (!uids.has(uid) && !entries.has(id)) book.removed.set(uid, id);
  }
  for (const id of entries.keys()) book.nextId = Math.max(book.nextId, id + 1);
  book.entries = entries;
}

/**
 * The history is damaged: an entry that one side lacks must not count as deleted. With `gap`, ids may have been used that
 * are not on record.
 */
export function distrust(book: Book, gap: boolean): void {
  book.base = null;
  book.attempted = [];
  if (gap) book.nextId += ID_GAP;
}

/** How the store keeps the book. */
export interface BookKeeping {
  readonly book: Book;
  /** Resolves when the event is on stable storage and applied. Rejects with storage-full, storage-failed. */
  record(event: BookEvent): Promise<void>;
  /** Throws storage-full if the disk is below its reserve. */
  checkRoom(): Promise<void>;
  /** A new random UUID. */
  newUid(): string;
  /** A new random text, long enough to be unique. */
  newNonce(): string;
}

/** The book as store.json holds it. */
export interface BookDocument extends Readonly<Omit<Book, 'entries' | 'removed'>> {
  readonly entries: readonly (readonly [id: number, entry: Entry])[];
  readonly removed: readonly (readonly [uid: string, id: number])[];
}

/** The shape of a BookDocument. */
export const BOOK = { ...MERGED, nextId: 0, removed: [['', 0]], 'cloud|null': '', attempted: [ATTEMPT] };

/** The plain form of a book. */
export function toBookDocument(book: Book): BookDocument {
  return { ...book, entries: [...book.entries], removed: [...book.removed] };
}

/** The book of its plain form. */
export function fromBookDocument(document: BookDocument): Book {
  return {
    ...document,
    entries: new Map(document.entries),
    removed: new Recent(REMOVED_IDS_MAX, document.removed),
  };
}
