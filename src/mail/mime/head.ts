/**
 * The headers of a mail that its client may choose: who stands in it, and headers of its own (RFC 5322 §3.4, §3.6.8).
 */
import { Buffer } from 'node:buffer';
import { assert } from '../../base/errors.js';
import { HEADER_NAME_CHARS_MAX, READY_MADE_LINE_OCTETS_MAX } from '../mail-limits.js';
import { withALabel } from '../message/address.js';
import type { Mailbox } from '../message/mailbox.js';
import { assertOneLine, encodedWords, header, LINE_OCTETS_MAX, PLAIN } from './headers.js';

/** Words that need no quotes in a name (RFC 5322 §3.2.3). */
const ATOMS = /^[\w!#$%&'*+/=?^`{|}~-]+(?: [\w!#$%&'*+/=?^`{|}~-]+)*$/;
const NAME = new RegExp(`^[!-9;-~]{1,${HEADER_NAME_CHARS_MAX}}$`);

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
  assert(NAME.test(name), 'a header has a good name');
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
