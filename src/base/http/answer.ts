/**
 * Reads HTTP answers: JSON, problem (RFC 9457) and Retry-After. Pure.
 */
import { isJsonObject } from '../json.js';
import { HOUR_MS, SECOND_MS } from '../limits.js';

/** The longest pauses that a cloud may ask for. */
const RETRY_AFTER_MS_MAX = HOUR_MS;

/** The statuses by which a server refuses a message permanently. */
export const REFUSALS: readonly number[] = [400, 413, 415, 422];
/** The pattern of a strong ETag (RFC 9110 §8.8.3). */
export const STRONG_ETAG = '"[\\x21\\x23-\\x7e\\x80-\\xff]*"';
// RFC 9110 §5.6.7, the form that is sent.
const HTTP_DATE = /^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$/;

/** What a problem says, for people; null if it says nothing. */
export function problemWords(problem: unknown): string | null {
  const { title, detail } = isJsonObject(problem) ? problem : {};
  return (
    ([detail, title].find((words) => typeof words === 'string' && words !== '') as string | undefined) ?? null
  );
}

/** The Retry-After of an answer; null if it has none. A date counts from the answer's Date, or else from `wallMs`. */
export function retryAfterMsOf(
  headers: { readonly 'retry-after'?: string | undefined; readonly date?: string | undefined },
  wallMs: number,
): number | null {
  const text = headers['retry-after']?.trim() ?? '';
  const nowMs = Date.parse(headers.date ?? '');
  const askedMs = /^\d+$/.test(text)
    ? Number(text) * SECOND_MS
    : (HTTP_DATE.test(text) ? Date.parse(text) : Number.NaN) - (Number.isNaN(nowMs) ? wallMs : nowMs);
  return Number.isNaN(askedMs) ? null : Math.min(Math.max(0, askedMs), RETRY_AFTER_MS_MAX);
}
