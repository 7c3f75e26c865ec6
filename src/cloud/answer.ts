/**
 * What the cloud's answers must look like. Pure; client.ts asks here, and every function that finds something
 * else throws CloudError.
 */
import { isUtf8 } from 'node:buffer';
import { isJsonObject, type JsonObject } from '../json.js';
import { RETRY_AFTER_MS_MAX, SECOND_MS } from '../limits.js';
import type { HttpAnswer } from '../system/https.js';
import { oneLine } from '../text.js';
import { CloudError } from './error.js';

// RFC 9110 §8.8.3; a weak one (`W/"…"`) cannot tell two edits apart.
const STRONG_ETAG = /^"[\x21\x23-\x7e\x80-\xff]*"$/;
// RFC 3339, as Date.parse reads it.
const MOMENT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/;
// RFC 9110 §5.6.7, the form that is sent.
const HTTP_DATE = /^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$/;
const WORDS: Readonly<Record<number, string>> = {
  401: "refuses this device's key",
  403: 'does not let this device in',
  404: 'does not know this device, or its URL is not right',
  408: 'gave up waiting for our request',
  429: 'asks us to slow down',
};

/** Answers that are not the cloud's own: something on the way gives them. */
const FOREIGN: Readonly<Record<number, string>> = {
  304: 'a cache on the way, perhaps, for nothing was asked that may be answered so',
  407: 'a proxy on the way wants a login',
  511: 'the network of this device wants a login first; open its login page',
};

/** The object that the body of a success is. */
export function jsonOf(answer: HttpAnswer): JsonObject {
  const fields = parse(answer.body);
  if (fields !== null) return fields;
  const type = answer.headers['content-type'] ?? 'no type';
  throw new CloudError(
    'answer',
    `what answered ${answer.status} is not the cloud's API (${oneLine(type)}): a login page of the network, perhaps`,
  );
}

/** True if an answer that is no success says why, as a cloud does and a proxy on the way does not. */
export function hasProblem({ body }: HttpAnswer): boolean {
  const { title, detail } = parse(body) ?? {};
  return typeof title === 'string' || typeof detail === 'string';
}

/** What its problem (RFC 9457) says, for people; empty if it has none. */
export function problemWords({ body }: HttpAnswer): string {
  const { title, detail } = parse(body) ?? {};
  const words = typeof detail === 'string' && detail !== '' ? detail : title;
  return typeof words === 'string' ? oneLine(words) : '';
}

/** The error of an answer that is no success, or not the one this call has. */
export function failedCall(answer: HttpAnswer, wallMs: number): CloudError {
  const { status, headers } = answer;
  const { retryAfterMs = null } = retryAfterMsOf(answer, wallMs);
  const foreign = FOREIGN[status];
  if (foreign !== undefined)
    return new CloudError('answer', `the answer was ${status}: ${foreign}`, retryAfterMs);
  if (status >= 300 && status < 400) {
    const to = oneLine(headers.location ?? 'elsewhere');
    const words = `the answer was ${status}, a redirect to ${to}, which is not followed: a login page of the network, perhaps`;
    return new CloudError('answer', words, retryAfterMs);
  }
  const kind = status === 401 || status === 403 ? 'refused' : status >= 400 ? 'status' : 'answer';
  const what = WORDS[status] ?? (status >= 500 ? 'is in trouble' : 'gave an answer we do not expect');
  const detail = problemWords(answer);
  const words = `the cloud ${what} (${status}${detail === '' ? '' : `: ${detail}`})`;
  return new CloudError(kind, oneLine(words), retryAfterMs);
}

/** The strong ETag without which a document cannot be agreed on. */
export function strongEtagOf({ headers }: HttpAnswer): string {
  const { etag } = headers;
  if (etag !== undefined && STRONG_ETAG.test(etag)) return etag;
  const what = etag === undefined ? 'no ETag' : `an ETag that is not a strong one (${oneLine(etag)})`;
  throw new CloudError('contract', `the cloud breaks its contract: its document has ${what}`);
}

/** How long the cloud wants to be left alone, if it says so: in seconds, or until a date by its own clock. */
export function retryAfterMsOf({ headers }: HttpAnswer, wallMs: number): { retryAfterMs?: number } {
  const text = headers['retry-after']?.trim() ?? '';
  const nowMs = Date.parse(headers.date ?? '');
  const askedMs = /^\d+$/.test(text)
    ? Number(text) * SECOND_MS
    : (HTTP_DATE.test(text) ? Date.parse(text) : Number.NaN) - (Number.isNaN(nowMs) ? wallMs : nowMs);
  return Number.isNaN(askedMs) ? {} : { retryAfterMs: Math.min(Math.max(0, askedMs), RETRY_AFTER_MS_MAX) };
}

/** The text of that name; without one, nothing. */
export function textMember<Name extends string>(fields: JsonObject, name: Name): { [Key in Name]?: string } {
  const value = fields[name] ?? undefined;
  if (value === undefined) return {};
  if (typeof value !== 'string') throw wrongMember(name, 'a string');
  return { [name]: value } as { [Key in Name]?: string };
}

/** The number, not below 0, of that name; without one, nothing. */
export function numberMember<Name extends string>(
  fields: JsonObject,
  name: Name,
): { [Key in Name]?: number } {
  const value = fields[name] ?? undefined;
  if (value === undefined) return {};
  if (typeof value !== 'number' || !(value >= 0)) throw wrongMember(name, 'a number');
  return { [name]: value } as { [Key in Name]?: number };
}

/** The cloud's wall clock; without one, nothing. */
export function serverTimeOf(fields: JsonObject): { serverTimeMs?: number } {
  const { serverTime } = textMember(fields, 'serverTime');
  if (serverTime === undefined) return {};
  const serverTimeMs = MOMENT.test(serverTime) ? Date.parse(serverTime) : Number.NaN;
  if (Number.isNaN(serverTimeMs)) throw wrongMember('serverTime', 'a moment such as 2026-11-20T09:00:00Z');
  return { serverTimeMs };
}

/** The array of that name. */
export function arrayMember(fields: JsonObject, name: string): readonly unknown[] {
  const value = fields[name];
  if (!Array.isArray(value)) throw wrongMember(name, 'an array');
  return value;
}

function wrongMember(name: string, kind: string): CloudError {
  return new CloudError('contract', `the cloud breaks its contract: ${name} in its answer is not ${kind}`);
}

function parse(body: Buffer): JsonObject | null {
  if (!isUtf8(body)) return null;
  try {
    const value: unknown = JSON.parse(body.toString());
    return isJsonObject(value) ? value : null;
  } catch {
    return null;
  }
}
