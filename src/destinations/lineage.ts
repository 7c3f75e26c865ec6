/**
 * The mark that this device writes into the cloud's document, and what the mark of a fetched document tells about it. If
 * a document does not descend from the one we know, an entry that it lacks was not deleted. Used by book.ts and
 * agreement.ts.
 */
import type { JsonObject } from '../json.js';
import { MARK_COUNTER_MAX, MARK_TEXT_CHARS_MAX } from '../limits.js';
import { sameDocument } from './merge.js';

/** The member of the document that holds the mark. A cloud carries it through as any member it does not know. */
export const MARK = 'fieldpost';

/** What this device writes into the document, beside the entries. */
export interface Mark {
  /** Drawn when a document is made; every PUT keeps it. */
  readonly lineage: string;
  /** Grows with each PUT. */
  readonly counter: number;
  /** Drawn for each PUT. */
  readonly nonce: string;
}

/** A document of the cloud and the ETag it has. */
export interface Remote {
  readonly etag: string;
  readonly document: readonly unknown[];
  /** What else the cloud keeps beside the entries; left out where that is nothing. */
  readonly more?: JsonObject;
}

/** The cloud's document as it is known. */
export interface Base extends Omit<Remote, 'etag'> {
  /** Null: another cloud is configured, to which the former ETag does not apply. */
  readonly etag: string | null;
  /** What the cloud was given, where it keeps something else. */
  readonly given?: readonly unknown[];
  /** It had no mark when it was last fetched; a mark in `more` was put since. */
  readonly bare?: true;
}

/** A document that was put, and may or may not have arrived. */
export interface Attempt {
  readonly document: readonly unknown[];
  readonly mark: Mark;
}

/**
 * How far a document is believed. `full`: it descends from the one we know. `edits`: its edits count, its deletions do
 * not. `none`: both are joined, and where both have a field, ours counts.
 */
export type Belief = 'full' | 'edits' | 'none';

/** Why a document is joined although one is known: another lineage, an older one, put by somebody else, no mark. */
export type Estranged = 'other' | 'older' | 'ahead' | 'bare';

/** How a document relates to the known one, and what to merge it with. */
export interface Kinship {
  readonly trust: Belief;
  /** What the cloud's document was when this device last knew it, and what the cloud was given then. */
  readonly base: readonly unknown[];
  readonly given: readonly unknown[];
  /** Documents that were put and may be in this one, without a mark that shows it. */
  readonly attempted: readonly (readonly unknown[])[];
  readonly estranged: Estranged | null;
  /** The lineage that the next PUT goes on with; null: a new one. */
  readonly lineage: string | null;
  /** Nothing that was put can still arrive. */
  readonly isLanded: boolean;
}

/** The mark of a document, or null if it has none that is one. */
export function markOf(more: JsonObject | undefined): Mark | null {
  const { lineage, counter, nonce } = (more?.[MARK] ?? {}) as Partial<Mark>;
  const isCounter =
    Number.isSafeInteger(counter) && Number(counter) > 0 && Number(counter) < MARK_COUNTER_MAX;
  return isText(lineage) && isText(nonce) && isCounter ? { lineage, counter: Number(counter), nonce } : null;
}

/** How `remote` relates to the known document, if one is known, and to those that were put since. */
export function kinshipOf(base: Base | null, attempts: readonly Attempt[], remote: Remote): Kinship {
  const mark = markOf(remote.more);
  const known = markOf(base?.more);
  const unknown: Kinship = {
    trust: 'none',
    base: base?.document ?? [],
    given: base?.given ?? base?.document ?? [],
    // The nonce of a mark shows what has arrived.
    attempted: mark === null ? attempts.map(({ document }) => document) : [],
    estranged: null,
    lineage: mark?.lineage ?? null,
    isLanded: attempts.length === 0,
  };
  const kin: Kinship = { ...unknown, trust: 'full' };
  if (mark === null) {
    if (base === null) return unknown;
    if (base.etag === remote.etag) return sameAs(base, kin, remote);
    // Our mark was put and not fetched back yet: this document may be from before.
    if (base.bare && known === null) return { ...kin, trust: 'edits' };
    return { ...unknown, estranged: 'bare' };
  }
  const arrived = attempts.find((attempt) => attempt.mark.nonce === mark.nonce);
  if (arrived) {
    return { ...kin, base: arrived.document, given: arrived.document, isLanded: true };
  }
  if (base === null) return unknown;
  if (known?.lineage !== mark.lineage) return { ...unknown, estranged: 'other' };
  if (known.nonce === mark.nonce) return sameAs(base, kin, remote);
  // This device knows every document that it has put, so one with a higher counter is somebody else's.
  if (known.counter < mark.counter) return { ...unknown, estranged: 'ahead' };
  return { ...unknown, estranged: 'older', lineage: null };
}

/** The same ETag: nobody has edited it. What differs, the cloud itself has changed. */
function sameAs({ etag, given, document }: Base, kin: Kinship, remote: Remote): Kinship {
  if (etag !== remote.etag || sameDocument(document, remote.document)) return kin;
  return { ...kin, base: remote.document, given: given ?? document };
}

/** The highest counter that is known of a lineage; 0 if none is. */
export function counterOf(lineage: string, marks: readonly (Mark | null)[]): number {
  return Math.max(0, ...marks.map((mark) => (mark?.lineage === lineage ? mark.counter : 0)));
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value.length <= MARK_TEXT_CHARS_MAX;
}
