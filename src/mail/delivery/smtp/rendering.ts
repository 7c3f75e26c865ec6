/**
 * Makes mails as they go over the wire for delivery. Knows the largest size that the relays take: the api refuses larger
 * mails.
 */
import { FieldpostError } from '../../../base/errors.js';
import { DAY_MS, HOUR_MS, SUBJECT_CHARS_MAX } from '../../../base/limits.js';
import { ageMs, dateMsOf, isAgeKnown } from '../../../base/stamp.js';
import type { Clock } from '../../../base/system/clock.js';
import { counted, cut } from '../../../base/text.js';
import { type Address, needsSmtpUtf8 } from '../../message/address.js';
import {
  type Attachment,
  type Email,
  type EmailContent,
  type EmailDraft,
  type MailHead,
  messageIdOf,
  newMessageId,
  type ReadyMadeContent,
  type Sender,
} from '../../message/message.js';
import { type Rendered, render, renderReadyMade } from '../../mime/letter.js';
import { type MailConfig, nameOf, type Relay } from '../../settings.js';
import type { Store } from '../../store/store.js';
import type { Envelope } from './protocol.js';

/** Each byte that is read is copied about this many times on its way to the relay (base64, pieces). */
const SENT_COPIES = 4;
/** More are never replaced. */
const REPLACED_MAX = 999_999_999;
/** A text of the length of every id. */
const SOME_ID = '0'.repeat(15);
/** No mail waits for longer, so that none is larger than it was estimated. */
const LONGEST_WAIT: Wait = { ms: 10_000 * DAY_MS - 1, isKnown: false };
/** The header of a mail that has waited for so long. */
export const WAIT_HEADER_OCTETS_MAX = 'X-Fieldpost-Waited: P9999DT23H\r\n'.length;
const NO_WAIT: Wait = { ms: 0, isKnown: true };

/** A mail as it goes over the wire. */
export interface Parcel extends Pick<Envelope, 'size' | 'smtpUtf8' | 'isEightBit'> {
  readonly content: Buffer | AsyncIterable<Buffer>;
}

/** Whether a late mail says in its text that it is; left out: it does not. */
export interface LateConfig {
  readonly lateNote?: 'yes' | 'no';
}

/** How long a mail has waited; `isKnown` is false if it may be longer. */
interface Wait {
  readonly ms: number;
  readonly isKnown: boolean;
}

/** What rendering needs. */
interface RenderingOptions {
  /** A reload may change it at any time. */
  readonly config: Pick<MailConfig, 'relays'> & LateConfig;
  /** The present sender. */
  readonly sender: () => Address;
  readonly store: Store;
  readonly clock: Clock;
  /** Called with the number of bytes that were streamed. */
  readonly streamed?: (bytes: number) => void;
}

/** The mails of one store. */
export class Rendering {
  readonly #options: RenderingOptions;
  /** The size limit of each relay, as it said last; null: it has none. */
  readonly #limits = new Map<string, number | null>();

  constructor(options: RenderingOptions) {
    this.#options = options;
  }

  /**
   * The mail with the sender `from`. Its Message-ID and date are those of its acceptance at every attempt, for any sender;
   * the time that it waited is that of this attempt. Throws storage-damaged if something is not what was accepted. Reading
   * the content may throw it, too.
   */
  parcel(message: Email, content: EmailContent | ReadyMadeContent, from: Sender): Parcel {
    const { clock, store, sender } = this.#options;
    const dateMs = dateMsOf(message.accepted, clock, store.boots);
    const open = (attachment: Attachment) => this.#open(attachment);
    const messageId = messageIdOf(message, store.storeId) as string;
    const sending = { from: from || sender(), dateMs, messageId, open, wait: this.#waitOf(message) };
    const isReadyMade = 'missing' in content;
    const { replaced = 0, counts } = message.extras ?? {};
    const { size, bytes } = isReadyMade
      ? this.#complete(message, content, sending, replaced)
      : this.#render(
          { ...message, content: replaced > 0 ? told(content, replaced, counts) : content },
          sending,
        );
    const smtpUtf8 = [from, message.destination, ...peopleIn(content)].some(needsSmtpUtf8);
    return { size, smtpUtf8, isEightBit: isReadyMade, content: bytes };
  }

  /** A ready-made mail, behind the headers that it lacks. */
  #complete(
    { attachments }: Email,
    content: ReadyMadeContent,
    { open, wait, ...stamps }: Sending,
    replaced: number,
  ): Rendered {
    const [file] = attachments;
    if (file === undefined) throw new FieldpostError('storage-damaged', 'the mail has lost its file');
    const headers = [...(replaced > 0 ? replacedHeader(replaced) : []), ...waitHeaders(wait)];
    return renderReadyMade(content, { ...stamps, headers }, { ...file, open: () => open(file) });
  }

  /** The wait from acceptance to now; NO_WAIT if it is nothing to speak of. */
  #waitOf({ accepted }: Email): Wait {
    const { clock, store } = this.#options;
    const ms = ageMs(accepted, clock, store.boots);
    return ms < LATE_MS ? NO_WAIT : { ms, isKnown: isAgeKnown(accepted, clock, store.boots) };
  }

  /** Octets of the mail that the draft will be, at most: if it waits, it gets a header and perhaps a note. */
  bytesOf(draft: EmailDraft): number {
    const { sender, clock, store } = this.#options;
    const from = draft.from ?? sender();
    const messageId = newMessageId(SOME_ID, store.storeId, from);
    const { content, collapse, counts } = draft;
    const largest = collapse === undefined ? content : told(content, REPLACED_MAX, counts);
    const sending = { from, messageId, dateMs: clock.wallMs(), open: unread, wait: LONGEST_WAIT };
    return this.#render({ ...draft, content: largest }, sending).size;
  }

  /** A relay has said its size limit (RFC 1870). */
  heard(relay: Relay, limitBytes: number | null): void {
    this.#limits.set(nameOf(relay), limitBytes);
  }

  /** Bytes of the largest mail that any relay takes; null if one of them may have no limit. */
  get limitBytes(): number | null {
    const { relays } = this.#options.config;
    const limits = relays.map((relay) => this.#limits.get(nameOf(relay)) ?? null);
    return limits.length === 0 || limits.includes(null) ? null : Math.max(...(limits as number[]));
  }

  async *#open(attachment: Attachment): AsyncGenerator<Buffer, void, void> {
    const { store, streamed } = this.#options;
    for await (const chunk of store.openAttachment(attachment)) {
      streamed?.(SENT_COPIES * chunk.length);
      yield chunk;
    }
  }

  #render(
    { destination, content, attachments }: Pick<EmailDraft, 'destination' | 'content' | 'attachments'>,
    { from, messageId, dateMs, open, wait }: Sending,
  ): Rendered {
    const { fromName = '', to, cc, replyTo, headers = [] } = content.head ?? {};
    const isNoted = wait !== NO_WAIT && this.#options.config.lateNote === 'yes';
    return render({
      from: { name: fromName, address: from },
      to: to ?? [{ name: '', address: destination }],
      cc,
      replyTo,
      headers: wait === NO_WAIT ? headers : [...headers, ...waitHeaders(wait)],
      content: isNoted ? withNote(content, noteOf(wait)) : content,
      messageId,
      dateMs,
      attachments: attachments.map((attachment) => ({ ...attachment, open: () => open(attachment) })),
    });
  }
}

/** A mail that has waited for so long says so. */
const LATE_MS = HOUR_MS;

/** Whole days, and the hours beyond them. */
function daysAndHours(ms: number): [days: number, hours: number] {
  return [Math.floor(ms / DAY_MS), Math.floor((ms % DAY_MS) / HOUR_MS)];
}

/** The header of a late mail, with an ISO 8601 duration: `PT2H`, `P3DT4H`, `P21D`. None if it is not late. */
function waitHeaders({ ms }: Wait): NonNullable<MailHead['headers']> {
  if (ms < LATE_MS) return [];
  const [days, hours] = daysAndHours(ms);
  return [['X-Fieldpost-Waited', `P${days > 0 ? `${days}D` : ''}${hours > 0 ? `T${hours}H` : ''}`]];
}

function noteOf({ ms, isKnown }: Wait): string {
  const [days, hours] = daysAndHours(ms);
  const parts = [days > 0 ? counted(days, 'day') : '', hours > 0 ? counted(hours, 'hour') : ''];
  return `Waited ${isKnown ? '' : 'at least '}${parts.filter(Boolean).join(' ')} on the device`;
}

/** Behind what the visible text of an HTML document begins; the first that it has counts. */
const HTML_BEGINNINGS = [/<body\b[^<>]*>/i, /<\/head>/i, /<html\b[^<>]*>/i, /<!doctype\b[^<>]*>/i];

/** The content with this line at the beginning of each of its texts. */
function withNote({ plain, html, ...content }: EmailContent, note: string): EmailContent {
  const begins = HTML_BEGINNINGS.map((one) => one.exec(html)).find(Boolean);
  const at = begins ? begins.index + begins[0].length : 0;
  return {
    ...content,
    plain: plain === '' && html !== '' ? '' : `${note}\r\n\r\n${plain}`,
    html: html && `${html.slice(0, at)}<p>${note}</p>\r\n${html.slice(at)}`,
  };
}

/** How one mail is sent. */
interface Sending {
  /** In the From header. */
  readonly from: Address;
  /** Without angle brackets. */
  readonly messageId: string;
  readonly dateMs: number | null;
  readonly wait: Wait;
  readonly open: (attachment: Attachment) => AsyncIterable<Buffer>;
}

function replacedHeader(replaced: number): [name: string, value: string][] {
  return [['X-Fieldpost-Replaced', String(replaced)]];
}

/** The mail that says how many it has replaced; with `counts` also in its subject. */
function told(content: EmailContent, replaced: number, counts: true | undefined): EmailContent {
  const { subject, head } = content;
  const headers = [...(head?.headers ?? []), ...replacedHeader(replaced)];
  const count = `(${replaced} ×)`;
  const counted = `${cut(subject, SUBJECT_CHARS_MAX - count.length - 1)} ${count}`.trimStart();
  return { ...content, subject: counts ? counted : subject, head: { ...head, headers } };
}

/** The addresses that its headers name beside the recipient's. Those of a ready-made mail are as they came. */
function peopleIn(content: EmailContent | ReadyMadeContent): Address[] {
  if ('missing' in content) return [];
  const { to = [], cc = [], replyTo = [] } = content.head ?? {};
  return [...to, ...cc, ...replyTo].map(({ address }) => address);
}

/** For a mail of which only the size is needed. */
async function* unread(): AsyncGenerator<Buffer, void, void> {}
