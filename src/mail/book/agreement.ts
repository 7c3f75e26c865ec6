/**
 * What follows from the cloud's document: an event for the book, and the document to put next.
 */

import type { JsonObject } from '../../base/json.js';
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

/** The document to put. */
export interface Push {
  readonly document: readonly unknown[];
  /** The document's other members, the mark among them. */
  readonly more: JsonObject;
  /** The ETag of the document that it replaces; null: there is none. */
  readonly ifMatch: string | null;
}

/** An event for the book, and the document to put next. */
export interface Agreement {
  /** Must be recorded before the PUT; null: nothing is new. */
  readonly event: BookEvent | null;
  /** Null: the cloud has everything. */
  readonly push: Push | null;
  /** Why both sides were joined although a document was known; null: they were merged. */
  readonly estranged: Estranged | null;
}

/** A new random text for a lineage or a nonce. */
type Draw = () => string;

/** For a cloud without a document: the device puts one. The base stays until that PUT has arrived. */
export function agreeOnNew(book: Book, draw: Draw): Agreement {
  const merged = merge({ ...localOf(book), trust: 'full', base: [], given: [], attempted: [], remote: [] });
  // An empty document needs no PUT, unless an earlier one may still arrive.
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

/** For a cloud with this document. */
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
 * True if no PUT is needed. An edit made in the cloud is put back once with a higher counter: so a backup from before the
 * edit can be recognized.
 */
function isAgreed(book: Book, remote: Remote, kin: Kinship, { document }: Merged): boolean {
  if (!kin.isLanded) return false;
  const isKnown = sameDocument(remote.document, kin.base);
  if (markOf(remote.more) !== null) {
    // Otherwise two devices with one id would put the document in turn for ever.
    if (kin.estranged === 'ahead') return sameDocument(document, remote.document);
    return kin.trust === 'full' && isKnown && sameDocument(document, kin.given);
  }
  // A cloud that drops the mark gets it once.
  const dropsMark = book.base?.bare === true || (kin.trust === 'full' && markOf(book.base?.more) !== null);
  return dropsMark && sameDocument(document, isKnown ? kin.given : remote.document);
}

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

/** A new ETag of the same document needs no record. */
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

/** The mark of the next PUT; a repeated PUT has the mark of the last attempt. */
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

/** Each entry with the id that it has or had on this device, or else a new one. */
function numbered(book: Book, { shown, heirs }: Merged): [id: number, entry: Entry][] {
  const ids = new Map([...book.entries].map(([id, { uid }]) => [uid, id]));
  let { nextId } = book;
  const found = shown.map((entry): [number, Entry] => {
    const known = ids.get(heirs.get(entry.uid) ?? entry.uid) ?? book.removed.get(entry.uid);
    return [known ?? nextId++, entry];
  });
  return found.sort(([a], [b]) => a - b);
}
