/**
 * The keys that a device may have at a time, as digests: the present one, and the one that follows.
 */
import { digest, isOneOf } from '../base/http/bearer.js';
import { isJsonObject } from '../base/json.js';

/** Nobody can guess a key of so many random octets. */
const KEY_BYTES = 32;

/** The digests of a device's keys. */
export interface KeyPair {
  readonly key: Buffer;
  /** The key that follows; null: there is none. Its first use ends the earlier one. */
  readonly next: Buffer | null;
}

/** A key pair as stored, in base64url. */
export interface WrittenKeys {
  readonly key: string;
  readonly next?: string;
}

/** A new key and its digest. */
export function drawKey(randomBytes: (count: number) => Uint8Array): { key: string; made: Buffer } {
  const key = Buffer.from(randomBytes(KEY_BYTES)).toString('base64url');
  return { key, made: digest(key) };
}

/** The keys once one more was made: it follows the present one, in place of one that was never used. */
export function withMade(held: KeyPair | null, made: Buffer): KeyPair {
  return held === null ? { key: made, next: null } : { key: held.key, next: made };
}

/** Which of the keys has this digest; null: none. */
export function keyOf({ key, next }: KeyPair, given: Buffer): 'key' | 'next' | null {
  if (next !== null && isOneOf(given, [next])) return 'next';
  return isOneOf(given, [key]) ? 'key' : null;
}

/** The keys for the store. */
export function writtenKeys({ key, next }: KeyPair): WrittenKeys {
  const text = (of: Buffer) => of.toString('base64url');
  return { key: text(key), ...(next !== null && { next: text(next) }) };
}

/** The keys from the store. Null: it is no value of writtenKeys. */
export function readKeys(value: unknown): KeyPair | null {
  if (!isJsonObject(value) || typeof value.key !== 'string') return null;
  const next = typeof value.next === 'string' ? Buffer.from(value.next, 'base64url') : null;
  return { key: Buffer.from(value.key, 'base64url'), next };
}
