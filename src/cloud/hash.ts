/**
 * The hash of what a key or a message stands for.
 */
import { createHash } from 'node:crypto';

/** SHA-256 in hex: equal if and only if the parts are. */
export function hashOf(...parts: readonly unknown[]): string {
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex');
}
