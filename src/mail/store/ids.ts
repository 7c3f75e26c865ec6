/**
 * Message ids: a persisted counter in base 32, then 40 random bits. They are URL-safe, sort by acceptance as plain text,
 * and are unique although clocks leap and images are cloned. Beside them the UUIDs of the address book.
 */
import { Buffer } from 'node:buffer';

// Crockford's alphabet: digits and letters in ASCII order, without those that people misread.
const ALPHABET = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
const COUNTER_CHARS = 7;
const RANDOM_BYTES = 5;
const POOL_BYTES = RANDOM_BYTES * 512;

/** Gives unguessable bytes. */
export type RandomBytes = (count: number) => Uint8Array;

/** Makes the id of a counter's value. It draws random bytes for many ids at once, because each draw costs a call. */
export function idMaker(randomBytes: RandomBytes): (counter: number) => string {
  let pool: Uint8Array = new Uint8Array(0);
  let used = 0;
  return (counter) => {
    if (used >= pool.length) {
      pool = randomBytes(POOL_BYTES);
      used = 0;
    }
    let random = 0;
    for (let i = 0; i < RANDOM_BYTES; i++) random = random * 256 + (pool[used++] as number);
    return base32(counter, COUNTER_CHARS) + base32(random, (RANDOM_BYTES * 8) / 5);
  };
}

/** The counter in an id; 0 for another text. */
export function counterOf(id: string): number {
  let counter = 0;
  for (const char of id.slice(0, COUNTER_CHARS)) counter = counter * 32 + ALPHABET.indexOf(char);
  return Number.isSafeInteger(counter) && counter > 0 ? counter : 0;
}

function base32(value: number, chars: number): string {
  let text = '';
  let rest = value;
  for (let i = 0; i < chars; i++) {
    text = ALPHABET.charAt(rest % 32) + text;
    rest = Math.floor(rest / 32);
  }
  return text;
}

/** A UUID of version 4 (RFC 9562 §5.4) of 16 random bytes. */
export function uuidOf(random: Uint8Array): string {
  const bytes = Buffer.from(random);
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}
