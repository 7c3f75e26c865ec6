/**
 * Conditional requests (RFC 9110 §13): whether what a client knows of a document is what there is. Used by
 * documents.ts.
 */
import { createHash } from 'node:crypto';
import { FieldpostError } from '../errors.js';

/** The headers that make a request conditional, as node:http gives them. */
export interface Conditions {
  readonly 'if-match'?: string | undefined;
  readonly 'if-none-match'?: string | undefined;
}

const TAG = '(?:W/)?"[\\x21\\x23-\\x7e\\x80-\\xff]*"';
const TAGS = new RegExp(`^\\s*(?:\\*|${TAG}(?:\\s*,\\s*${TAG})*)\\s*$`);

/** A strong ETag, quotes included: equal for two texts if and only if they are equal. */
export function etagOf(text: string): string {
  return `"${createHash('sha256').update(text).digest('base64url').slice(0, 22)}"`;
}

/** True if the client, by If-None-Match, has what there is already. `etag`: null if there is nothing. */
export function isKnown(conditions: Conditions, etag: string | null): boolean {
  const header = conditions['if-none-match'];
  return header !== undefined && names('If-None-Match', header, etag, true);
}

/**
 * Throws unless the client may replace what there is: precondition-required if it does not say what it thinks there
 * is, precondition-failed if that is something else.
 */
export function checkMayReplace(conditions: Conditions, etag: string | null): void {
  const ifMatch = conditions['if-match'];
  if (ifMatch === undefined && conditions['if-none-match'] === undefined) {
    throw new FieldpostError('precondition-required', 'A PUT must say what it replaces', {
      hint: 'send If-Match with the ETag of the document you have changed, or If-None-Match: * for the first',
    });
  }
  const isAnother = ifMatch !== undefined && !names('If-Match', ifMatch, etag, false);
  if (isAnother || isKnown(conditions, etag)) {
    const what = etag === null ? 'There is no document yet' : `The document is now ${etag}`;
    throw new FieldpostError('precondition-failed', `${what}; nothing was changed`, {
      hint: 'get it, and make your change again',
    });
  }
}

/** True if the header names this ETag. A weak tag is as good only where nothing is replaced (§8.8.3.2). */
function names(header: string, value: string, etag: string | null, weakCounts: boolean): boolean {
  if (!TAGS.test(value)) {
    throw new FieldpostError('malformed-request', `${header} is not a list of ETags in quotes, nor *`);
  }
  if (etag === null) return false;
  if (value.trim() === '*') return true;
  const tags = value.match(new RegExp(TAG, 'g')) ?? [];
  return tags.some((tag) => (weakCounts ? tag.replace('W/', '') : tag) === etag);
}
