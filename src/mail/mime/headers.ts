/**
 * Header lines of a mail: subject, date, and the headers of an attachment. A user's text becomes ASCII lines of at most
 * 76 octets, and can never begin another header.
 */
import { Buffer } from 'node:buffer';
import { assert } from '../../base/errors.js';

export const LINE_OCTETS_MAX = 76;
/** Octets of text in the first encoded word. It shares its line with `Subject: ` and 12 octets around the base64. */
const FIRST_WORD_OCTETS = 39;
/** Octets of text in each later encoded word. */
const WORD_OCTETS = 45;
/** Characters of a file name in one parameter: its line stays within the limit. */
const NAME_CHARS_MAX = 54;

/** Visible ASCII with single blanks between words, which no parser changes when it unfolds a line. */
export const PLAIN = /^[!-~]+(?: [!-~]+)*$/;
const MEDIA_TYPE = /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+(?:; charset=[\w.:+-]+)?$/;

/** `Name: value`, not folded: an address or an id cannot be. */
export function header(name: string, value: string): string {
  assertOneLine(value);
  return `${name}: ${value}\r\n`;
}

/** The moment as RFC 5322 §3.3 writes it, in UTC. */
export function formatDate(wallMs: number): string {
  return new Date(wallMs).toUTCString().replace('GMT', '+0000');
}

/** The Subject header: readable where it is plain ASCII that can be folded, otherwise encoded words (RFC 2047). */
export function subjectHeader(subject: string): string {
  assertOneLine(subject);
  if (subject === '') return 'Subject:\r\n';
  return `${foldPlain(subject) ?? foldEncoded(subject)}\r\n`;
}

/** The header as plain text. Null if unfolding changes the text, a word is too long for a line, or it looks encoded. */
function foldPlain(subject: string): string | null {
  if (!PLAIN.test(subject) || subject.includes('=?')) return null;
  const [first, ...words] = subject.split(' ');
  let line = `Subject: ${first}`;
  const lines = [];
  for (const word of words) {
    if (line.length + 1 + word.length > LINE_OCTETS_MAX) {
      lines.push(line);
      line = '';
    }
    line += ` ${word}`;
  }
  lines.push(line);
  return lines.every((folded) => folded.length <= LINE_OCTETS_MAX) ? lines.join('\r\n') : null;
}

function foldEncoded(subject: string): string {
  return `Subject: ${encodedWords(subject, FIRST_WORD_OCTETS).join('\r\n ')}`;
}

/** The text as encoded words (RFC 2047) of at most 72 characters. The first holds `firstOctets` octets of the text. */
export function encodedWords(text: string, firstOctets: number = WORD_OCTETS): string[] {
  const bytes = Buffer.from(text);
  const words = [];
  let from = 0;
  while (from < bytes.length) {
    let to = Math.min(from + (from === 0 ? firstOctets : WORD_OCTETS), bytes.length);
    // An encoded word holds whole characters only (RFC 2047 §5).
    while (((bytes[to] ?? 0) & 0xc0) === 0x80) to--;
    words.push(`=?UTF-8?B?${bytes.toString('base64', from, to)}?=`);
    from = to;
  }
  return words;
}

/**
 * The headers of an attachment. A name that is not plain is encoded in `filename` (RFC 2231); `name`, for older mail
 * programs, has `_` in its place. A type that is invalid, a mail, or multipart (RFC 2046 forbids base64 for these)
 * becomes `application/octet-stream`.
 */
export function attachmentHeaders(name: string, type: string): string {
  assertOneLine(name);
  const known =
    MEDIA_TYPE.test(type) && type.length < LINE_OCTETS_MAX - 1 && !/^(?:message|multipart)\//i.test(type);
  const fallback = name.replace(/[^ !#-[\]-~]/gu, '_').slice(-NAME_CHARS_MAX);
  const plain = name === fallback && PLAIN.test(name) && !name.includes('=?');
  return (
    `Content-Type:\r\n ${known ? type : 'application/octet-stream'};\r\n name="${fallback}"\r\n` +
    'Content-Transfer-Encoding: base64\r\n' +
    `Content-Disposition: attachment;\r\n ${plain ? `filename="${name}"` : extendedName(name)}\r\n`
  );
}

/** `filename*=UTF-8''…`, or as many numbered sections of it as the name needs (RFC 2231 §3, §4). */
function extendedName(name: string): string {
  const sections = [''];
  for (const character of name) {
    const octets = /[\w!#$&+.^`{|}~-]/.test(character) ? character : percentEncoded(character);
    if ((sections.at(-1) as string).length + octets.length > NAME_CHARS_MAX) sections.push('');
    sections[sections.length - 1] += octets;
  }
  if (sections.length === 1) return `filename*=UTF-8''${sections[0]}`;
  return sections
    .map((section, index) => `filename*${index}*=${index === 0 ? "UTF-8''" : ''}${section}`)
    .join(';\r\n ');
}

function percentEncoded(character: string): string {
  return Buffer.from(character).toString('hex').toUpperCase().replace(/../g, '%$&');
}

/** All values are validated before. If a line break gets here, it must not begin a header. */
export function assertOneLine(value: string): void {
  assert(!/[\r\n\0]/.test(value), 'a header value has no line break and no NUL');
}
