/**
 * Secrets that come as `Authorization: Bearer`. Used by api/access.ts for tokens, by the reference cloud for keys.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

/** What is kept of a secret, and compared. */
export function digest(secret: string): Buffer {
  return createHash('sha256').update(secret).digest();
}

/** The digest of the secret that a request brings; null where it brings none. */
export function bearerOf({ headers }: IncomingMessage): Buffer | null {
  const given = /^bearer +(\S+)$/i.exec(headers.authorization ?? '')?.[1];
  return given === undefined ? null : digest(given);
}

/** True if `given` is one of `secrets`. Digests have one length: the time it takes tells nothing about them. */
export function isOneOf(given: Buffer | null, secrets: readonly Buffer[]): boolean {
  return given !== null && secrets.some((secret) => timingSafeEqual(secret, given));
}
