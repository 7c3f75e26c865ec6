/**
 * The charsets of texts that others wrote, and their decoding. Pure.
 */
import type { Buffer } from 'node:buffer';

/** A charset that is read. */
export type Charset = 'utf8' | 'latin1';

/** By the lower-case name. ASCII is a part of UTF-8. */
const CHARSETS: ReadonlyMap<string, Charset> = new Map([
  ['utf-8', 'utf8'],
  ['utf8', 'utf8'],
  ['us-ascii', 'utf8'],
  ['iso-8859-1', 'latin1'],
  ['latin1', 'latin1'],
  ['windows-1252', 'latin1'],
]);

/** What Windows-1252 has at 0x80 to 0x9f. It leaves five of them free. */
const WINDOWS = '€\x81‚ƒ„…†‡ˆ‰Š‹Œ\x8dŽ\x8f\x90‘’“”•–—˜™š›œ\x9džŸ';

/** The charset of this name; undefined if it is not read. */
export function charsetOf(name: string): Charset | undefined {
  return CHARSETS.get(name.toLowerCase());
}

/**
 * The text. In place of the control characters that ISO-8859-1 has at 0x80 to 0x9f come those of Windows-1252: programs call
 * both by the one name, and browsers and mail programs read them so (WHATWG Encoding).
 */
export function decode(octets: Buffer, charset: Charset): string {
  if (charset === 'utf8') return octets.toString();
  return octets.toString('latin1').replace(/[\x80-\x9f]/g, (c) => WINDOWS[c.charCodeAt(0) - 0x80] as string);
}
