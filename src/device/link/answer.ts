/**
 * Reads the cloud's answers. Every function but problemOf and failedCall throws CloudError for an answer that breaks
 * the contract.
 */
import { problemWords, retryAfterMsOf, STRONG_ETAG } from '../../base/http/answer.js';
import { type JsonObject, objectIn } from '../../base/json.js';
import { CloudError } from '../../base/retry/call-error.js';
import type { HttpAnswer } from '../../base/system/https.js';
import { oneLine } from '../../base/text.js';

// A weak ETag (`W/"…"`) cannot tell two edits apart.
const STRONG = new RegExp(`^${STRONG_ETAG}$`);
// RFC 3339, as Date.parse reads it.
const MOMENT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/;
const WORDS: Readonly<Record<number, string>> = {
  401: "refuses this device's key",
  403: 'does not let this device in',
  404: 'does not know this device, or the URL in FIELDPOST_CLOUD is wrong',
  408: 'gave up waiting for our request',
  429: 'asks this device to slow down',
};

/** Statuses that come from something between device and cloud. */
const FOREIGN: Readonly<Record<number, string>> = {
  304: 'perhaps a cache on the way; no 304 was asked for',
  407: 'a proxy on the way wants a login',
  511: 'the network of this device wants a login first; open its login page',
};

/** The JSON object in the body of a success. */
export function jsonOf(answer: HttpAnswer): JsonObject {
  const fields = objectIn(answer.body);
  if (fields !== null) return fields;
  const type = answer.headers['content-type'] ?? 'no type';
  throw new CloudError(
    `the answer (${answer.status}, ${oneLine(type)}) is not from the cloud's API: perhaps a login page of the network`,
  );
}

/** The problem text (RFC 9457) in an error answer; null if the body has none, for example the error page of a proxy. */
export function problemOf({ body }: HttpAnswer): string | null {
  const words = problemWords(objectIn(body));
  return words === null ? null : oneLine(words);
}

/** The error of an answer with an unexpected status. */
export function failedCall(answer: HttpAnswer, wallMs: number): CloudError {
  const { status, headers } = answer;
  const retryAfterMs = retryAfterMsOf(headers, wallMs);
  const foreign = FOREIGN[status];
  if (foreign !== undefined) return new CloudError(`the answer was ${status}: ${foreign}`, retryAfterMs);
  if (status >= 300 && status < 400) {
    const to = oneLine(headers.location ?? 'elsewhere');
    const words = `the answer was ${status}, a redirect to ${to}, which is not followed: perhaps a login page of the network`;
    return new CloudError(words, retryAfterMs);
  }
  const what = WORDS[status] ?? (status >= 500 ? 'failed' : 'gave an unexpected answer');
  const detail = problemOf(answer);
  const words = `the cloud ${what} (${status}${detail === null ? '' : `: ${detail}`})`;
  return new CloudError(oneLine(words), retryAfterMs);
}

/** The strong ETag of the document. */
export function strongEtagOf({ headers }: HttpAnswer): string {
  const { etag } = headers;
  if (etag !== undefined && STRONG.test(etag)) return etag;
  const what = etag === undefined ? 'no ETag' : `an ETag that is not a strong one (${oneLine(etag)})`;
  throw new CloudError(`the cloud breaks its contract: its document has ${what}`);
}

/** `{[name]: text}` if the answer has this member, else `{}`. Throws CloudError if it is not a string. */
export function textMember<Name extends string>(fields: JsonObject, name: Name): { [Key in Name]?: string } {
  const value = fields[name] ?? undefined;
  if (value === undefined) return {};
  if (typeof value !== 'string') throw wrongMember(name, 'a string');
  return { [name]: value } as { [Key in Name]?: string };
}

/** The same for a number, which is at least 0. */
export function numberMember<Name extends string>(
  fields: JsonObject,
  name: Name,
): { [Key in Name]?: number } {
  const value = fields[name] ?? undefined;
  if (value === undefined) return {};
  if (typeof value !== 'number' || !(value >= 0)) throw wrongMember(name, 'a number');
  return { [name]: value } as { [Key in Name]?: number };
}

/** `{serverTimeMs}`, the cloud's wall clock, if the answer has it, else `{}`. */
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
  return new CloudError(`the cloud breaks its contract: ${name} in its answer is not ${kind}`);
}
