/**
 * Makes a mail sendable that a system program wrote as it likes: a `From` that no
 * relay takes, `To: root`, lines of any length. A signed mail, and what has a structure, stays as it is. Pure.
 */
import { Buffer } from 'node:buffer';
import { withoutBlanksAtEnd } from '../../base/text.js';
import { type Address, domainOf, localAddressOf } from '../message/address.js';
import { type Mailbox, parseMailboxes } from '../message/mailbox.js';
import { encodeQuotedPrintable } from './encodings.js';
import { mailboxesHeader, READY_MADE_LINE_OCTETS_MAX } from './headers.js';
import { type HeaderSection, octetsOf, SECTION_END, unfolded } from './ready-made-head.js';

/** What the device says of itself. */
export interface Repair {
  /** False: `From` and `Sender` stay as they are. */
  readonly fixesFrom: boolean;
  /** True if a mail may have this address in `From`. */
  readonly mayBeFrom: (address: Address) => boolean;
  /** Where mail to an address goes: that to a user of this device goes to its readers. Empty: nobody reads it. */
  readonly homesOf: (address: Address) => readonly Address[];
  /** True for the address of a user of this device. */
  readonly isOfThisDevice: (address: Address) => boolean;
  readonly hostname: string;
  /** The name for a new `From`; left out: made of the old one and the host name. */
  readonly nameFor?: (old: Mailbox | undefined) => string;
}

/** What was changed in the header section. */
export interface Repaired {
  /** The name beside the device's address, if `From` was taken out. */
  readonly fromName: string | null;
  /** True: `From` would have been changed, but the mail is signed. */
  readonly isSigned: boolean;
}

const NOBODY = 'Fieldpost';
/** Kinds of content whose signature a change of `From` breaks or belies. */
const SIGNED = /^(?:multipart\/signed|application\/(?:x-)?pkcs7-mime)\b/i;

/** Changes the headers in the section. */
export function repairHeaders(section: HeaderSection, repair: Repair): Repaired {
  const isSigned = hasSignature(section);
  const foreign = repair.fixesFrom
    ? ['from', 'sender'].filter((name) => section.values(name).some((value) => isForeign(value, repair)))
    : [];
  const isChanged = (name: string) => !isSigned && foreign.includes(name);
  const fromName = isChanged('from') ? replaceFrom(section, repair) : null;
  if (isChanged('sender')) section.rename('sender', 'X-Original-Sender');
  if (!isSigned) {
    for (const name of ['to', 'cc']) qualifyNames(section, name, repair.homesOf);
    section.rewrite(foldedField);
  }
  return { fromName, isSigned: isSigned && foreign.length > 0 };
}

function hasSignature(section: HeaderSection): boolean {
  const isSigned = words(section, 'content-type').some((type) => SIGNED.test(type));
  return isSigned || section.values('dkim-signature').length > 0;
}

/** True if this value of `From` or `Sender` is not an address that a mail may have. */
function isForeign(value: string, { mayBeFrom }: Repair): boolean {
  const { mailboxes, fault } = parseMailboxes(unfolded(value));
  return fault !== null || mailboxes.length === 0 || !mailboxes.every(({ address }) => mayBeFrom(address));
}

/**
 * Takes `From` out; it stays as X-Original-From. An old sender that can be answered gets the answers. Gives the name for the
 * new `From`.
 */
function replaceFrom(section: HeaderSection, repair: Repair): string {
  const [value = ''] = section.values('from');
  // Any word is a user here: the name is all that is wanted.
  const { mailboxes } = parseMailboxes(unfolded(value), localAddressOf);
  const [old] = mailboxes;
  const isAway =
    old !== undefined && domainOf(old.address).includes('.') && !repair.isOfThisDevice(old.address);
  section.rename('from', 'X-Original-From');
  if (isAway && mailboxes.length === 1 && section.values('reply-to').length === 0)
    section.add(mailboxesHeader('Reply-To', [old]));
  if (repair.nameFor !== undefined) return repair.nameFor(old);
  const user = old?.address.slice(0, old.address.lastIndexOf('@')) ?? '';
  return `${(isAway ? old.name : '') || user || old?.name || NOBODY} on ${repair.hostname}`;
}

/** Writes the address of the first reader of a user of this device where the header has only a name. */
function qualifyNames(section: HeaderSection, name: string, homesOf: Repair['homesOf']): void {
  section.rewrite((field) => {
    if (field.name !== name) return field.text;
    const value = unfolded(field.text.slice(field.text.indexOf(':') + 1));
    if (parseMailboxes(value).fault === null) return field.text;
    const { mailboxes, fault } = parseMailboxes(value, (user) => homesOf(localAddressOf(user))[0] ?? null);
    const label = name === 'to' ? 'To' : 'Cc';
    if (fault !== null || mailboxes.length === 0) return field.text;
    return octetsOf(mailboxesHeader(label, once(mailboxes)));
  });
}

/** Each address once: `To: root, daemon` are one person. */
function once(mailboxes: readonly Mailbox[]): Mailbox[] {
  return [...new Map(mailboxes.map((mailbox) => [mailbox.address, mailbox])).values()];
}

/** The field with a line break before a blank where a line is too long. What has no blank there stays too long. */
function foldedField({ text }: { readonly text: string }): string {
  const lines = text.split('\r\n');
  if (lines.every((line) => line.length <= READY_MADE_LINE_OCTETS_MAX)) return text;
  return lines.flatMap(foldedLine).join('\r\n');
}

function foldedLine(line: string): string[] {
  if (line.length <= READY_MADE_LINE_OCTETS_MAX) return [line];
  const lines: string[] = [];
  let rest = withoutBlanksAtEnd(line);
  // An empty line would end the header section.
  if (rest === '') return [];
  while (rest.length > READY_MADE_LINE_OCTETS_MAX) {
    // A line that begins with its only blank would be folded for ever.
    const blank = rest.lastIndexOf(' ', READY_MADE_LINE_OCTETS_MAX);
    const tab = rest.lastIndexOf('\t', READY_MADE_LINE_OCTETS_MAX);
    const at = Math.max(blank, tab);
    // RFC 5322 §2.2.3: no line may be blank altogether.
    if (rest.slice(0, at).trim() === '') break;
    lines.push(rest.slice(0, at));
    rest = rest.slice(at);
  }
  return [...lines, rest];
}

/** The values of a MIME header without comments. */
function words(section: HeaderSection, name: string): string[] {
  return section.values(name).map((value) =>
    unfolded(value)
      .replace(/\([^()]*\)/g, '')
      .trim(),
  );
}

/** True if the body can be written with short lines: it is one text, neither encoded nor signed. */
export function isEncodable(section: HeaderSection): boolean {
  const types = words(section, 'content-type');
  return (
    (!hasType(section) || /^text\s*\//i.test(types[0] ?? '')) &&
    types.length <= 1 &&
    words(section, 'content-transfer-encoding').every((one) => /^(?:7bit|8bit|binary)$/i.test(one)) &&
    !hasSignature(section)
  );
}

/** RFC 2045 §5.2: a type that cannot be read counts as none, which is text/plain. */
export function hasType(section: HeaderSection): boolean {
  return words(section, 'content-type').some((type) => /^[^\s/;]+\s*\//.test(type));
}

const CR = 13;
const PIECE_OCTETS_MAX = 4096;
const SOFT_BREAK = Buffer.from('=\r\n');

/** Writes a mail once more, as quoted-printable, with lines of any length. Takes its octets as they were stored. */
export class MailEncoder {
  readonly #section: HeaderSection;
  readonly #charset: string;
  /** Octets of the old section that are still to come. */
  #skip: number;
  #rest = Buffer.alloc(0);

  /** The charset is that of a body without a type. */
  constructor(section: HeaderSection, sectionOctets: number, charset: string) {
    this.#section = section;
    this.#charset = charset;
    this.#skip = sectionOctets;
  }

  /** The new header section. Call it first, and once. */
  begin(): Buffer {
    const section = this.#section;
    if (section.values('mime-version').length === 0) section.add('MIME-Version: 1.0\r\n');
    if (!hasType(section)) {
      section.rename('content-type', 'X-Original-Content-Type');
      section.add(`Content-Type: text/plain; charset=${this.#charset}\r\n`);
    }
    section.rewrite((field) => (field.name === 'content-transfer-encoding' ? '' : foldedField(field)));
    section.add('Content-Transfer-Encoding: quoted-printable\r\n');
    return Buffer.from(section.text + SECTION_END, 'latin1');
  }

  /** The next octets of the mail; gives what is encoded of it so far. */
  push(chunk: Buffer): Buffer {
    const skipped = Math.min(this.#skip, chunk.length);
    this.#skip -= skipped;
    const body = chunk.subarray(skipped);
    const all = this.#rest.length === 0 ? body : Buffer.concat([this.#rest, body]);
    const end = all.lastIndexOf('\r\n') + 2;
    const whole = end < 2 ? Buffer.alloc(0) : encodeQuotedPrintable(all.subarray(0, end));
    const rest = end < 2 ? all : all.subarray(end);
    if (rest.length < PIECE_OCTETS_MAX) {
      this.#rest = Buffer.from(rest);
      return whole;
    }
    // A line without an end: a soft break goes on with it. A CR at the end may belong to the end of the line.
    const at = rest.at(-1) === CR ? rest.length - 1 : rest.length;
    this.#rest = Buffer.from(rest.subarray(at));
    return Buffer.concat([whole, encodeQuotedPrintable(rest.subarray(0, at)), SOFT_BREAK]);
  }

  end(): Buffer {
    return encodeQuotedPrintable(this.#rest);
  }
}
