/**
 * The header section of a ready-made mail: its lines, without those that nobody but the sender may see, and what they
 * say.
 */
import { Buffer, isUtf8 } from 'node:buffer';
import { FieldpostError, LOOP_POINTER } from '../../base/errors.js';
import { SUBJECT_CHARS_MAX } from '../../base/limits.js';
import { cut, harmlessName } from '../../base/text.js';
import { recipientKey } from '../message/address.js';
import { decodeWords } from '../message/encoded-words.js';
import { type Mailbox, parseMailboxes, type Qualify } from '../message/mailbox.js';
import { isCollapseKey, type Missing } from '../message/message.js';

/** A mail with this many Received headers goes round in a loop. */
export const RECEIVED_MAX = 30;
/** A longer one counts as missing. */
const MESSAGE_ID_CHARS_MAX = 250;

/** What a ready-made mail says of itself. */
export interface ReadyMadeHead {
  /** Decoded for people, in one line; empty if there is none. */
  readonly subject: string;
  /** Without angle brackets; null if it is missing, malformed or too long. */
  readonly messageId: string | null;
  /** The headers that must be added. */
  readonly missing: readonly Missing[];
  /** Those in To, Cc and Bcc, in this order and once each. In a resent mail those in Resent-To, -Cc and -Bcc. */
  readonly recipients: readonly Mailbox[];
  /** The first bad recipient, in words; null if there is none. */
  readonly recipientFault: string | null;
  /** True if the header section is not ASCII. */
  readonly isEightBit: boolean;
  /** The From header, decoded for people, in one line; empty if there is none. */
  readonly from: string;
  /** True: `X-Priority: 1` or `Importance: high`. */
  readonly isUrgent: boolean;
  /** The collapse key; '' for one that cannot be used, null without one. */
  readonly collapse: string | null;
}

/** The empty line after the header section. */
export const SECTION_END = '\r\n';

// RFC 5322 §3.6.8; the blanks are obsolete (§4.5).
const FIELD = /^([!-9;-~]+)[ \t]*:/;
/** The first line of a mail in an mbox file. `From : x` is a header. */
const MBOX_LINE = /^>?From (?![ \t]*:)/;
const MESSAGE_ID = new RegExp(`^<([!-;=?-~]{1,${MESSAGE_ID_CHARS_MAX}})>$`);
const COLLAPSE = 'x-fieldpost-collapse';
/** Headers that do not go to the recipients. */
const DROPPED: ReadonlySet<string> = new Set(['bcc', 'resent-bcc', 'return-path', COLLAPSE]);
/** Characters of the From header that a refusal shows. */
const FROM_CHARS_MAX = 100;
const RECIPIENT_NAMES = ['To', 'Cc', 'Bcc'];
const RESENT_NAMES = ['Resent-To', 'Resent-Cc', 'Resent-Bcc'];
const MUST_NAMES: readonly Missing[] = ['date', 'from', 'message-id'];

/** A header: its name in lower case, and all of it with its CRLFs. */
interface Field {
  readonly name: string;
  text: string;
}

/** Takes the lines of a header section. Texts are octets (latin1). */
export class HeaderSection {
  /** Of all lines, those that are dropped included. */
  octets = 0;
  #fields: Field[] = [];
  /** Lower-case name → value, still folded, of each field with this name. */
  readonly #values = new Map<string, string[]>();
  #isFirst = true;
  /** The values that a folded line goes to. */
  #open: string[] | null = null;
  /** The field that a folded line goes to; null: it is dropped. */
  #field: Field | null = null;

  /** False if the line is not part of the section. */
  take(line: string): boolean {
    const isMboxLine = this.#isFirst && MBOX_LINE.test(line);
    this.#isFirst = false;
    if (isMboxLine) return true;
    const name = FIELD.exec(line)?.[1]?.toLowerCase();
    const isFolded = this.#open !== null && /^[ \t]/.test(line);
    if (name === undefined && !isFolded) return false;
    this.octets += line.length + 2;
    if (name === undefined) {
      this.#open?.push(`${this.#open.pop()}\r\n${line}`);
      if (this.#field !== null) this.#field.text += `${line}\r\n`;
      return true;
    }
    this.#open = this.#values.get(name) ?? [];
    this.#values.set(name, this.#open);
    this.#open.push(line.slice(line.indexOf(':') + 1));
    this.#field = DROPPED.has(name) ? null : { name, text: `${line}\r\n` };
    if (this.#field !== null) this.#fields.push(this.#field);
    return true;
  }

  /** Puts other octets, with their CRLFs, in the place of each field's; '' takes it out. */
  rewrite(textOf: (field: Readonly<Field>) => string): void {
    const fields = this.#fields.map((field) => ({ ...field, text: textOf(field) }));
    this.#fields = fields.filter(({ text }) => text !== '');
  }

  /** Gives each field of this name another one. */
  rename(name: string, to: string): void {
    this.rewrite((field) =>
      field.name === name ? to + field.text.slice(field.text.indexOf(':')) : field.text,
    );
    this.#values.delete(name);
  }

  /** Adds a field, which is text with its CRLFs, at the end. */
  add(field: string): void {
    const text = octetsOf(field);
    const name = text.slice(0, text.indexOf(':')).toLowerCase();
    this.#fields.push({ name, text });
    this.#values.set(name, [...this.values(name), text.slice(name.length + 1, -2)]);
  }

  /** The fields that stay, with their CRLFs. */
  get text(): string {
    return this.#fields.map(({ text }) => text).join('');
  }

  /** Octets of the longest line. */
  get longestLine(): number {
    return Math.max(0, ...this.#fields.flatMap(({ text }) => text.split('\r\n').map(({ length }) => length)));
  }

  /** The values of all fields with this name. */
  values(name: string): readonly string[] {
    return this.#values.get(name.toLowerCase()) ?? [];
  }
}

/** What the section says. Throws invalid (LOOP_POINTER) if the mail goes round in a loop. */
export function headOf(section: HeaderSection, qualify: Qualify | null): ReadyMadeHead {
  const received = section.values('received').length;
  if (received >= RECEIVED_MAX) {
    const detail = `has ${received} Received headers: it goes round in a loop`;
    throw new FieldpostError('invalid', `The mail ${detail}`, {
      faults: [{ pointer: LOOP_POINTER, detail }],
    });
  }
  const [subject = ''] = section.values('subject');
  const [from = ''] = section.values('from');
  const ids = section.values('message-id');
  return {
    subject: cut(forPeople(subject), SUBJECT_CHARS_MAX),
    from: cut(forPeople(from), FROM_CHARS_MAX),
    messageId: ids.length === 1 ? (MESSAGE_ID.exec(unfolded(ids[0] as string).trim())?.[1] ?? null) : null,
    missing: MUST_NAMES.filter((name) => section.values(name).length === 0),
    ...recipientsOf(section, qualify),
    isEightBit: /[\x80-\xff]/.test(section.text),
    isUrgent: says(section, 'x-priority', /^1\b/) || says(section, 'importance', /^high$/i),
    collapse: collapseOf(section.values(COLLAPSE)),
  };
}

function says(section: HeaderSection, name: string, what: RegExp): boolean {
  return section.values(name).some((value) => what.test(value.trim()));
}

function collapseOf([value, ...others]: readonly string[]): string | null {
  if (value === undefined) return null;
  const key = unfolded(value).trim();
  return others.length === 0 && isCollapseKey(key) ? key : '';
}

function recipientsOf(
  section: HeaderSection,
  qualify: Qualify | null,
): Pick<ReadyMadeHead, 'recipients' | 'recipientFault'> {
  const isResent = RESENT_NAMES.some((name) => section.values(name).length > 0);
  const recipients = new Map<string, Mailbox>();
  let recipientFault: string | null = null;
  for (const name of isResent ? RESENT_NAMES : RECIPIENT_NAMES) {
    for (const value of section.values(name)) {
      const { mailboxes, fault } = parseMailboxes(unfolded(value), qualify);
      if (fault !== null) recipientFault ??= `${name}: ${fault}`;
      for (const mailbox of mailboxes) {
        const key = recipientKey(mailbox.address);
        if (!recipients.has(key)) recipients.set(key, mailbox);
      }
    }
  }
  return { recipients: [...recipients.values()], recipientFault };
}

function forPeople(value: string): string {
  return harmlessName(decodeWords(unfolded(value)), ' ').trim();
}

/** The value in one line, as text: UTF-8, or what old mailers send. */
export function unfolded(value: string): string {
  const octets = Buffer.from(value.replaceAll('\r\n', ''), 'latin1');
  return isUtf8(octets) ? octets.toString() : octets.toString('latin1');
}

/** Text as a section holds it: a character of more than eight bits would be cut, to a line break at worst. */
export function octetsOf(text: string): string {
  return Buffer.from(text).toString('latin1');
}
