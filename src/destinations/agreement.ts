/**
 * What follows from the cloud's document: an event for the book, and what is put next. Used by address-book.ts, which
 * records the event before it gives out the push.
 */

import type { JsonObject } from '../json.js';
import type { Book, BookEvent } from './book.js';
import type { Entry } from './destination.js';
import {
  type Base,
  counterOf,
  type Estranged,
  type Kinship,
  kinshipOf,
  MARK,
  type Mark,
  markOf,
  type Remote,
} from './lineage.js';
import { type Merged, merge, sameDocument } from './merge.js';

/** The document to put, and the ETag that it replaces; null: there is none. */
export interface Push {
  readonly document: readonly unknown[];
  /** The document's other members, the mark among them. */
  readonly more: JsonObject;
  readonly ifMatch: string | null;
}

/** What follows from the cloud's document. */
export interface Agreement {
  /** To be recorded before anything is put; null: nothing is new. */
  readonly event: BookEvent | null;
  /** Null: the cloud has all. */
  readonly push: Push | null;
  /** Why both were joined although a document was known; null: they were merged. */
  readonly estranged: Estranged | null;
}

/** A new random text for a lineage or a nonce. */
type Draw = () => string;

/** What follows if the cloud has no document: it gets one. The base stays until that has arrived. */
export function agreeOnNew(book: Book, draw: Draw): Agreement {
  const merged = merge({ ...localOf(book), trust: 'full', base: [], given: [], attempted: [], remote: [] });
  // An empty document is worth no PUT, unless an earlier one may still arrive.
  if (merged.document.length === 0 && book.attempted.length === 0) return NOTHING;
  const mark = nextMark(book, merged.document, null, null, draw);
  const more = withMark(book.base?.more, mark);
  return {
    event: attemptOf(book, merged.document, mark),
    push: { document: merged.document, more, ifMatch: null },
    estranged: null,
  };
}

const NOTHING: Agreement = { event: null, push: null, estranged: null };

/** What follows from the cloud's document. */
export function agree(book: Book, remote: Remote, draw: Draw): Agreement {
  const kin = kinshipOf(book.base, book.attempted, remote);
  const merged = merge({ ...localOf(book), ...kin, remote: remote.document });
  const base = nextBase(book, remote, kin);
  if (isAgreed(book, remote, kin, merged)) {
    const event = sameBase(book.base, base) ? null : mergedOf(book, base, merged);
    return { event, push: null, estranged: kin.estranged };
  }
  const { document } = merged;
  const mark = nextMark(book, document, kin.lineage, markOf(remote.more), draw);
  return {
    event: sameBase(book.base, base)
      ? attemptOf(book, document, mark)
      : { ...mergedOf(book, base, merged), attempt: { document, mark } },
    push: { document, more: withMark(base.more, mark), ifMatch: remote.etag },
    estranged: kin.estranged,
  };
}

function localOf({ entries, hidden }: Book) {
  const local = [...entries].sort(([a], [b]) => a - b).map(([, entry]) => entry);
  return { local, hidden };
}

/**
 * True if nothing is to be put. An edit made in the cloud is put back once with a higher counter, so that a backup from
 * before the edit can be recognized.
 */
function isAgreed(book: Book, remote: Remote, kin: Kinship, { document }: Merged): boolean {
  if (!kin.isLanded) return false;
  const isKnown = sameDocument(remote.document, kin.base);
  if (markOf(remote.more) !== null) {
    // Two devices with one id would put it in turn for ever.
    if (kin.estranged === 'ahead') return sameDocument(document, remote.document);
    return kin.trust === 'full' && isKnown && sameDocument(document, kin.given);
  }
  // A cloud that drops the mark gets it once.
  const dropsMark = book.base?.bare === true || (kin.trust === 'full' && markOf(book.base?.more) !== null);
  return dropsMark && sameDocument(document, isKnown ? kin.given : remote.document);
}

/** The next base. */
function nextBase({ base }: Book, remote: Remote, kin: Kinship): Base {
  const isBare = markOf(remote.more) === null;
  const isAltered = kin.trust !== 'none' && kin.given !== kin.base && sameDocument(remote.document, kin.base);
  const more = kin.estranged === null ? remote.more : { ...withoutMark(base?.more), ...remote.more };
  return {
    etag: remote.etag,
    document: remote.document,
    ...(more && Object.keys(more).length > 0 && { more }),
    ...(isAltered && !sameDocument(kin.given, kin.base) && { given: kin.given }),
    ...(isBare && { bare: true }),
  };
}

/** True if the two say the same. A new ETag of the same document is not worth a record. */
function sameBase(a: Base | null, b: Base): boolean {
  if (a === null || a.etag === null || a.bare !== b.bare) return false;
  const isSame = sameDocument(a.document, b.document) && sameDocument([a.more ?? {}], [b.more ?? {}]);
  return isSame && sameDocument(a.given ?? [], b.given ?? []);
}

type MergedEvent = Extract<BookEvent, { e: 'merged' }>;

function mergedOf(book: Book, base: Base, merged: Merged): MergedEvent {
  const entries = numbered(book, merged);
  return { e: 'merged', base, entries, hidden: merged.hidden, attempt: null };
}

/** The event of an attempt; null if it is on record already. */
function attemptOf(book: Book, document: readonly unknown[], mark: Mark): BookEvent | null {
  return book.attempted.at(-1)?.mark === mark ? null : { e: 'attempted', attempt: { document, mark } };
}

/** The mark of the next PUT; that of the last attempt where it is made again. */
function nextMark(
  { base, attempted }: Book,
  document: readonly unknown[],
  lineage: string | null,
  theirs: Mark | null,
  draw: Draw,
): Mark {
  const known = markOf(base?.more);
  const last = attempted.at(-1);
  if (last && sameDocument(last.document, document)) {
    const isNew = ![known?.lineage, theirs?.lineage].includes(last.mark.lineage);
    if (lineage === null ? isNew : lineage === last.mark.lineage) return last.mark;
  }
  const next = lineage ?? draw();
  const counter = 1 + counterOf(next, [known, theirs, ...attempted.map(({ mark }) => mark)]);
  return { lineage: next, counter, nonce: draw() };
}

function withMark(more: JsonObject | undefined, mark: Mark): JsonObject {
  return { ...more, [MARK]: mark };
}

function withoutMark({ [MARK]: _, ...more }: JsonObject = {}): JsonObject {
  return more;
}

/** Each entry with the id it has here, had here once, or is given now. */
function numbered(book: Book, { shown, heirs }: Merged): [id: number, entry: Entry][] {
  const ids = new Map([...book.entries].map(([id, { uid }]) => [uid, id]));
  let { nextId } = book;
  const found = shown.map((entry): [number, Entry] => {
    const known = ids.get(heirs.get(entry.uid) ?? entry.uid) ?? book.removed.get(entry.uid);
    return [known ?? nextId++, entry];
  });
  return found.sort(([a], [b]) => a - b);
}
