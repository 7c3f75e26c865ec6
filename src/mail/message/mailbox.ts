/**
 * Who stands in a header of a mail: an address, and perhaps a name (RFC 5322 §3.4). Reads what mailers and people write,
 * with comments, groups, quoted strings and the obsolete forms, in linear time. Pure.
 */
import { cut, harmlessName, hasControl, oneSpaced, visible } from '../../base/text.js';
import { type Address, isUserName, parseAddress } from './address.js';
import { decodeWords } from './encoded-words.js';

/** An address, and the name beside it. */
export interface Mailbox {
  /** Empty if there is none. */
  readonly name: string;
  readonly address: Address;
}

/** The mailboxes of a header's value. */
export interface MailboxList {
  /** In order, duplicates included. */
  readonly mailboxes: readonly Mailbox[];
  /** What is wrong with the first bad piece, in words; null if all are good. */
  readonly fault: string | null;
}

/** The address for a recipient without a domain, such as `root`; null if there is none. */
export type Qualify = (localPart: string) => Address | null;

/** Characters of a bad piece that its fault quotes. */
const PIECE_CHARS_MAX = 80;

/** The mailbox that `text` is: `john@x`, `<john@x>` or `John <john@x>`. Null if it is not exactly one. */
export function parseMailbox(text: string): Mailbox | null {
  if (hasControl(text)) return null;
  const list = new ListReader(text, null).read();
  const isOne = list.fault === null && list.mailboxes.length === 1 && !list.isList;
  return isOne ? (list.mailboxes[0] as Mailbox) : null;
}

/** The mailboxes of an address list: the value of a header such as To, folded or not. */
export function parseMailboxes(value: string, qualify: Qualify | null = null): MailboxList {
  const { mailboxes, fault } = new ListReader(value, qualify).read();
  return { mailboxes, fault };
}

/** The pieces of one element of a list. */
interface Element {
  readonly start: number;
  /** The phrase, or an address without angle brackets. */
  readonly words: ListToken[];
  /** What is between the angle brackets; null: there are none. */
  angle: ListToken[] | null;
  isBad: boolean;
  comment: string;
}

class ListReader {
  readonly #text: string;
  readonly #qualify: Qualify | null;
  readonly #mailboxes: Mailbox[] = [];
  #fault: string | null = null;
  #isList = false;
  #inGroup = false;
  #inAngle = false;
  #element: Element = newElement(0);

  constructor(text: string, qualify: Qualify | null) {
    this.#text = text;
    this.#qualify = qualify;
  }

  /** `isList`: there is a comma or a group. */
  read(): MailboxList & { readonly isList: boolean } {
    for (const token of tokensOf(this.#text)) {
      if (this.#inAngle) this.#takeInAngle(token);
      else this.#take(token);
    }
    if (this.#inAngle) this.#element.isBad = true;
    this.#endElement(this.#text.length);
    if (this.#inGroup) this.#fault ??= 'a group has no semicolon at its end';
    return { mailboxes: this.#mailboxes, fault: this.#fault, isList: this.#isList };
  }

  #take(token: ListToken): void {
    const { kind, text, start, end } = token;
    if (!token.isWhole) this.#element.isBad = true;
    if (kind === 'comment') this.#element.comment ||= text;
    else if (kind !== 'special') {
      // After the angle brackets nothing may follow.
      if (this.#element.angle !== null) this.#element.isBad = true;
      this.#element.words.push(token);
    } else if (text === '<') this.#beginAngle();
    else if (text === ',') this.#endElement(start, end);
    else if (text === ':') this.#beginGroup(start, end);
    else if (text === ';') this.#endGroup(start, end);
    else this.#element.isBad = true;
  }

  #takeInAngle(token: ListToken): void {
    if (!token.isWhole) this.#element.isBad = true;
    if (token.kind === 'special' && token.text === '>') this.#inAngle = false;
    else if (token.kind !== 'comment') this.#element.angle?.push(token);
  }

  #beginAngle(): void {
    if (this.#element.angle !== null) this.#element.isBad = true;
    this.#element.angle = [];
    this.#inAngle = true;
  }

  #beginGroup(start: number, end: number): void {
    this.#isList = true;
    // The words before the colon are the name of the group.
    const { words, angle } = this.#element;
    if (this.#inGroup || angle !== null || words.length === 0) this.#report(this.#element.start, start);
    this.#inGroup = true;
    this.#element = newElement(end);
  }

  #endGroup(start: number, end: number): void {
    this.#endElement(start, end);
    if (!this.#inGroup) this.#fault ??= 'a semicolon is not where a group ends; commas separate addresses';
    this.#inGroup = false;
  }

  /** Ends an element at `end`; the next one starts at `next`. */
  #endElement(end: number, next?: number): void {
    if (next !== undefined) this.#isList = true;
    const { start, words, angle, isBad, comment } = this.#element;
    this.#element = newElement(next ?? end);
    // The obsolete syntax has empty elements.
    if (!isBad && words.length === 0 && angle === null) return;
    const address = isBad ? null : this.#addressOf(angle === null ? words : withoutRoute(angle));
    if (address === null) this.#report(start, end);
    else this.#mailboxes.push({ name: nameOf(angle === null ? [] : words, comment), address });
  }

  #addressOf(words: readonly ListToken[]): Address | null {
    const text = addressText(words);
    if (text === null) return null;
    if (text.includes('@') || this.#qualify === null) return parseAddress(text);
    return isUserName(text) ? this.#qualify(text) : null;
  }

  #report(start: number, end: number): void {
    const piece = oneSpaced(this.#text.slice(start, end));
    this.#fault ??= `${JSON.stringify(visible(cut(piece, PIECE_CHARS_MAX)))} is not an email address`;
  }
}

function newElement(start: number): Element {
  return { start, words: [], angle: null, isBad: false, comment: '' };
}

/** The obsolete route: `<@relay,@other:john@example.com>`. */
function withoutRoute(words: readonly ListToken[]): readonly ListToken[] {
  if (!words[0]?.text.startsWith('@')) return words;
  return words.slice(words.findIndex(({ text }) => text === ':') + 1);
}

/** The words as the text of an address; null if they are none. Blanks around dots and `@` are obsolete, but allowed. */
function addressText(words: readonly ListToken[]): string | null {
  let address = '';
  let last = '';
  let wasQuoted = false;
  for (const { kind, text, isApart } of words) {
    const isQuoted = kind === 'quoted';
    // A quoted local part that needs no quotes is the same without them.
    if (isQuoted && !/^[^\s.@]+(?:\.[^\s.@]+)*$/.test(text)) return null;
    const joins = last === '.' || last === '@' || text.startsWith('.') || text.startsWith('@');
    if (last !== '' && !joins && (isApart || isQuoted || wasQuoted)) return null;
    address += text;
    last = text.at(-1) as string;
    wasQuoted = isQuoted;
  }
  return address;
}

/** The phrase as people read it; old mailers write the name as a comment behind the address. */
function nameOf(words: readonly ListToken[], comment: string): string {
  if (words.length === 0) return harmless(decodeWords(comment));
  let name = '';
  let plain = '';
  for (const { kind, text, isApart } of words) {
    const blank = isApart ? ' ' : '';
    // What a quoted string holds is no encoded word (RFC 2047 §5).
    if (kind === 'quoted') {
      name += decodeWords(plain) + blank + text;
      plain = '';
    } else plain += blank + text;
  }
  return harmless(name + decodeWords(plain));
}

function harmless(name: string): string {
  return harmlessName(name, ' ').trim();
}

/** A token of an address list (RFC 5322 §3.2), and its place in the text. */
interface ListToken {
  readonly kind: 'atom' | 'quoted' | 'comment' | 'literal' | 'special';
  /** Without the quotes or parentheses around it, and without their backslashes. */
  readonly text: string;
  /** True if blanks or a comment stand before it. */
  readonly isApart: boolean;
  /** False if its end is missing. */
  readonly isWhole: boolean;
  readonly start: number;
  readonly end: number;
}

const QUOTED = /"((?:[^"\\]|\\[\s\S])*)("?)/y;
const LITERAL = /\[[^\]]*(\]?)/y;
const BLANKS = ' \t\r\n';
const SPECIALS = '"(),:;<>[]';

/** All tokens of the text, in linear time. */
function tokensOf(text: string): ListToken[] {
  const tokens: ListToken[] = [];
  let isApart = false;
  for (let at = 0; at < text.length; ) {
    if (BLANKS.includes(text[at] as string)) {
      isApart = true;
      at++;
      continue;
    }
    const token = tokenAt(text, at, isApart);
    tokens.push(token);
    isApart = token.kind === 'comment';
    at = token.end;
  }
  return tokens;
}

function tokenAt(text: string, start: number, isApart: boolean): ListToken {
  const character = text[start] as string;
  if (character === '"') {
    const [all, inside = '', quote] = matchAt(QUOTED, text, start);
    const end = start + all.length;
    return { kind: 'quoted', text: unescaped(inside), isApart, isWhole: quote === '"', start, end };
  }
  if (character === '[') {
    const [all, bracket] = matchAt(LITERAL, text, start);
    return { kind: 'literal', text: all, isApart, isWhole: bracket === ']', start, end: start + all.length };
  }
  if (character === '(') return commentAt(text, start, isApart);
  let end = start + 1;
  if (SPECIALS.includes(character)) {
    return { kind: 'special', text: character, isApart, isWhole: true, start, end };
  }
  while (
    end < text.length &&
    !SPECIALS.includes(text[end] as string) &&
    !BLANKS.includes(text[end] as string)
  )
    end++;
  return { kind: 'atom', text: text.slice(start, end), isApart, isWhole: true, start, end };
}

/** Comments may hold comments. */
function commentAt(text: string, start: number, isApart: boolean): ListToken {
  let depth = 1;
  let end = start + 1;
  for (; end < text.length && depth > 0; end++) {
    const character = text[end];
    if (character === '\\') end++;
    else if (character === '(') depth++;
    else if (character === ')') depth--;
  }
  const isWhole = depth === 0;
  const inside = unescaped(text.slice(start + 1, isWhole ? end - 1 : text.length));
  return { kind: 'comment', text: inside, isApart, isWhole, start, end };
}

function matchAt(pattern: RegExp, text: string, at: number): RegExpExecArray {
  pattern.lastIndex = at;
  // Both patterns match wherever their first character stands.
  return pattern.exec(text) as RegExpExecArray;
}

/** The text without the backslashes of quoted pairs, and unfolded. */
function unescaped(text: string): string {
  return text.replace(/\r\n([ \t])/g, '$1').replace(/\\([\s\S])/g, '$1');
}
