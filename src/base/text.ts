/**
 * Texts: those of strangers, so that they steer no terminal and begin no line; and sizes, times and counts in words. Pure.
 */
import { DAY_MS, HOUR_MS, KIB, MIB, MINUTE_MS, REPLY_CHARS_MAX, SECOND_MS } from './limits.js';

// Most texts need no pattern with \p. Those take five times as long, and V8 takes up to 0.1 ms to make one.
/** ASCII without controls. */
export const PRINTABLE = /^[ -~]*$/;
/** Visible ASCII with single blanks between words. */
const PLAIN = /^[!-~]+(?: [!-~]+)*$/;

/** True if `text` has a control character, such as a line break. */
export function hasControl(text: string): boolean {
  return /\p{Cc}/u.test(text);
}

/** True if `text` has half a surrogate pair. JSON can spell it (`\ud800`), UTF-8 cannot. */
export function hasLoneSurrogate(text: string): boolean {
  return /\p{Cs}/u.test(text);
}

/**
 * `text` with every character that could steer a terminal, begin a line or turn words around as `\uXXXX`.
 * Characters of `keep` stay as they are.
 */
export function visible(text: string, keep = ''): string {
  if (PRINTABLE.test(text)) return text;
  // Controls, formats (direction marks, joiners, tags), halves of characters, separators of lines and paragraphs.
  return text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, (found) =>
    keep.includes(found) ? found : escaped(found),
  );
}

/** `text` in one line: such characters and runs of blanks become one blank, and at most `charsMax` characters stay. */
export function oneLine(text: string, charsMax: number = REPLY_CHARS_MAX): string {
  const line = PLAIN.test(text) ? text : text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Z}]+/gu, ' ').trim();
  return cut(line, charsMax);
}

/** `text` without blanks around it, and with one blank for each run of white space. */
export function oneSpaced(text: string): string {
  return text.replace(/\s+/g, ' ').trim();
}

/** The first `charsMax` UTF-16 units of `text`, without a half character at the end. */
export function cut(text: string, charsMax: number): string {
  return text.length <= charsMax ? text : text.slice(0, charsMax).replace(/[\uD800-\uDBFF]$/, '');
}

/** What is shorter stands in any text: it is not taken for a secret, or for a part of one. */
const SECRET_CHARS_MIN = 4;
const PART_CHARS_MIN = 8;

/** `text` of a stranger who knows `secrets` and may repeat them: each, and each part of one, becomes `(hidden)`. */
export function withoutSecrets(text: string, secrets: readonly string[]): string {
  const known = secrets.filter((secret) => secret.length >= SECRET_CHARS_MIN);
  const whole = known.reduce((shown, secret) => shown.replaceAll(secret, '(hidden)'), text);
  // A reply is cut, and so may be the secret in it.
  return whole.replace(/[A-Za-z0-9+/._~-]+/g, (word) =>
    word.length >= PART_CHARS_MIN && known.some((secret) => secret.includes(word)) ? '(hidden)' : word,
  );
}

/** Without blanks and tabs at the end. Not trimEnd(): octet A0, of any UTF-8, is a blank to it. */
export function withoutBlanksAtEnd(octets: string): string {
  let end = octets.length;
  // By hand: a pattern for blanks before the end takes quadratic time.
  while (end > 0 && ' \t'.includes(octets.charAt(end - 1))) end--;
  return octets.slice(0, end);
}

/** The name of a file or a device: controls and marks of direction become `instead`. */
export function harmlessName(name: string, instead: '' | ' '): string {
  // Joiners, soft hyphens and tags stay: they belong to letters and emoji.
  return name.replace(
    /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]+/gu,
    instead,
  );
}

function escaped(found: string): string {
  return found.replace(/[\s\S]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

const GIB = 1024 * MIB;

/** A size to two digits or so: `512 bytes`, `1.5 KiB`, `117 MiB`. */
export function bytesInWords(count: number): string {
  if (count < KIB) return count === 1 ? '1 byte' : `${count} bytes`;
  const [unit, one] = count >= GIB ? ['GiB', GIB] : count >= MIB ? ['MiB', MIB] : ['KiB', KIB];
  const value = count / one;
  return `${value < 10 ? Number(value.toFixed(1)) : Math.floor(value)} ${unit}`;
}

/** A length of time in its largest unit: `45 s`, `4 min`, `3 h 20 min`, `2 d 5 h`. */
export function span(ms: number): string {
  if (ms < MINUTE_MS) return `${Math.max(0, Math.floor(ms / SECOND_MS))} s`;
  if (ms < HOUR_MS) return `${Math.floor(ms / MINUTE_MS)} min`;
  if (ms < DAY_MS) return withRest(ms, HOUR_MS, 'h', MINUTE_MS, 'min');
  return withRest(ms, DAY_MS, 'd', HOUR_MS, 'h');
}

function withRest(ms: number, unitMs: number, unit: string, restMs: number, rest: string): string {
  const more = Math.floor((ms % unitMs) / restMs);
  return `${Math.floor(ms / unitMs)} ${unit}${more === 0 ? '' : ` ${more} ${rest}`}`;
}

/** `1 message`, `3 messages`. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

/** The time as `toISOString` gives it, which loads the local time zone: 1.1 MiB that UTC does not need. */
export function isoOf(wallMs: number): string {
  const date = new Date(wallMs);
  const year = date.getUTCFullYear();
  if (!(year >= 0 && year <= 9999)) return date.toISOString();
  const day = `${digits(year, 4)}-${digits(date.getUTCMonth() + 1)}-${digits(date.getUTCDate())}`;
  const time = [date.getUTCHours(), date.getUTCMinutes(), date.getUTCSeconds()].map((part) => digits(part));
  return `${day}T${time.join(':')}.${digits(date.getUTCMilliseconds(), 3)}Z`;
}

/** The time as isoOf gives it; null: it is not known. */
export function isoOrNull(wallMs: number | null): string | null {
  return wallMs === null ? null : isoOf(wallMs);
}

function digits(value: number, count = 2): string {
  return String(value).padStart(count, '0');
}
