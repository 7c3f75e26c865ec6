/**
 * The mark that this device writes into the cloud's document, and what the mark of a fetched document tells about it. If
 * a document does not descend from the known one, an entry that it lacks was not deleted.
 */
import type { JsonObject } from '../../base/json.js';
import { MARK_COUNTER_MAX, MARK_TEXT_CHARS_MAX } from '../../base/limits.js';
import { sameDocument } from './merge.js';

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

/**
 * How far a document is believed. `full`: it descends from the known one. `edits`: its edits count, its deletions do
 * not. `none`: nothing counts as deleted in the cloud, and of a field that both sides have, this device's counts.
 */
export type Belief = 'full' | 'edits' | 'none';

/** Why a document is joined although one is known: another lineage, an older one, another device's, no mark. */
export type Estranged = 'other' | 'older' | 'ahead' | 'bare';

/** How a document relates to the known one, and the documents to merge it with. */
export interface Kinship {
  readonly trust: Belief;
  /** The cloud's document when this device last knew it, and the document that the cloud was given then. */
  readonly base: readonly unknown[];
  readonly given: readonly unknown[];
  /** Documents of PUTs that may be in this one, without a mark that shows it. */
  readonly attempted: readonly (readonly unknown[])[];
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
  // This device knows its own PUTs, so a higher counter is another device's.
  if (known.counter < mark.counter) return { ...unknown, estranged: 'ahead' };
  return { ...unknown, estranged: 'older', lineage: null };
}

/** Under the same ETag nobody has edited it: the cloud itself has made the differences. */
function sameAs({ etag, given, document }: Base, kin: Kinship, remote: Remote): Kinship {
  if (etag !== remote.etag || sameDocument(document, remote.document)) return kin;
  return { ...kin, base: remote.document, given: given ?? document };
}

/** The highest known counter of a lineage; 0 without one. */
export function counterOf(lineage: string, marks: readonly (Mark | null)[]): number {
  return Math.max(0, ...marks.map((mark) => (mark?.lineage === lineage ? mark.counter : 0)));
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value.length <= MARK_TEXT_CHARS_MAX;
}
