/**
 * Conditional requests (RFC 9110 §13).
 */
import { createHash } from 'node:crypto';
import { FieldpostError } from '../errors.js';
import { STRONG_ETAG } from './answer.js';
import type { Exchange } from './exchange.js';

/** The headers of a conditional request, as node:http gives them. */
export interface Conditions {
  readonly 'if-match'?: string | undefined;
  readonly 'if-none-match'?: string | undefined;
}

const TAG = `(?:W/)?${STRONG_ETAG}`;
const TAGS = new RegExp(`^\\s*(?:\\*|${TAG}(?:\\s*,\\s*${TAG})*)\\s*$`);

/** A strong ETag, quotes included: two texts have the same ETag if and only if they are equal. */
export function etagOf(text: string): string {
  return `"${createHash('sha256').update(text).digest('base64url').slice(0, 22)}"`;
}

/** Answers with JSON and its ETag, or with 304 if the client has it. A malformed If-None-Match is ignored. */
export function sendTagged(exchange: Exchange, json: string, ETag: string = etagOf(json)): void {
  const known = tagsOf(exchange.req.headers['if-none-match'] ?? '') ?? [];
  if (names(known, ETag, true)) exchange.nothing(304, { ETag });
  else exchange.send(200, 'application/json', json, { ETag });
}

/**
 * Throws precondition-failed unless the conditions hold for this ETag (null: there is nothing), malformed-request for a
 * header that is no list of ETags, and precondition-required if `isRequired` and there is no condition.
 */
export function checkPrecondition(conditions: Conditions, etag: string | null, isRequired = false): void {
  const match = listOf(conditions, 'If-Match');
  const noneMatch = listOf(conditions, 'If-None-Match');
  if (isRequired && match === null && noneMatch === null) {
    throw new FieldpostError('precondition-required', 'The request must say what it replaces', {
      hint: 'send If-Match with the ETag of what you have changed, or If-None-Match: * for the first',
    });
  }
  const isOther = match !== null && !names(match, etag, false);
  if (!isOther && !names(noneMatch ?? [], etag, true)) return;
  const what = etag === null ? 'There is nothing yet' : `It has changed, and has the ETag ${etag} now`;
  throw new FieldpostError('precondition-failed', what, { hint: 'read it again, and decide anew' });
}

/** The tags in a header; null without the header. Throws malformed-request. */
function listOf(conditions: Conditions, header: 'If-Match' | 'If-None-Match'): readonly string[] | null {
  const value = conditions[header === 'If-Match' ? 'if-match' : 'if-none-match'];
  if (value === undefined) return null;
  const tags = tagsOf(value);
  if (tags !== null) return tags;
  throw new FieldpostError('malformed-request', `${header} is not a list of ETags in quotes, nor *`);
}

/** The tags in a header's value, or `*` alone; null if it is neither. */
function tagsOf(value: string): readonly string[] | null {
  if (!TAGS.test(value)) return null;
  return value.trim() === '*' ? ['*'] : (value.match(new RegExp(TAG, 'g')) ?? []);
}

/** True if the ETag is among `tags`. With `weakCounts` a weak tag matches too; not for If-Match (RFC 9110 §13.1.1). */
function names(tags: readonly string[], etag: string | null, weakCounts: boolean): boolean {
  if (etag === null) return false;
  return tags.some((tag) => tag === '*' || (weakCounts ? tag.replace(/^W\//, '') : tag) === etag);
}
