/**
 * The shapes of what the journal and the snapshots hold. A right checksum says that the bytes are those that were written.
 * It does not say that this program, without a fault, has written them. A file that has another shape is damaged. The
 * members that a newer minor version adds are not looked at. Pure.
 */
import { isJsonObject, mapOf, type Shape, shapeOf } from '../../base/json.js';
import { BOOK, BOOK_EVENTS } from '../book/book.js';
import type { EmailContent, Message, ReadyMadeContent, ShortContent } from '../message/message.js';
import type { StoreEvent } from './event.js';

/** The names of a sample's members. */
function namesOf(sample: object): ReadonlySet<string> {
  return new Set(Object.keys(sample).map((key) => key.replace('?', '')));
}

/** The name of a file in the spool. */
export const FILE_NAME = /^[0-9a-f]{20}$/;
// The clock may give fractions, and a time before 1970.
const TIME = 0.5;
const STAMP = { boot: '', bootMs: TIME };
const ATTACHMENT = {
  // It becomes part of a path.
  id: (value: unknown) => typeof value === 'string' && FILE_NAME.test(value),
  ...{ name: '', type: '', size: 0, crc: 0, 'cid?': '' },
};
const EXTRAS = {
  ...{ 'mail?': '', 'messageId?': '', 'lifeMs?': TIME, 'caller?': '', 'notice?': '' },
  ...{ 'isReadyMade?': true, 'urgent?': true, 'onlySends?': true },
  ...{ 'collapse?': '', 'counts?': true, 'replaced?': 0 },
};
const CONTENT = {
  ...{ id: '', length: 0, crc: 0, 'shares?': true, 'from?': '', 'subject?': '' },
  ...{ 'extras?': EXTRAS, 'attachments?': [ATTACHMENT] },
};
const ACCEPTED = { ...CONTENT, type: 0, destination: '' };
/** The members that this version knows. */
export const ACCEPTED_MEMBERS = namesOf(ACCEPTED);
const OUTCOME = { id: '', attempts: 0, reply: '', 'reachMs?': TIME };
const END = { ...OUTCOME, at: STAMP };

const EVENTS = {
  boot: { boot: '', startMs: TIME, 'confirmed?': true },
  accepted: {
    ...{ at: STAMP, reachMs: TIME, 'key?': '', 'hash?': '', 'full?': true },
    messages: [ACCEPTED],
  },
  deferred: { ...OUTCOME, due: STAMP },
  sent: { ...END, 'relay?': '' },
  failed: END,
  expired: END,
  cancelled: { id: '', at: STAMP },
  replaced: { id: '', by: '', at: STAMP, 'count?': 0 },
  retried: { id: '', at: STAMP, reachMs: TIME },
  flushed: {},
  held: { held: true },
  relocated: {
    messages: [{ ...CONTENT, 'type?': 0, 'destination?': '', 'at?': STAMP, 'reachMs?': TIME }],
  },
  purged: {},
  dropped: { ids: [''] },
  ...BOOK_EVENTS,
} satisfies Readonly<Record<StoreEvent['e'], object>>;

const SHAPES = new Map(Object.entries(EVENTS).map(([e, sample]) => [e, shapeOf(sample)]));

/** An event, or one of a newer version. */
const isEvent: Shape = (value) => {
  const e = isJsonObject(value) ? value.e : null;
  return typeof e === 'string' && (SHAPES.get(e)?.(value) ?? true);
};

/** The payload of a record. The head of a segment has two members more. */
export const isPayload = shapeOf({
  ...{ synced: 0, events: [isEvent], 'store?': '', 'follows?': { segment: 0, upTo: 0 } },
});

const OWN = {
  ...{ 'attachments?': [ATTACHMENT], 'extras?': EXTRAS, 'attempts?': 0, 'reply?': '' },
  ...{ 'retried?': STAMP, 'failed?': STAMP, 'sent?': STAMP, 'due?': STAMP },
  'replacedBy?': '',
};
export const OWN_MEMBERS = namesOf(OWN);
/** The eleventh member of a row. */
export const isOwn = shapeOf(OWN);

/** What is different from here on, in format 1. */
export const isOldChange = shapeOf({
  ...{ ...OWN, 'boot?': '', 'type?': 0, 'to?': '', 'from?': '', 'subject?': '', 'reachMs?': TIME },
  ...{ 'status?': '', 'textBytes?': 0 },
});
const OLD_ROW = ['', TIME] as const;
const isPlainOldRow = shapeOf(OLD_ROW);
const isPlacedOldRow = shapeOf([...OLD_ROW, 0, 0, 0, 0]);
/** A message in format 1. */
export const isOldRow = (row: readonly unknown[]) =>
  row.length === OLD_ROW.length ? isPlainOldRow(row) : isPlacedOldRow(row);

const DOCUMENT = {
  ...{ storeId: '', counter: 0, 'held?': true, 'reachMs?': TIME, book: BOOK },
  boots: mapOf({ startMs: TIME, 'confirmed?': true }),
  keys: [{ key: '', hash: '', ids: [''], at: STAMP, 'full?': true }],
  'sentBy?': mapOf([[0, '', TIME]]),
  'unknownEvents?': [isEvent],
  'kinds?': [{ type: 0, status: '', boot: '', 'from?': '' }],
  'untold?': [''],
  'orders?': { 'deferred?': [''], 'kept?': [''], 'finished?': [''] },
};
// Format 1 had an index of its lines.
export const DOCUMENT_MEMBERS = new Set([...namesOf(DOCUMENT), 'format', 'messages', 'index']);
/** A document but for its messages. */
export const isDocument = shapeOf(DOCUMENT);

const MAILBOXES = [{ name: '', address: '' }];
const HEAD = {
  'fromName?': '',
  'to?': MAILBOXES,
  'cc?': MAILBOXES,
  'replyTo?': MAILBOXES,
  'headers?': [['', '']],
};
const never: Shape = () => false;
// All members may be missing: the content of another message is no empty mail.
const isMail = shapeOf({
  'message?': never,
  'missing?': never,
  'subject?': '',
  'plain?': '',
  'html?': '',
  'head?': HEAD,
});
const isReadyMade = shapeOf({
  'subject?': '',
  missing: [''],
  'fromName?': '',
  'hasOwnFrom?': true,
  'fromHeader?': '',
});
const any: Shape = () => true;
const isShort = shapeOf({ message: '', 'title?': '', 'auto_open?': true, 'app_data?': any });

/** A content of such a message. Empty members of a mail may be left out. */
export function isContentOf(
  { type, extras }: Pick<Message, 'type' | 'extras'>,
  value: unknown,
): value is Partial<EmailContent> | ReadyMadeContent | ShortContent {
  const isContent = type !== 1 ? isShort : extras?.isReadyMade ? isReadyMade : isMail;
  return isContent(value);
}
