/**
 * ETags of what can be edited, and what a client makes an edit depend on (RFC 9110 §13). destinations.ts asks.
 */
import { createHash } from 'node:crypto';
import { FieldpostError } from '../errors.js';
import type { Exchange } from './exchange.js';

/** A strong ETag of these bytes. */
export function etagOf(body: string): string {
  return `"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`;
}

/** Answers with JSON and its ETag, or with 304 where the client has just that. */
export function sendTagged(exchange: Exchange, body: string): void {
  const etag = etagOf(body);
  if (isAmong(exchange.req.headers['if-none-match'], etag)) exchange.nothing(304, { ETag: etag });
  else exchange.send(200, 'application/json', body, { ETag: etag });
}

/**
 * Throws precondition-failed where If-Match or If-None-Match says that an edit was not meant for what is there now,
 * which has this ETag.
 */
export function checkPrecondition({ req: { headers } }: Exchange, etag: string): void {
  const match = headers['if-match'];
  // A weak one never matches here (RFC 9110 §13.1.1).
  const isOther = match !== undefined && !listOf(match).some((one) => one === etag || one === '*');
  if (!isOther && !isAmong(headers['if-none-match'], etag)) return;
  throw new FieldpostError('precondition-failed', `It has changed, and has the ETag ${etag} now`, {
    hint: 'read it again, and decide anew',
  });
}

/** True if the header names the ETag (RFC 9110 §13.1.2: weak or strong makes no difference here). */
function isAmong(header: string | undefined, etag: string): boolean {
  const named = listOf(header ?? '').map((one) => one.replace(/^W\//, ''));
  return named.includes(etag) || named.includes('*');
}

function listOf(header: string): string[] {
  return header.split(',').map((one) => one.trim());
}
