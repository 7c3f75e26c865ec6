/**
 * The fields of a posted message: their texts in a form, how their faults are reported, and fields that other mailers have and
 * this one does not. Those are refused with a hint, because to ignore them would lose a text, a recipient or a file. Pure.
 */
import type { JsonObject } from '../../base/json.js';
import { hasLoneSurrogate } from '../../base/text.js';

/** Takes a fault of a field, or of a member of it, or of a member of that; '' is the whole message. */
export type FaultReport = (
  field: string,
  detail: string,
  member?: string | number | readonly (string | number)[],
) => void;

/** An optional text; empty if it is absent or reported. */
export function textOf(fields: JsonObject, name: string, report: FaultReport): string {
  const value = fields[name];
  if (!isGiven(value)) return '';
  if (typeof value !== 'string') {
    report(name, 'must be a string');
    return '';
  }
  if (hasLoneSurrogate(value)) report(name, 'contains half a surrogate pair, which is not a character');
  return value;
}

/** True unless the field is absent: one of a wrong kind is a fault, also if it is empty. */
export function isGiven(value: unknown): boolean {
  return value !== undefined && value !== null;
}

/** True if the field is not empty, whatever its kind. */
export function isSet(value: unknown): boolean {
  return isGiven(value) && value !== '';
}

/** True for the values by which clients of other mailers say that they do not use a field. */
export function isEmpty(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return !isSet(value) || value === false;
  return Object.keys(value).length === 0;
}

/** Lists of addresses: such a field may be in a form more than once. */
const LISTS: readonly string[] = ['to', 'cc', 'bcc', 'reply_to'];

/** The text fields of a mail. Without a file name they are text, whatever their Content-Type. */
export const TEXT_FIELDS: readonly string[] = [
  'type',
  'destination',
  ...LISTS,
  'from',
  'headers',
  'subject',
  'plain',
  'html',
  'priority',
  'expires_in_s',
  'collapse_key',
  'collapse_count',
];
/** Browsers send an empty text for an input that nobody filled in. In these that is no value. */
const EMPTY_IS_ABSENT: readonly string[] = ['priority', 'expires_in_s', 'collapse_key', 'collapse_count'];
const FLAGS: ReadonlyMap<string, boolean> = new Map([
  ['true', true],
  ['false', false],
]);

/** The fields. Reports those that may be there once only, and those that cannot be read. */
export function fieldsOfForm(texts: ReadonlyMap<string, readonly string[]>, report: FaultReport): JsonObject {
  for (const name of TEXT_FIELDS) {
    const isOnce = !LISTS.includes(name);
    if (isOnce && (texts.get(name)?.length ?? 0) > 1) report(name, 'must not appear more than once');
  }
  // An assignment would lose a field named __proto__; fromEntries keeps it.
  return Object.fromEntries(
    [...texts].map(([name, all]): [string, unknown] => {
      const [text = ''] = all;
      if (LISTS.includes(name)) return [name, all.filter((one) => one.trim() !== '')];
      if (name === 'headers') return [name, parseHeaders(text, report)];
      if (text === '' && EMPTY_IS_ABSENT.includes(name)) return [name, undefined];
      if (name === 'collapse_count') return [name, FLAGS.get(text) ?? text];
      if (name === 'expires_in_s') return [name, /^\d{1,15}$/.test(text) ? Number(text) : text];
      return [name, text];
    }),
  );
}

function parseHeaders(text: string, report: FaultReport): unknown {
  if (text === '') return undefined;
  try {
    return JSON.parse(text);
  } catch {
    report('headers', 'must be JSON, an object, like {"X-Site":"north"}');
    return undefined;
  }
}

const TEXT = 'is not a field here: the text is called plain (and HTML html)';
const HTML = 'is not a field here: HTML is called html';
const SUBJECT = 'is not a field here: it is called subject';
const RECIPIENT = 'is not a field here: recipients are called to, cc and bcc';
const COPY = 'is not a field here: these recipients are called cc or bcc';
const SENDER =
  'is not a field here: the sender is called from, with its name, like "Pump 3 <pump@example.com>"';
const REPLY = 'is not a field here: it is called reply_to';
const ENVELOPE = 'is not supported: bounces go to the sender, which is called from';
const THREAD = 'is not a field here: it is one of the headers, like {"headers":{"In-Reply-To":"<id>"}}';
const HEADERS = 'is not a field here: it is called headers';
const FILES =
  'is not a field here: JSON has files in attachments, and a form (multipart/form-data) in parts with a filename';
const READY_MADE = 'is not supported: send subject, plain and html';
const LATER = 'is not supported: a message is sent as soon as the link allows';

/** The hints, by plainName(). */
const HINTS: ReadonlyMap<string, string> = new Map(
  (
    [
      [TEXT, 'text body content contents msg textbody bodytext plaintext textplain bodyplain textcontent'],
      [HTML, 'htmlbody bodyhtml texthtml htmltext htmlcontent htmlpart'],
      [SUBJECT, 'subjectline mailsubject'],
      [RECIPIENT, 'to tos recipient recipients receiver receivers rcpt rcptto mailto destinations'],
      [RECIPIENT, 'toaddress toaddresses toemail torecipients toname'],
      [COPY, 'cc bcc ccaddress ccaddresses bccaddress bccaddresses ccrecipients bccrecipients'],
      [SENDER, 'from sender fromaddress fromemail fromname sendername senderaddress senderemail'],
      [ENVELOPE, 'mailfrom envelope envelopefrom returnpath'],
      [REPLY, 'replyto replytoaddress replytoaddresses replytolist'],
      [THREAD, 'inreplyto references'],
      [HEADERS, 'header headers customheaders extraheaders additionalheaders internetmessageheaders'],
      [FILES, 'attachment attachments attach file files inline inlineattachments inlineimages'],
      [READY_MADE, 'raw mime rfc822 eml amp amphtml markdown alternatives icalevent calendar'],
      [READY_MADE, 'template templateid templatename templatedata dynamictemplatedata personalizations'],
      [LATER, 'sendat sendlater scheduledat deliverat deliverytime'],
    ] as const
  ).flatMap(([hint, words]) => words.split(' ').map((word): [string, string] => [word, hint])),
);

/** The hints for a message that is no mail, and has one recipient. */
const SHORT_HINTS: ReadonlyMap<string, string> = new Map([
  [TEXT, 'is not a field here: the text is called message'],
  [RECIPIENT, 'is not a field here: the one recipient is called destination; post one message for each'],
  [COPY, 'is not a field here: post one message for each recipient'],
  [SENDER, 'is not a field here: only an email has a sender'],
  [ENVELOPE, 'is not a field here: only an email has a sender'],
  [REPLY, 'is not a field here: only an email has it'],
  [FILES, 'is not a field here: only an email has files'],
  [THREAD, 'is not a field here: only an email has headers'],
  [HEADERS, 'is not a field here: only an email has headers'],
]);

/**
 * Why a field that is not among `known` is refused: other mailers have it, or it is a known name in another spelling.
 * Null: it can be ignored.
 */
export function mailWordFault(name: string, known: ReadonlySet<string>): string | null {
  const plain = plainName(name);
  for (const ours of known) if (plainName(ours) === plain) return `is written ${ours}`;
  const hint = HINTS.get(plain);
  if (hint === undefined) return null;
  return known.has('message') ? (SHORT_HINTS.get(hint) ?? hint) : hint;
}

/** `Reply-To`, `reply_to` and `replyTo` are one word. */
function plainName(name: string): string {
  return name.toLowerCase().replace(/[^a-z0-9]/g, '');
}
