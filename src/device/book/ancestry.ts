/**
 * What the cloud's document means for the book: how it descends from the document that this device knows, what to record,
 * and which document to put next. If it does not descend from the known one, an entry that it lacks was not deleted.
 */
import type { JsonObject } from '../../base/json.js';
import {
  type Attempt,
  type Base,
  type Book,
  type BookEvent,
  MARK,
  type Mark,
  type Remote,
} from '../../mail/book/book.js';
import type { Entry } from '../../mail/book/destination.js';
import { type Merged, merge, type Sides, sameDocument } from './merge.js';

/** A mark in the cloud's document with a longer text or a higher counter is ignored. */
export const MARK_TEXT_CHARS_MAX = 64;
export const MARK_COUNTER_MAX = 2 ** 48;

/** Why a document is joined although one is known: another lineage, an older one, another device's, no mark. */
export type Estranged = 'other' | 'older' | 'ahead' | 'bare';

/** How a document relates to the known one, and the documents to merge it with. */
export interface Ancestry extends Pick<Sides, 'trust' | 'base' | 'given' | 'attempted'> {
  readonly estranged: Estranged | null;
  /** The lineage of the next PUT; null: a new one. */
  readonly lineage: string | null;
  /** No earlier PUT can still arrive. */
  readonly isLanded: boolean;
}

/** The mark of a document; null without a valid one. */
export function markOf(more: JsonObject | undefined): Mark | null {
  const { lineage, counter, nonce } = (more?.[MARK] ?? {}) as Partial<Mark>;
  const isCounter =
    Number.isSafeInteger(counter) && Number(counter) > 0 && Number(counter) < MARK_COUNTER_MAX;
  return isText(lineage) && isText(nonce) && isCounter ? { lineage, counter: Number(counter), nonce } : null;
}

/** How `remote` relates to the known document and to later attempts. */
export function ancestryOf(base: Base | null, attempts: readonly Attempt[], remote: Remote): Ancestry {
  const mark = markOf(remote.more);
  const known = markOf(base?.more);
  const unknown: Ancestry = {
    trust: 'none',
    base: base?.document ?? [],
    given: base?.given ?? base?.document ?? [],
    // The nonce of a mark shows what has arrived.
    attempted: mark === null ? attempts.map(({ document }) => document) : [],
    estranged: null,
    lineage: mark?.lineage ?? null,
    isLanded: attempts.length === 0,
  };
  const direct: Ancestry = { ...unknown, trust: 'full' };
  if (mark === null) {
    if (base === null) return unknown;
    if (base.etag === remote.etag) return sameAs(base, direct, remote);
    // Our mark was put and not fetched back yet: this document may be from before.
    if (base.bare && known === null) return { ...direct, trust: 'edits' };
    return { ...unknown, estranged: 'bare' };
  }
  const arrived = attempts.find((attempt) => attempt.mark.nonce === mark.nonce);
  if (arrived) {
    return { ...direct, base: arrived.document, given: arrived.document, isLanded: true };
  }
  if (base === null) return unknown;
  if (known?.lineage !== mark.lineage) return { ...unknown, estranged: 'other' };
  if (known.nonce === mark.nonce) return sameAs(base, direct, remote);
  // This device knows its own PUTs, so a higher counter is another device's.
  if (known.counter < mark.counter) return { ...unknown, estranged: 'ahead' };
  return { ...unknown, estranged: 'older', lineage: null };
}

/** Under the same ETag nobody has edited it: the cloud itself has made the differences. */
function sameAs({ etag, given, document }: Base, direct: Ancestry, remote: Remote): Ancestry {
  if (etag !== remote.etag || sameDocument(document, remote.document)) return direct;
  return { ...direct, base: remote.document, given: given ?? document };
}

/** The highest known counter of a lineage; 0 without one. */
export function counterOf(lineage: string, marks: readonly (Mark | null)[]): number {
  return Math.max(0, ...marks.map((mark) => (mark?.lineage === lineage ? mark.counter : 0)));
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value.length <= MARK_TEXT_CHARS_MAX;
}

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

/** What follows for this book from the cloud's document; null: the cloud has none. */
export function agree(book: Book, remote: Remote | null, draw: Draw): Agreement {
  return remote === null ? agreeOnNew(book, draw) : agreeWith(book, remote, draw);
}

/** The device puts the first document. The base stays until that PUT has arrived. */
function agreeOnNew(book: Book, draw: Draw): Agreement {
  const none = { base: [], given: [], attempted: [], remote: [] };
  const { document } = merge({ ...localOf(book), ...none, trust: 'full' });
  // An empty document needs no PUT, unless an earlier one may still arrive.
  if (document.length === 0 && book.attempted.length === 0)
    return { event: null, push: null, estranged: null };
  const mark = nextMark(book, document, null, null, draw);
  const push = { document, more: withMark(book.base?.more, mark), ifMatch: null };
  return { event: attemptOf(book, { document, mark }), push, estranged: null };
}

function agreeWith(book: Book, remote: Remote, draw: Draw): Agreement {
  const ancestry = ancestryOf(book.base, book.attempted, remote);
  const { estranged } = ancestry;
  const merged = merge({ ...localOf(book), ...ancestry, remote: remote.document });
  const base = nextBase(book, remote, ancestry);
  const isKnown = sameBase(book.base, base);
  if (isAgreed(book, remote, ancestry, merged)) {
    return { event: isKnown ? null : mergedOf(book, base, merged, null), push: null, estranged };
  }
  const { document } = merged;
  const mark = nextMark(book, document, ancestry.lineage, markOf(remote.more), draw);
  const attempt = { document, mark };
  const event = isKnown ? attemptOf(book, attempt) : mergedOf(book, base, merged, attempt);
  return { event, push: { document, more: withMark(base.more, mark), ifMatch: remote.etag }, estranged };
}

function localOf({ entries, hidden }: Book) {
  const local = [...entries].sort(([a], [b]) => a - b).map(([, entry]) => entry);
  return { local, hidden };
}

/**
 * True if no PUT is needed. An edit made in the cloud is put back once with a higher counter: so a backup from before the
 * edit can be recognized.
 */
function isAgreed(book: Book, remote: Remote, ancestry: Ancestry, { document }: Merged): boolean {
  if (!ancestry.isLanded) return false;
  const isKnown = sameDocument(remote.document, ancestry.base);
  if (markOf(remote.more) !== null) {
    // Otherwise two devices with one id would put the document in turn for ever.
    if (ancestry.estranged === 'ahead') return sameDocument(document, remote.document);
    return ancestry.trust === 'full' && isKnown && sameDocument(document, ancestry.given);
  }
  // A cloud that drops the mark gets it once.
  const dropsMark =
    book.base?.bare === true || (ancestry.trust === 'full' && markOf(book.base?.more) !== null);
  return dropsMark && sameDocument(document, isKnown ? ancestry.given : remote.document);
}

function nextBase({ base }: Book, remote: Remote, ancestry: Ancestry): Base {
  const { trust, given, base: known, estranged } = ancestry;
  const isAltered = trust !== 'none' && sameDocument(remote.document, known) && !sameDocument(given, known);
  const more = estranged === null ? remote.more : { ...withoutMark(base?.more), ...remote.more };
  return {
    etag: remote.etag,
    document: remote.document,
    ...(more && Object.keys(more).length > 0 && { more }),
    ...(isAltered && { given }),
    ...(markOf(remote.more) === null && { bare: true }),
  };
}

/** A new ETag of the same document needs no record. */
function sameBase(a: Base | null, b: Base): boolean {
  if (a === null || a.etag === null || a.bare !== b.bare) return false;
  const isSame = sameDocument(a.document, b.document) && sameDocument([a.more ?? {}], [b.more ?? {}]);
  return isSame && sameDocument(a.given ?? [], b.given ?? []);
}

function mergedOf(book: Book, base: Base, merged: Merged, attempt: Attempt | null): BookEvent {
  return { e: 'merged', base, entries: numbered(book, merged), hidden: merged.hidden, attempt };
}

/** The event of an attempt; null if it is on record already. */
function attemptOf({ attempted }: Book, attempt: Attempt): BookEvent | null {
  return attempted.at(-1)?.mark === attempt.mark ? null : { e: 'attempted', attempt };
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
