/**
 * Validates posted JSON and makes drafts of it. It reports every fault of every message at its JSON Pointer.
 * Pure.
 */
import { Buffer } from 'node:buffer';
import { type Fault, FieldpostError } from '../../base/errors.js';
import { isJsonObject, type JsonObject } from '../../base/json.js';
import { EXPIRES_IN_MS_MAX, KIB, SECOND_MS, SMS_CHARS_MAX, SUBJECT_CHARS_MAX } from '../../base/limits.js';
import { hasControl } from '../../base/text.js';
import { type FaultReport, isEmpty, isGiven, isSet, mailWordFault, textOf } from './fields.js';
import { type HeadTerms, hasRecipientLists, parseHead } from './mail-head.js';
import {
  type Draft,
  type EmailDraft,
  isMessageType,
  type MessageType,
  NO_ATTACHMENTS,
  recipientFault,
  type ShortContent,
  type ShortDraft,
  TYPE_FAULT,
} from './message.js';

export const APP_DATA_BYTES_MAX = 4 * KIB;

const COMMON_FIELDS = ['type', 'destination', 'priority', 'expires_in_s'];
const HEAD_FIELDS = ['to', 'cc', 'bcc', 'from', 'reply_to', 'headers'];
const EMAIL_FIELDS = [...COMMON_FIELDS, 'subject', 'plain', 'html', ...HEAD_FIELDS];
const SHORT_FIELDS = [...COMMON_FIELDS, 'message'];
const KNOWN_FIELDS: Readonly<Record<MessageType, ReadonlySet<string>>> = {
  1: new Set(EMAIL_FIELDS),
  2: new Set(SHORT_FIELDS),
  3: new Set(SHORT_FIELDS),
  4: new Set([...SHORT_FIELDS, 'title', 'auto_open', 'app_data']),
};
const TYPE_NAMES: Readonly<Record<MessageType, string>> = { 1: 'email', 2: 'SMS', 3: 'phone', 4: 'push' };

/** The settings that limit what is accepted. */
export interface DraftLimits extends Pick<HeadTerms, 'mayBeFrom' | 'homeOf'> {
  readonly maxBatch: number;
  /** Null: without a cloud only emails can be delivered. */
  readonly cloud: object | null;
}

/**
 * The drafts of a parsed JSON body. Null counts as absent, as many serialisers write it. Throws malformed-request (not a
 * non-empty array), too-large (more than `maxBatch` messages), and invalid with all faults; those of types that cannot be
 * delivered come last.
 */
export function parseDrafts(body: unknown, limits: DraftLimits): Draft[] {
  if (!Array.isArray(body) || body.length === 0) {
    throw new FieldpostError('malformed-request', 'The body must be a JSON array of one or more messages', {
      hint: 'put the message in brackets, like [{"type":1,"destination":"a@example.com","subject":"Hi"}]',
    });
  }
  if (body.length > limits.maxBatch) {
    throw new FieldpostError(
      'too-large',
      `${body.length} messages in one request are more than the limit of ${limits.maxBatch} (FIELDPOST_MAX_BATCH)`,
      { hint: 'send them in several requests' },
    );
  }
  const drafts: Draft[] = [];
  const faults: Fault[] = [];
  const undeliverable: Fault[] = [];
  for (const [index, fields] of body.entries()) {
    const report: FaultReport = (field, detail, member) => {
      const names = [field, member ?? ''].filter((name) => name !== '');
      faults.push({ pointer: [`/${index}`, ...names.map(pointed)].join('/'), detail });
    };
    const type = parseMessageType(fields, report);
    if (type === 1) drafts.push(parseEmail(fields, limits, report));
    else if (type !== null) {
      drafts.push(parseShortMessage(type, fields, report));
      if (limits.cloud !== null) continue;
      undeliverable.push({
        pointer: `/${index}/type`,
        detail: `${TYPE_NAMES[type]} messages go through a cloud, and none is configured (FIELDPOST_CLOUD)`,
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
export function parseEmail(fields: JsonObject, terms: HeadTerms, report: FaultReport): EmailDraft {
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
    attachments: NO_ATTACHMENTS,
    ignored: unknownFields(fields, 1, report),
    ...urgencyOf(fields, report),
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
    ignored: unknownFields(fields, type, report),
    ...urgencyOf(fields, report),
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
function unknownFields(fields: JsonObject, type: MessageType, report: FaultReport): readonly string[] {
  const known = KNOWN_FIELDS[type];
  return Object.keys(fields).filter((name) => {
    if (known.has(name)) return false;
    const fault = isEmpty(fields[name]) ? null : mailWordFault(name, known);
    if (fault !== null) report(name, fault);
    return fault === null;
  });
}
