/**
 * What a message is. Values only: the store keeps them, the api shows them, delivery sends them.
 */
import type { JsonObject } from '../../base/json.js';
import type { Stamp } from '../../base/stamp.js';
import { STATUSES, type Status } from '../../base/views.js';
import { type Address, domainOf, parseAddress, recipientKey, withALabel } from './address.js';
import type { Mailbox } from './mailbox.js';

/** 1 email, 2 SMS, 3 phone, 4 push. */
export type MessageType = 1 | 2 | 3 | 4;

/** The text of an email; line breaks are CRLF. */
export interface EmailContent {
  readonly subject: string;
  readonly plain: string;
  readonly html: string;
  /** Left out if the mail has one recipient, the device's sender, and no headers of its own. */
  readonly head?: MailHead;
}

/** What the header section of an email says beside subject and date. */
export interface MailHead {
  /** The name beside the sender's address. */
  readonly fromName?: string;
  /** True: the client chose the sender, so no other takes its place. */
  readonly hasOwnFrom?: true;
  /** Left out: the one recipient. Empty: all recipients are blind. */
  readonly to?: readonly Mailbox[];
  readonly cc?: readonly Mailbox[];
  readonly replyTo?: readonly Mailbox[];
  /** Further headers; each value is one line. */
  readonly headers?: readonly (readonly [name: string, value: string])[];
}

/** The text of an SMS, a phone call or a push message. Clients and the cloud use the same names. */
export interface ShortContent {
  readonly message: string;
  readonly title?: string;
  readonly auto_open?: boolean;
  /** Any JSON. */
  readonly app_data?: unknown;
}

/** What is kept of a ready-made mail beside its file. */
export interface ReadyMadeContent {
  /** As people read it. */
  readonly subject: string;
  /** Headers that the mail lacks: they are put in front of it. */
  readonly missing: readonly Missing[];
  /** The name beside the sender's address, if From is missing. */
  readonly fromName?: string;
  /** True: the client chose the sender, so no other takes its place. */
  readonly hasOwnFrom?: true;
  /** Its From header for people, if it is not the device's own: a relay may refuse it. */
  readonly fromHeader?: string;
}

/** What is in a message. It stays on disk until it is sent. */
export type Content = EmailContent | ReadyMadeContent | ShortContent;

/** A file that goes with an email, and its file in the spool. */
export interface Attachment {
  /** The random name of the file in the spool. */
  readonly id: string;
  /** As the client named it. */
  readonly name: string;
  /** The media type. */
  readonly type: string;
  /** Octets. */
  readonly size: number;
  /** CRC-32 of the octets. */
  readonly crc: number;
  /** Its Content-ID without the angle brackets, if it has one: HTML shows the file as `cid:…` (RFC 2392). */
  readonly cid?: string;
}

/** Shared by all messages without attachments, to save memory. */
export const NO_ATTACHMENTS: readonly Attachment[] = [];

/** A header that a ready-made mail may lack (RFC 5322 §3.6). */
export type Missing = 'date' | 'from' | 'message-id';

/** A valid message that has no id yet. */
export type Draft = EmailDraft | ReadyMadeDraft | ShortDraft;

/** An email that has no id yet. */
export interface EmailDraft extends DraftParts {
  readonly type: 1;
  readonly destination: Address;
  /** Further recipients of the same mail. Each gets a message of its own. */
  readonly others?: readonly Address[];
  /** The sender. Left out: the device's. */
  readonly from?: Address;
  readonly content: EmailContent;
}

/** A ready-made mail that has no id yet. Its one attachment is the mail. */
export interface ReadyMadeDraft extends DraftParts {
  readonly type: 1;
  readonly destination: Address;
  readonly others?: readonly Address[];
  /** The envelope's sender. Left out: the device's. */
  readonly from?: Sender;
  readonly content: ReadyMadeContent;
  /** The Message-ID that it came with, without angle brackets. */
  readonly messageId?: string;
}

/** A message for the cloud that has no id yet. */
export interface ShortDraft extends DraftParts {
  readonly type: 2 | 3 | 4;
  /** Its form depends on the type. */
  readonly destination: string;
  readonly content: ShortContent;
}

/** The sender in an envelope; '' is the null sender, which gets no notice of failure (RFC 5321 §4.5.5). */
export type Sender = Address | '';

/** What few messages have from the beginning. */
interface Terms {
  /** It goes before all messages that are not urgent. */
  readonly urgent?: true;
  /** How long it is of use: it expires at this age, whatever happened in between. */
  readonly lifeMs?: number;
  /** The caller may only send: callers like that share a part of the queue. */
  readonly onlySends?: true;
  /** Of the waiting messages of one key, type and recipient only the newest stays. */
  readonly collapse?: string;
  /** The subject says how many messages it has replaced. */
  readonly counts?: true;
  /** Whose share of the queue it takes, if the share of a caller is bounded. */
  readonly caller?: string;
  /** A mail of the daemon itself: the id of the last message whose failure it tells, or empty. Its own failure is not told. */
  readonly notice?: string;
}

interface DraftParts extends Terms {
  /** Made by an Upload of the store. */
  readonly attachments: readonly Attachment[];
  /** Names of unknown fields, for the answer and the log. */
  readonly ignored: readonly string[];
}

/** The byte range of a message's content within a journal segment, and its CRC-32. */
export interface Place {
  readonly segment: number;
  readonly offset: number;
  readonly length: number;
  readonly crc: number;
}

/** What few messages have. The recipients of one mail share it. */
export interface Extras extends Terms {
  /** If the mail has several recipients: the id of the first one's message, which their common Message-ID has. */
  readonly mail?: string;
  /** The one attachment is the whole mail. */
  readonly isReadyMade?: true;
  /** The Message-ID of a ready-made mail. */
  readonly messageId?: string;
  /** How many messages it has replaced, with those that they had replaced. */
  readonly replaced?: number;
}

/** A message in the store: its envelope and progress, and where its content lies while it is kept. */
export interface Message {
  readonly id: string;
  readonly type: MessageType;
  /** An Address if it is an email. */
  readonly destination: string;
  /**
   * The sender of an email, stamped at acceptance; its Message-ID has this sender's domain. Undefined for other types.
   */
  readonly from?: Sender | undefined;
  /** The beginning of an email's subject; empty for other types. */
  subject: string;
  extras: Extras | undefined;
  /** Listed also after the content and the files are gone. */
  readonly attachments: readonly Attachment[];
  readonly accepted: Stamp;
  /** When a failed message was queued again: its age counts from here. */
  retried?: Stamp;
  /** The count of reachable time (reachability.ts) from which the message's own counts. */
  reachMs: number;
  /** When it failed: its content is kept for a while after that. */
  failed?: Stamp;
  /** When the relay or the cloud took it. */
  sent?: Stamp;
  /** The id of the newer message that has replaced it. */
  replacedBy?: string;
  status: Status;
  /** Attempts charged to the message, without those that failed by the relay. */
  attempts: number;
  lastReply: string | null;
  /** When a deferred message is due, on the clock of the boot that deferred it; null: now. */
  due: Stamp | null;
  /** Members that only a newer version knows: kept as they are. */
  more?: JsonObject | undefined;
  /** Null once the content is gone, and with it the files. */
  place: Place | null;
  /** Bytes of the content when it was dropped; 0 before that. */
  textBytes: number;
}

/** A message of type 1. Only the draft of an email becomes one. */
export type Email = Message & { readonly destination: Address; readonly from: Sender };

/** The result of an attempt. `reply` is the relay's text, or our own. */
export type Verdict =
  /** `relay`: it counts in the rate of this relay. */
  | { readonly kind: 'sent'; readonly reply: string; readonly relay?: string }
  | { readonly kind: 'failed'; readonly reply: string }
  | { readonly kind: 'expired'; readonly reply: string }
  | { readonly kind: 'deferred'; readonly reply: string; readonly delayMs: number };

/** All recipients of a draft, at least one. */
export function recipientsOf(draft: Draft): readonly string[] {
  return 'others' in draft && draft.others ? [draft.destination, ...draft.others] : [draft.destination];
}

const COLLAPSE_KEY = /^[!-~]{1,64}$/;
/** The fault of a key that isCollapseKey refuses. */
export const COLLAPSE_FAULT = 'must be a string of 1 to 64 visible ASCII characters, without blanks';

/** True for what may be a collapse key. */
export function isCollapseKey(value: unknown): value is string {
  return typeof value === 'string' && COLLAPSE_KEY.test(value);
}

/** The name that messages of one key, type and recipient have in common; undefined without a key. */
export function slotOf(
  { type, destination }: Pick<Message, 'type' | 'destination'>,
  key: string | undefined,
): string | undefined {
  if (key === undefined) return undefined;
  return `${type} ${key} ${type === 1 ? recipientKey(destination as Address) : destination}`;
}

/** False for a message that only a newer version can send. */
export function isUnderstood({ type, status }: Pick<Message, 'type' | 'status'>): boolean {
  return type >= 1 && type <= 4 && STATUSES.includes(status);
}

/** The fault of a type that isMessageType refuses. */
export const TYPE_FAULT = 'must be the integer 1 (email), 2 (SMS), 3 (phone) or 4 (push)';

const E164 = /^\+[1-9]\d{0,14}$/;
const PLACEHOLDER = /^[A-Z][A-Z0-9_]*$/;

/** True for the integers 1 to 4. */
export function isMessageType(value: unknown): value is MessageType {
  return value === 1 || value === 2 || value === 3 || value === 4;
}

/** What is wrong with `destination` as the recipient of a message of this type, or null if nothing is. */
export function recipientFault(type: MessageType, destination: unknown): string | null {
  if (typeof destination !== 'string') {
    return `is required and must be a string${type === 1 ? ', one email address' : ''}`;
  }
  if (type === 1) {
    const isAddress = parseAddress(destination) !== null;
    return isAddress ? null : 'must be exactly one email address, like john@example.com';
  }
  if (type !== 4) {
    return E164.test(destination) ? null : 'must be a phone number: +, then up to 15 digits, the first not 0';
  }
  const isGood = PLACEHOLDER.test(destination) || parseAddress(destination) !== null;
  return isGood ? null : 'must be one email address, or a placeholder in capitals like OWNER';
}

/** A new Message-ID, without angle brackets. `mail` is the id of the first recipient's message. */
export function newMessageId(mail: string, storeId: string, sender: Address): string {
  return `${mail}.${storeId}@${domainOf(withALabel(sender))}`;
}

/** The Message-ID of an email, without angle brackets; null for other messages. */
export function messageIdOf(
  { id, from, extras }: Pick<Message, 'id' | 'from' | 'extras'>,
  storeId: string,
): string | null {
  if (extras?.messageId !== undefined) return extras.messageId;
  return from ? newMessageId(extras?.mail ?? id, storeId, from) : null;
}

/** A message as it is sent to the cloud. */
export type ShortMessage = ShortContent & {
  readonly id: string;
  readonly type: 2 | 3 | 4;
  readonly destination: string;
};

/** A mail as it is sent to the cloud. */
export interface CloudMail {
  readonly id: string;
  readonly to: readonly Address[];
  readonly size: number;
  readonly octets: Buffer | AsyncIterable<Buffer>;
  /** For each step and each slice, and for the answer to the whole. */
  readonly timeoutMs: number;
  readonly answerMs: number;
}

/**
 * The outcome of an offer. `later`: neither taken nor refused. `isReached`: there was a connection, so the message may
 * have arrived. `status`: that of the answer, if a whole one came.
 */
export type ShortAnswer =
  | { readonly kind: 'taken' | 'refused'; readonly reply: string }
  | {
      readonly kind: 'later';
      readonly reply: string;
      readonly retryAfterMs: number | null;
      readonly isReached: boolean;
      readonly status?: number;
    };

/** Offers a message. */
export type SendShort = (message: ShortMessage, signal: AbortSignal) => Promise<ShortAnswer>;

/** Offers a mail. */
export type SendMail = (mail: CloudMail, signal: AbortSignal) => Promise<ShortAnswer>;

/** Whose share of the queue a message takes. */
export interface Payer {
  /** It may only send: callers like that have a share together. */
  readonly onlySends: boolean;
  /** Its name, if the share of each caller is bounded. */
  readonly caller?: string | undefined;
}

/** The envelope of a mail that comes, and what is known of it beforehand. */
export interface MailTerms extends Payer {
  /** The envelope's sender; '' is the null sender, null the device's own. */
  readonly from: Sender | null;
  /** At least one, unless the headers count. */
  readonly to: readonly Address[];
  /** True: those in To, Cc and Bcc are recipients as well. */
  readonly readsHeaders?: boolean;
  /** Octets of the mail; 0 if unknown. */
  readonly expectedBytes: number;
  /** True: what no relay would take is made sendable. */
  readonly isRepaired?: boolean;
  /** It goes before all messages that are not urgent. */
  readonly isUrgent: boolean;
}

/** One ready-made mail on its way into the queue. */
export interface MailIntake {
  /**
   * Takes the next octets. Gives a promise only if the disk must catch up first; until it resolves, do not change them.
   * Throws invalid, too-large, queue-full, storage-full, storage-failed.
   */
  write(bytes: Buffer): Promise<void> | void;
  /**
   * Resolves once the mail is on the device, with the ids of its messages: one for each recipient, in order. Throws as
   * `write` does, and stopping.
   */
  finish(): Promise<readonly string[]>;
  /** Leaves nothing behind, unless the mail was accepted. Never rejects. */
  discard(): Promise<void>;
}

/** Begins a mail. Throws too-large, queue-full, storage-full, storage-failed, stopping, invalid. */
export type BeginMail = (terms: MailTerms) => Promise<MailIntake>;
