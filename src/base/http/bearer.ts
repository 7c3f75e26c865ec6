/**
 * Secrets that come as `Authorization: Bearer`: tokens of the local API, keys of the reference cloud; and digests of
 * secrets that come in other ways.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

/** SHA-256 of a secret. Only digests are kept and compared. */
export function digest(secret: string): Buffer {
  return createHash('sha256').update(secret).digest();
}

/** The digest of the secret in a request; null if there is none. */
export function bearerOf({ headers }: IncomingMessage): Buffer | null {
  const given = /^bearer +(\S+)$/i.exec(headers.authorization ?? '')?.[1];
  return given === undefined ? null : digest(given);
}

/** True if `given` is one of `secrets`, in constant time: all digests have the same length. */
export function isOneOf(given: Buffer | null, secrets: readonly Buffer[]): boolean {
  return given !== null && secrets.some((secret) => timingSafeEqual(secret, given));
}
