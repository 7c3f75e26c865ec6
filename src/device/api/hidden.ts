/**
 * Hidden entries: those of the cloud's document that this version does not understand. The list shows them only with
 * `?hidden=true`; a DELETE of their id, made from their content, removes them.
 */
import { createHash } from 'node:crypto';
import { FieldpostError } from '../../base/errors.js';
import { canonical } from '../../base/json.js';
import { whyHidden } from '../../mail/book/destination.js';

/** A hidden entry as clients see it. */
export interface HiddenEntry {
  /** `hidden-` and 16 hex digits of a hash of the entry. */
  readonly id: string;
  readonly reason: string;
  readonly entry: unknown;
}

const PREFIX = 'hidden-';
const ID_DIGITS = 16;

/** True for the id of a hidden entry. */
export function isHiddenId(id: string): boolean {
  return id.startsWith(PREFIX);
}

/** One by one: a document may hold many thousands. */
export function* hiddenEntries(values: readonly unknown[]): Generator<HiddenEntry> {
  for (const entry of values) yield { id: idOf(entry), reason: whyHidden(entry), entry };
}

/** The hidden entry with that id. Throws not-found. */
export function hiddenEntry(values: readonly unknown[], id: string): HiddenEntry {
  for (const one of hiddenEntries(values)) if (one.id === id) return one;
  throw new FieldpostError('not-found', `There is no hidden entry ${JSON.stringify(id)}`, {
    hint: 'the list with ?hidden=true has the ids; an id changes with the entry',
  });
}

function idOf(value: unknown): string {
  const hash = createHash('sha256').update(canonical(value)).digest('hex');
  return `${PREFIX}${hash.slice(0, ID_DIGITS)}`;
}
