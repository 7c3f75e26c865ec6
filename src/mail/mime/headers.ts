/**
 * Header lines of a mail. A user's text becomes ASCII lines of at most 76 octets, and can never begin another header.
 */
import { Buffer } from 'node:buffer';
import { assert } from '../../base/errors.js';
import { HEADER_NAME_CHARS_MAX } from '../../base/limits.js';
import { withALabel } from '../message/address.js';
import type { Mailbox } from '../message/mailbox.js';

/** A line of a ready-made mail without its CRLF (RFC 5322 §2.1.1). */
export const READY_MADE_LINE_OCTETS_MAX = 998;
const LINE_OCTETS_MAX = 76;
/** Octets of text in the first encoded word. It shares its line with `Subject: ` and 12 octets around the base64. */
const FIRST_WORD_OCTETS = 39;
/** Octets of text in each later encoded word. */
const WORD_OCTETS = 45;
/** Characters of a file name in one parameter: its line stays within the limit. */
const NAME_CHARS_MAX = 54;

/** Visible ASCII with single blanks between words, which no parser changes when it unfolds a line. */
const PLAIN = /^[!-~]+(?: [!-~]+)*$/;
const MEDIA_TYPE = /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+(?:; charset=[\w.:+-]+)?$/;
/** Words that need no quotes in a name (RFC 5322 §3.2.3). */
const ATOMS = /^[\w!#$%&'*+/=?^`{|}~-]+(?: [\w!#$%&'*+/=?^`{|}~-]+)*$/;
const HEADER_NAME = new RegExp(`^[!-9;-~]{1,${HEADER_NAME_CHARS_MAX}}$`);

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
  const words = isPlain(subject) ? subject.split(' ') : [];
  // The first word shares its line with the name.
  const isGood = words.every(
    (word, index) => word.length < LINE_OCTETS_MAX - (index === 0 ? 'Subject:'.length : 0),
  );
  return folded('Subject', isGood && words.length > 0 ? words : encodedWords(subject, FIRST_WORD_OCTETS));
}

/** The text as encoded words (RFC 2047) of at most 72 characters. The first holds `firstOctets` octets of the text. */
function encodedWords(text: string, firstOctets: number = WORD_OCTETS): string[] {
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

/** What the headers of a file say. */
interface FileHeaders {
  readonly name: string;
  readonly type: string;
  /** Without angle brackets. */
  readonly cid?: string;
}

/**
 * The headers of an attachment. A name that is not plain is encoded in `filename` (RFC 2231); `name`, for older mail
 * programs, has `_` in its place. A type that is invalid, a mail, or multipart (RFC 2046 forbids base64 for these)
 * becomes `application/octet-stream`. With `isInline` the HTML shows the file.
 */
export function attachmentHeaders({ name, type, cid }: FileHeaders, isInline: boolean): string {
  assertOneLine(name);
  const known =
    MEDIA_TYPE.test(type) && type.length < LINE_OCTETS_MAX - 1 && !/^(?:message|multipart)\//i.test(type);
  const fallback = name.replace(/[^ !#-[\]-~]/gu, '_').slice(-NAME_CHARS_MAX);
  const plain = name === fallback && isPlain(name);
  return (
    `Content-Type:\r\n ${known ? type : 'application/octet-stream'};\r\n name="${fallback}"\r\n` +
    'Content-Transfer-Encoding: base64\r\n' +
    (cid === undefined ? '' : header('Content-ID', `<${cid}>`)) +
    `Content-Disposition: ${isInline ? 'inline' : 'attachment'};\r\n ${plain ? `filename="${name}"` : extendedName(name)}\r\n`
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
function assertOneLine(value: string): void {
  assert(!/[\r\n\0]/.test(value), 'a header value has no line break and no NUL');
}

/** The header `name` with these mailboxes, of which there is at least one. */
export function mailboxesHeader(name: string, mailboxes: readonly Mailbox[]): string {
  const [first] = mailboxes;
  if (mailboxes.length === 1 && first?.name === '') return header(name, `<${withALabel(first.address)}>`);
  const words = mailboxes.flatMap((mailbox, index) => {
    const comma = index === mailboxes.length - 1 ? '' : ',';
    return [...nameWords(mailbox.name), `<${withALabel(mailbox.address)}>${comma}`];
  });
  return folded(name, words);
}

/** A header of the client's own. Plain words stay readable; anything else becomes encoded words (RFC 2047). */
export function ownHeader(name: string, value: string): string {
  const words = isPlain(value) ? value.split(' ') : [];
  // The longest word follows a blank.
  const isGood = words.length > 0 && words.every((word) => word.length < READY_MADE_LINE_OCTETS_MAX);
  return folded(name, isGood ? words : encodedWords(value));
}

/** A name in words that may each begin a line; parsers join them with single blanks. */
function nameWords(name: string): readonly string[] {
  if (name === '') return [];
  if (isPlain(name)) {
    const text = ATOMS.test(name) ? name : `"${name.replace(/["\\]/g, '\\$&')}"`;
    const words = text.split(' ');
    if (words.every((word) => word.length < LINE_OCTETS_MAX)) return words;
  }
  return encodedWords(name);
}

/** True if a parser gives the text back as it is. */
function isPlain(text: string): boolean {
  return PLAIN.test(text) && !text.includes('=?');
}

/** The header, with a line break before each word that would make a line too long. */
function folded(name: string, words: readonly string[]): string {
  assert(HEADER_NAME.test(name), 'a header has a good name');
  const lines = [];
  let line = `${name}:`;
  for (const word of words) {
    assertOneLine(word);
    if (Buffer.byteLength(line) + 1 + Buffer.byteLength(word) > LINE_OCTETS_MAX && line !== '') {
      lines.push(line);
      line = '';
    }
    line += ` ${word}`;
  }
  return `${[...lines, line].join('\r\n')}\r\n`;
}
