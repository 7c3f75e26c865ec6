/**
 * Validates posted messages and makes drafts of them: their texts, who gets a mail, who sends it, and headers of its own. It
 * reports every fault of every message at its JSON Pointer. Pure.
 */
import { Buffer } from 'node:buffer';
import { type Fault, FieldpostError } from '../../base/errors.js';
import { isJsonObject, type JsonObject } from '../../base/json.js';
import {
  EXPIRES_IN_MS_MAX,
  HEADER_NAME_CHARS_MAX,
  HEADER_VALUE_OCTETS_MAX,
  KIB,
  MAIL_RECIPIENTS_MAX,
  OWN_HEADERS_MAX,
  SECOND_MS,
  SMS_CHARS_MAX,
  SUBJECT_CHARS_MAX,
} from '../../base/limits.js';
import { cut, hasControl, hasLoneSurrogate, oneSpaced, visible } from '../../base/text.js';
import { type Address, recipientKey } from './address.js';
import { type FaultReport, isEmpty, isGiven, isSet, mailWordFault, TEXT_FIELDS, textOf } from './fields.js';
import { type Mailbox, type MailboxList, parseMailbox, parseMailboxes } from './mailbox.js';
import {
  type Attachment,
  COLLAPSE_FAULT,
  type Draft,
  type EmailDraft,
  isCollapseKey,
  isMessageType,
  type MailHead,
  type MessageType,
  NO_ATTACHMENTS,
  recipientFault,
  type ShortContent,
  type ShortDraft,
  TYPE_FAULT,
} from './message.js';

export const APP_DATA_BYTES_MAX = 4 * KIB;

const COMMON_FIELDS = ['type', 'destination', 'priority', 'expires_in_s', 'collapse_key'];
const SHORT_FIELDS = [...COMMON_FIELDS, 'message'];
const KNOWN_FIELDS: Readonly<Record<MessageType, ReadonlySet<string>>> = {
  1: new Set(TEXT_FIELDS),
  2: new Set(SHORT_FIELDS),
  3: new Set(SHORT_FIELDS),
  4: new Set([...SHORT_FIELDS, 'title', 'auto_open', 'app_data']),
};
const EMAIL_WITH_FILES: ReadonlySet<string> = new Set([...TEXT_FIELDS, 'attachments']);
const SHORT_NAMES = { 2: 'SMS', 3: 'phone', 4: 'push' } as const;

/** The settings that limit what is accepted. */
export interface DraftLimits extends Pick<EmailTerms, 'mayBeFrom' | 'homesOf' | 'filesOf'> {
  readonly maxBatch: number;
  /** Null: without a cloud only emails can be delivered. */
  readonly cloud: object | null;
}

/**
 * The drafts of a parsed JSON body: one message, or an array of messages. Null counts as absent, as many serialisers write
 * it. Throws malformed-request (neither, or an empty array), too-large (more than `maxBatch` messages), and invalid with
 * all faults; those of types that cannot be delivered come last.
 */
export function parseDrafts(body: unknown, limits: DraftLimits): Draft[] {
  const isOne = isJsonObject(body);
  const messages: unknown = isOne ? [body] : body;
  if (!Array.isArray(messages) || messages.length === 0) {
    throw new FieldpostError('malformed-request', 'The body must be a message, or an array of one or more', {
      hint: 'a message is a JSON object, like {"type":1,"destination":"a@example.com","subject":"Hi"}',
    });
  }
  if (messages.length > limits.maxBatch) {
    throw new FieldpostError(
      'too-large',
      `${messages.length} messages in one request are more than the limit of ${limits.maxBatch} (FIELDPOST_MAX_BATCH)`,
      { hint: 'send them in several requests' },
    );
  }
  const drafts: Draft[] = [];
  const faults: Fault[] = [];
  const undeliverable: Fault[] = [];
  for (const [index, fields] of messages.entries()) {
    const root = isOne ? '' : `/${index}`;
    const report: FaultReport = (field, detail, member) => {
      const names = [field, member ?? ''].flat().filter((name) => name !== '');
      faults.push({ pointer: [root, ...names.map(pointed)].join('/'), detail });
    };
    const type = parseMessageType(fields, report);
    if (type === 1) drafts.push(parseEmail(fields, limits, report));
    else if (type !== null) {
      drafts.push(parseShortMessage(type, fields, report));
      if (limits.cloud !== null) continue;
      undeliverable.push({
        pointer: `${root}/type`,
        detail: `${SHORT_NAMES[type]} messages go through a cloud, and none is configured (FIELDPOST_CLOUD)`,
      });
    }
  }
  faults.push(...undeliverable);
  if (faults.length > 0) throw invalidMessage(faults);
  return drafts;
}

/** A name as JSON Pointer has it (RFC 6901 §3). */
function pointed(name: string | number): string {
  return String(name).replaceAll('~', '~0').replaceAll('/', '~1');
}

/** The error that refuses a request for the faults of its fields. */
export function invalidMessage(faults: readonly Fault[]): FieldpostError {
  const count = faults.length === 1 ? 'One fault' : `${faults.length} faults`;
  return new FieldpostError('invalid', `${count} found, nothing was queued; see errors`, { faults });
}

/** The type of a message; null if it has none, which is reported. */
function parseMessageType(fields: unknown, report: FaultReport): MessageType | null {
  if (!isJsonObject(fields)) {
    report('', 'must be an object, a message');
    return null;
  }
  const { type, destination } = fields;
  if (isMessageType(type)) return type;
  report('type', TYPE_FAULT);
  // Without a type only this much of the destination can be checked.
  if (typeof destination !== 'string' && !hasRecipientLists(fields)) {
    report('destination', 'is required and must be a string');
  }
  return null;
}

/**
 * The draft of an email, valid only if nothing is reported. Faults go to `report` with the field's name, or '' for the
 * whole message.
 */
export function parseEmail(fields: JsonObject, terms: EmailTerms, report: FaultReport): EmailDraft {
  const { head, ...envelope } = parseHead(fields, terms, report);
  const subject = textOf(fields, 'subject', report);
  if (hasControl(subject)) report('subject', 'must not contain line breaks or other control characters');
  if (isLonger(subject, SUBJECT_CHARS_MAX)) {
    report('subject', `must not be longer than ${SUBJECT_CHARS_MAX} characters`);
  }
  const plain = withCrlf(textOf(fields, 'plain', report));
  const html = withCrlf(textOf(fields, 'html', report));
  if (!isSet(fields.subject) && !isSet(fields.plain) && !isSet(fields.html)) {
    report('', 'needs at least one of subject, plain and html to be non-empty');
  }
  return {
    type: 1,
    ...envelope,
    content: { subject, plain, html, ...(head !== null && { head }) },
    attachments: terms.filesOf?.(fields.attachments, report) ?? NO_ATTACHMENTS,
    ignored: unknownFields(fields, terms.filesOf ? EMAIL_WITH_FILES : KNOWN_FIELDS[1], report),
    ...urgencyOf(fields, report),
    ...collapseOf(fields, report),
  };
}

/** The draft of an SMS, a phone call or a push message. Faults are reported as those of an email. */
export function parseShortMessage(type: 2 | 3 | 4, fields: JsonObject, report: FaultReport): ShortDraft {
  const fault = recipientFault(type, fields.destination);
  if (fault !== null) report('destination', fault);
  const message = textOf(fields, 'message', report);
  if (!isSet(fields.message)) report('message', 'is required and must not be empty');
  if (type === 2 && isLonger(message, SMS_CHARS_MAX)) {
    report('message', `must not be longer than ${SMS_CHARS_MAX} characters in an SMS`);
  }
  return {
    type,
    destination: fields.destination as string,
    content: { message, ...(type === 4 && pushContent(fields, report)) },
    attachments: NO_ATTACHMENTS,
    ignored: unknownFields(fields, KNOWN_FIELDS[type], report),
    ...urgencyOf(fields, report),
    ...collapseOf({ collapse_key: fields.collapse_key }, report),
  };
}

/** The members that only a push message has. */
function pushContent(fields: JsonObject, report: FaultReport): Omit<ShortContent, 'message'> {
  const { auto_open: autoOpen, app_data: appData } = fields;
  const title = textOf(fields, 'title', report);
  if (isGiven(autoOpen) && typeof autoOpen !== 'boolean') {
    report('auto_open', 'must be true or false');
  }
  if (jsonBytes(appData) > APP_DATA_BYTES_MAX) {
    report('app_data', `must not be longer than ${APP_DATA_BYTES_MAX} bytes as JSON`);
  }
  return {
    ...(title !== '' && { title }),
    ...(typeof autoOpen === 'boolean' && { auto_open: autoOpen }),
    ...(isGiven(appData) && { app_data: appData }),
  };
}

/** How soon the message is sent, and how long it is of use. */
function urgencyOf(fields: JsonObject, report: FaultReport): Pick<Draft, 'urgent' | 'lifeMs'> {
  const { priority, expires_in_s: lifeS } = fields;
  if (isGiven(priority) && priority !== 'high' && priority !== 'normal') {
    report('priority', 'must be "high" or "normal"');
  }
  const hasLife = isGiven(lifeS);
  const lifeMs = typeof lifeS === 'number' && Number.isInteger(lifeS) ? lifeS * SECOND_MS : 0;
  if (hasLife && (lifeMs < SECOND_MS || lifeMs > EXPIRES_IN_MS_MAX)) {
    report('expires_in_s', `must be an integer from 1 to ${EXPIRES_IN_MS_MAX / SECOND_MS} (30 days)`);
  }
  return { ...(priority === 'high' && { urgent: true }), ...(hasLife && { lifeMs }) };
}

/** Which waiting messages it replaces. */
function collapseOf(fields: JsonObject, report: FaultReport): Pick<Draft, 'collapse' | 'counts'> {
  const { collapse_key: key, collapse_count: counts } = fields;
  const isKey = isCollapseKey(key);
  if (isGiven(key) && !isKey) report('collapse_key', COLLAPSE_FAULT);
  if (isGiven(counts) && typeof counts !== 'boolean') report('collapse_count', 'must be true or false');
  if (counts === true && !isGiven(key)) report('collapse_count', 'needs a collapse_key');
  return { ...(isKey && { collapse: key }), ...(isKey && counts === true && { counts }) };
}

/** Counts code points. */
function isLonger(text: string, limit: number): boolean {
  if (text.length <= limit) return false;
  return text.length > 2 * limit || [...text].length > limit;
}

/** The text with every line break, be it CRLF, LF or CR, as CRLF. CRs directly before an LF belong to it. */
function withCrlf(text: string): string {
  // Most texts of machines are one line: the look for a break is ten times as fast as the replacement.
  return text.includes('\n') || text.includes('\r') ? text.replace(/(?<!\r)\r*\n|\r/g, '\r\n') : text;
}

/** Bytes of the value as compact JSON; Infinity when it is nested too deeply to be written at all. */
function jsonBytes(value: unknown): number {
  if (value === undefined) return 0;
  try {
    return Buffer.byteLength(JSON.stringify(value));
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

/** The unknown fields. One that other mailers have is a fault, unless it is empty. */
function unknownFields(
  fields: JsonObject,
  known: ReadonlySet<string>,
  report: FaultReport,
): readonly string[] {
  return Object.keys(fields).filter((name) => {
    if (known.has(name)) return false;
    const fault = isEmpty(fields[name]) ? null : mailWordFault(name, known);
    if (fault !== null) report(name, fault);
    return fault === null;
  });
}

/** What the fields of a mail's head depend on. */
export interface HeadTerms {
  /** True if the client may take this address as its sender. */
  readonly mayBeFrom: (address: Address) => boolean;
  /** Where mail to this address goes: that to a user of this device goes to its readers. Empty: nobody reads it. */
  readonly homesOf: (address: Address) => readonly Address[];
  /** True: a text may hold several addresses, with commas between them, as in a form. */
  readonly takesCommas?: boolean | undefined;
}

/** What the fields of an email depend on. */
export interface EmailTerms extends HeadTerms {
  /** The files in `attachments`; left out where that is no field. */
  readonly filesOf?: (attachments: unknown, report: FaultReport) => readonly Attachment[];
}

type Addressed = Pick<EmailDraft, 'destination' | 'others' | 'from'> & { readonly head: MailHead | null };

const LISTS = ['to', 'cc', 'bcc'] as const;
const NO_RECIPIENT = 'is required, one email address, unless to, cc or bcc names the recipients';
const NO_HOME = 'is a user of this device, and FIELDPOST_LOCAL_MAIL names nobody who reads its mail';
const LIKE = 'john@example.com or John <john@example.com>';
/** The name beside an address. */
const MAILBOX_NAME_CHARS_MAX = 128;
/** Characters of a text that holds one address with its name, and of one that holds a list of them. */
const MAILBOX_CHARS_MAX = 2000;
const LIST_CHARS_MAX = MAIL_RECIPIENTS_MAX * 500;
/** Characters of a bad address that its fault quotes. */
const QUOTED_CHARS_MAX = 80;

/** True if the message names recipients in another field than `destination`. */
function hasRecipientLists(fields: JsonObject): boolean {
  return LISTS.some((name) => hasRecipients(fields[name]));
}

/** False for an empty list. What is no list is a fault. */
function hasRecipients(value: unknown): boolean {
  return isGiven(value) && !(Array.isArray(value) && value.length === 0);
}

/** The envelope and the head of a mail, valid only if nothing is reported. `head` is null if `destination` says it all. */
function parseHead(fields: JsonObject, terms: HeadTerms, report: FaultReport): Addressed {
  const { destination, to, cc, bcc } = recipientsOf(fields, terms, report);
  const from = senderOf(fields, terms, report);
  const replyTo = mailboxesOf(fields, 'reply_to', terms, report);
  const headers = ownHeaders(fields, report);
  const lists = to.length + cc.length + bcc.length > 0;
  const all = [...to, ...cc, ...bcc].map(({ address }) => address);
  const [first = destination, ...others] = lists ? all : [];
  const head: MailHead = {
    ...(from !== null && from.name !== '' && { fromName: from.name }),
    ...(from !== null && { hasOwnFrom: true }),
    ...(lists && { to }),
    ...(cc.length > 0 && { cc }),
    ...(replyTo.length > 0 && { replyTo }),
    ...(headers.length > 0 && { headers }),
  };
  return {
    destination: first,
    ...(others.length > 0 && { others }),
    ...(from !== null && { from: from.address }),
    head: Object.keys(head).length > 0 ? head : null,
  };
}

interface Recipients {
  readonly destination: Address;
  readonly to: readonly Mailbox[];
  readonly cc: readonly Mailbox[];
  readonly bcc: readonly Mailbox[];
}

/** All recipients once each, in the first field that names them. The lists are empty if only `destination` is given. */
function recipientsOf(fields: JsonObject, terms: HeadTerms, report: FaultReport): Recipients {
  const hasLists = hasRecipientLists(fields);
  const destinations = destinationsOf(fields, hasLists, terms, report);
  const destination = destinations[0] as Address;
  if (!hasLists && destinations.length < 2) return { destination, to: [], cc: [], bcc: [] };
  const seen = new Map<string, Mailbox>();
  let isFaulty = false;
  const [to, cc, bcc] = LISTS.map((name) => {
    const fail: FaultReport = (...fault) => {
      isFaulty = true;
      report(...fault);
    };
    const given = mailboxesOf(fields, name, terms, fail).flatMap((mailbox) => {
      const homes = terms.homesOf(mailbox.address);
      if (homes.length === 0) fail(name, `has ${mailbox.address}, which ${NO_HOME}`);
      return homes.map((address) => ({ ...mailbox, address }));
    });
    const first = name === 'to' ? destinations.map((address) => ({ name: '', address })) : [];
    return onceEach([...first, ...given], seen);
  }) as [Mailbox[], Mailbox[], Mailbox[]];
  // A form may bring a text of nothing but commas.
  if (seen.size === 0 && !isFaulty) report('destination', NO_RECIPIENT);
  const field = LISTS.find((name) => hasRecipients(fields[name])) ?? 'destination';
  if (seen.size > MAIL_RECIPIENTS_MAX)
    report(field, `must not make more than ${MAIL_RECIPIENTS_MAX} recipients in all`);
  return { destination, to, cc, bcc };
}

/** Empty if it is left out, which is reported unless there are lists. */
function destinationsOf(
  { destination }: JsonObject,
  hasLists: boolean,
  { homesOf }: HeadTerms,
  report: FaultReport,
): readonly Address[] {
  if (hasLists && !isSet(destination)) return [];
  const fault = !isGiven(destination) ? NO_RECIPIENT : recipientFault(1, destination);
  const homes = fault === null ? homesOf(destination as Address) : [];
  if (homes.length === 0) report('destination', fault ?? NO_HOME);
  return homes;
}

/** Those that are not in `seen`, which they then are. A name that comes later stays with its address. */
function onceEach(mailboxes: readonly Mailbox[], seen: Map<string, Mailbox>): Mailbox[] {
  const own = new Map<string, Mailbox>();
  for (const mailbox of mailboxes) {
    const key = recipientKey(mailbox.address);
    const before = own.get(key);
    if (before?.name === '' && mailbox.name !== '') own.set(key, { ...before, name: mailbox.name });
    else if (!seen.has(key)) own.set(key, mailbox);
    seen.set(key, mailbox);
  }
  return [...own.values()];
}

/** The sender that the client chose; null: none. */
function senderOf({ from }: JsonObject, { mayBeFrom }: HeadTerms, report: FaultReport): Mailbox | null {
  if (!isSet(from)) return null;
  const mailbox = typeof from === 'string' && from.length <= MAILBOX_CHARS_MAX ? parseMailbox(from) : null;
  if (mailbox === null) report('from', `must be a string, one address, like ${LIKE}`);
  else if (!mayBeFrom(mailbox.address))
    report('from', 'may only be an allowed sender; see FIELDPOST_FROM_ALLOWED');
  else checkName(mailbox, (detail) => report('from', detail));
  return mailbox;
}

/** The mailboxes in a field: an array of texts, or one text in reply_to. */
function mailboxesOf(fields: JsonObject, name: string, terms: HeadTerms, report: FaultReport): Mailbox[] {
  const value = fields[name];
  if (!(name === 'reply_to' ? isSet(value) : isGiven(value))) return [];
  const texts: unknown = name === 'reply_to' && typeof value === 'string' ? [value] : value;
  if (!Array.isArray(texts)) {
    report(name, `must be an array of addresses, each like ${LIKE}`);
    return [];
  }
  const found: Mailbox[] = [];
  let faults = 0;
  for (const [index, text] of texts.entries()) {
    const fail = (detail: string) => {
      faults++;
      report(name, detail, index);
    };
    const { mailboxes, fault } = terms.takesCommas && typeof text === 'string' ? allOf(text) : oneOf(text);
    if (fault !== null) fail(fault);
    for (const mailbox of mailboxes) checkName(mailbox, fail);
    found.push(...mailboxes);
    // More would only make the answer long.
    if (faults > MAIL_RECIPIENTS_MAX) break;
  }
  if (name === 'reply_to' && found.length > MAIL_RECIPIENTS_MAX) {
    report(name, `must not have more than ${MAIL_RECIPIENTS_MAX} addresses`);
  }
  return found;
}

/** A text that holds a list of mailboxes. */
function allOf(text: string): MailboxList {
  if (text.length <= LIST_CHARS_MAX) return parseMailboxes(text);
  return { mailboxes: [], fault: `must not have more than ${LIST_CHARS_MAX} characters` };
}

/** A text that holds exactly one mailbox. */
function oneOf(text: unknown): MailboxList {
  if (typeof text !== 'string') return { mailboxes: [], fault: `must be a string, like ${LIKE}` };
  // Measured first: to parse 900 KB takes a second.
  const mailbox = text.length > MAILBOX_CHARS_MAX ? null : parseMailbox(text);
  if (mailbox !== null) return { mailboxes: [mailbox], fault: null };
  const quoted = JSON.stringify(visible(cut(text, QUOTED_CHARS_MAX)));
  return { mailboxes: [], fault: `must be exactly one email address, like ${LIKE}; ${quoted} is not` };
}

function checkName({ name }: Mailbox, fail: (detail: string) => void): void {
  if (name.length > MAILBOX_NAME_CHARS_MAX) {
    fail(`has a name longer than ${MAILBOX_NAME_CHARS_MAX} characters beside its address`);
  }
}

const HEADER_NAME = /^(?:X-[!-9;-~]+|References|In-Reply-To|List-[!-9;-~]+|Auto-Submitted)$/i;
const HEADERS_IN_WORDS = 'X-…, References, In-Reply-To, List-… or Auto-Submitted';

/** The headers of the client's own, in their order. Faults are reported. */
function ownHeaders({ headers }: JsonObject, report: FaultReport): NonNullable<MailHead['headers']> {
  if (!isGiven(headers)) return [];
  if (!isJsonObject(headers)) {
    report('headers', 'must be an object, like {"X-Site":"north"}');
    return [];
  }
  const entries = Object.entries(headers);
  if (entries.length > OWN_HEADERS_MAX) {
    report('headers', `must not have more than ${OWN_HEADERS_MAX} members`);
    return [];
  }
  const seen = new Set<string>();
  return entries.flatMap(([name, value]) => {
    const fault = seen.has(name.toLowerCase()) ? 'is there twice' : nameFault(name);
    seen.add(name.toLowerCase());
    const fail = (detail: string) => {
      report('headers', detail, name);
      return [];
    };
    if (fault !== null) return fail(fault);
    // What is no string has no text: to make one of it may throw.
    if (typeof value !== 'string') return fail('must be a string');
    const badText = valueFault(name, value);
    return badText === null ? [[name, isText(name) ? value : oneSpaced(value)]] : fail(badText);
  });
}

function nameFault(name: string): string | null {
  if (name.length > HEADER_NAME_CHARS_MAX)
    return `has a name longer than ${HEADER_NAME_CHARS_MAX} characters`;
  return HEADER_NAME.test(name) ? null : `is not among the allowed headers: ${HEADERS_IN_WORDS}`;
}

function valueFault(name: string, value: string): string | null {
  if (value.trim() === '') return 'must not be empty';
  if (hasControl(value)) return 'must not contain line breaks or other control characters';
  if (hasLoneSurrogate(value)) return 'contains half a surrogate pair, which is not a character';
  if (Buffer.byteLength(value) > HEADER_VALUE_OCTETS_MAX) {
    return `must not be longer than ${HEADER_VALUE_OCTETS_MAX} octets`;
  }
  return isText(name) || /^[ -~]+$/.test(value) ? null : 'must be ASCII';
}

/** True for a header that is text for people. The others have a syntax, which encoded words would break. */
function isText(name: string): boolean {
  return /^x-/i.test(name);
}
