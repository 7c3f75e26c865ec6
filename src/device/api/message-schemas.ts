/**
 * The schemas of messages: as programs post them, and as the daemon shows them.
 */
import {
  FORM_FIELD_BYTES_MAX,
  SECOND_MS,
  SMS_CHARS_MAX,
  SUBJECT_CHARS_MAX,
  SUBJECT_KEPT_CHARS_MAX,
} from '../../base/limits.js';
import { STATUSES } from '../../base/views.js';
import {
  EXPIRES_IN_MS_MAX,
  HEADER_VALUE_OCTETS_MAX,
  MAIL_RECIPIENTS_MAX,
  OWN_HEADERS_MAX,
} from '../../mail/mail-limits.js';
import { count, flag, ignored, instant, listOf, orNull, record, ref, text } from './schema.js';

export const messageType = {
  type: 'integer',
  enum: [1, 2, 3, 4],
  description: '1 email, 2 SMS, 3 phone, 4 push',
};
const address = { ...text, description: 'email address' };
const number = { ...text, description: 'E.164 number, like +15551234567' };
const mailbox = { ...text, description: 'address, or Name <address>' };
const mailboxes = { type: 'array', items: mailbox, maxItems: MAIL_RECIPIENTS_MAX };
const recipients = { ...orNull(mailboxes), description: 'to, cc and bcc have at most 100 recipients in all' };
/** In a form. */
const addresses = {
  ...mailboxes,
  items: { ...mailbox, description: 'address, or Name <address>; or several, separated by commas' },
};
const subject = { ...text, maxLength: SUBJECT_CHARS_MAX };
const spoken = { ...text, minLength: 1 };

/** The priorities of a message. */
export const PRIORITIES = ['normal', 'high'];

const priority = {
  ...text,
  enum: PRIORITIES,
  description: 'high: it goes before all that is not, and 5 % of the queue are kept for it',
};
const expiresInS = {
  ...count,
  minimum: 1,
  maximum: EXPIRES_IN_MS_MAX / SECOND_MS,
  description: 'at this age it expires, with or without an attempt; the age of the settings holds, too',
};
const from = { ...text, description: 'an address that FIELDPOST_FROM_ALLOWED allows, or Name <address>' };
const headers = {
  type: 'object',
  additionalProperties: { ...text, minLength: 1, maxLength: HEADER_VALUE_OCTETS_MAX },
  maxProperties: OWN_HEADERS_MAX,
  description: 'X-…, References, In-Reply-To, List-…, Auto-Submitted',
};

/** The fields of every kind. */
const common = {
  priority: { ...orNull(priority), enum: [...PRIORITIES, null] },
  expires_in_s: orNull(expiresInS),
};

/** An email needs a recipient in one of these fields. */
const anyRecipient = ['destination', 'to', 'cc', 'bcc'].map((name) => ({ required: [name] }));

/** One kind of posted message. Unknown fields are allowed. */
function kind(type: number, description: string, fields: object, required: readonly string[]) {
  return {
    type: 'object',
    description,
    required: ['type', ...required],
    properties: { type: { type: 'integer', const: type }, ...fields },
  };
}

function short(type: number, description: string, destination: object, fields: object) {
  const all = { destination, message: spoken, ...common, ...fields };
  return kind(type, description, all, ['destination', 'message']);
}

/** The kinds of posted messages, by their type. */
const KINDS = { 1: 'Email', 2: 'Sms', 3: 'Phone', 4: 'Push' };

const mapping = Object.fromEntries(
  Object.entries(KINDS).map(([type, name]) => [type, `#/components/schemas/${name}`]),
);

export const MESSAGE_SCHEMAS = {
  Drafts: { type: 'array', minItems: 1, items: ref('Draft') },
  Draft: {
    description:
      'Unknown fields are ignored and named in the answer; those of other mailers (text, attachments …) are a 422.',
    oneOf: Object.values(KINDS).map(ref),
    discriminator: { propertyName: 'type', mapping },
  },
  Email: {
    ...kind(
      1,
      'Needs a recipient, and a subject, plain or html.',
      {
        destination: orNull(address),
        subject: orNull(subject),
        plain: orNull(text),
        html: orNull(text),
        to: recipients,
        cc: recipients,
        bcc: recipients,
        from: orNull(from),
        reply_to: { ...mailboxes, type: ['array', 'string', 'null'], description: 'where answers go' },
        headers: orNull(headers),
        ...common,
      },
      [],
    ),
    anyOf: anyRecipient,
  },
  Sms: short(2, 'An SMS.', number, { message: { ...spoken, maxLength: SMS_CHARS_MAX } }),
  Phone: short(3, 'A phone call, which speaks the message.', number, {}),
  Push: short(
    4,
    'A push message.',
    { ...text, description: 'email address, or a placeholder in upper case that the cloud resolves' },
    {
      title: orNull(text),
      auto_open: orNull(flag),
      app_data: { description: 'any JSON, at most 4 KiB' },
    },
  ),
  Form: {
    type: 'object',
    anyOf: anyRecipient,
    description:
      'One email: needs a recipient, and a subject, plain or html. A part with a filename, or with another Content-Type than text, is a file, under whatever name; text is UTF-8, or what its part says. Other fields are ignored and named in the answer.',
    properties: {
      type: { const: '1' },
      destination: address,
      subject,
      plain: { ...text, maxLength: FORM_FIELD_BYTES_MAX },
      html: { ...text, maxLength: FORM_FIELD_BYTES_MAX },
      to: addresses,
      cc: addresses,
      bcc: addresses,
      from,
      reply_to: addresses,
      headers,
      priority,
      expires_in_s: expiresInS,
      file: listOf({ ...text, contentMediaType: 'application/octet-stream' }),
    },
  },
  ReadyMade: {
    ...text,
    contentMediaType: 'message/rfc822',
    description: 'One email as RFC 5322 has it, with its headers. The query has its envelope.',
  },
  Accepted: listOf(
    record({ id: text, type: messageType, destination: text, status: { const: 'queued' }, ignored }, [
      'ignored',
    ]),
  ),
  Message: record({
    id: text,
    type: messageType,
    destination: text,
    from: { ...orNull(text), description: "an email's sender in the envelope; empty: the null sender" },
    subject: {
      ...orNull(text),
      maxLength: SUBJECT_KEPT_CHARS_MAX,
      description: "the beginning of an email's subject",
    },
    messageId: { ...orNull(text), description: 'the Message-ID of an email, without angle brackets' },
    size: { ...count, description: 'octets of the texts and files; of a ready-made mail all of it' },
    priority: { type: 'string', enum: PRIORITIES },
    status: { type: 'string', enum: STATUSES },
    final: { ...flag, description: 'true: nothing more happens to it by itself' },
    acceptedAt: instant,
    sentAt: { ...orNull(instant), description: 'when the relay or the cloud took it' },
    attempts: count,
    lastReply: orNull(text),
    nextAttemptAt: orNull(instant),
    attachments: listOf(record({ name: text, type: text, size: count })),
  }),
  Page: record({ messages: listOf(ref('Message')), next: orNull(text) }),
};
