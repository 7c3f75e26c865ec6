/**
 * Makes mails as they go over the wire for delivery. Knows the largest size that the relays take: the api refuses larger
 * mails.
 */
import { FieldpostError } from '../../../base/errors.js';
import { SUBJECT_CHARS_MAX } from '../../../base/limits.js';
import { dateMsOf } from '../../../base/stamp.js';
import type { Clock } from '../../../base/system/clock.js';
import { cut } from '../../../base/text.js';
import { type Address, needsSmtpUtf8 } from '../../message/address.js';
import {
  type Attachment,
  type Email,
  type EmailContent,
  type EmailDraft,
  messageIdOf,
  newMessageId,
  type ReadyMadeContent,
  type Sender,
} from '../../message/message.js';
import { type Rendered, render, renderReadyMade } from '../../mime/letter.js';
import type { MailConfig, RelayConfig } from '../../settings.js';
import type { Store } from '../../store/store.js';
import type { Envelope } from './protocol.js';

/** Each byte that is read is copied about this many times on its way to the relay (base64, pieces). */
const SENT_COPIES = 4;
/** More are never replaced. */
const REPLACED_MAX = 999_999_999;
/** A text of the length of every id. */
const SOME_ID = '0'.repeat(15);

/** A mail as it goes over the wire. */
export interface Parcel extends Pick<Envelope, 'size' | 'smtpUtf8' | 'isEightBit'> {
  readonly content: Buffer | AsyncIterable<Buffer>;
}

/** What rendering needs. */
interface RenderingOptions {
  /** A reload may change it at any time. */
  readonly config: Pick<MailConfig, 'relays'>;
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
   * The mail with the sender `from`. Its Message-ID is that of its acceptance, for any sender. Throws storage-damaged if
   * something is not what was accepted. Reading the content may throw it, too.
   */
  parcel(message: Email, content: EmailContent | ReadyMadeContent, from: Sender): Parcel {
    const { clock, store, sender } = this.#options;
    const dateMs = dateMsOf(message.accepted, clock, store.boots);
    const open = (attachment: Attachment) => this.#open(attachment);
    const messageId = messageIdOf(message, store.storeId) as string;
    const sending = { from: from || sender(), dateMs, messageId, open };
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
    { open, ...stamps }: Sending,
    replaced: number,
  ): Rendered {
    const [file] = attachments;
    if (file === undefined) throw new FieldpostError('storage-damaged', 'the mail has lost its file');
    const first = replaced > 0 ? replacedHeader(replaced) : [];
    return renderReadyMade(content, { ...stamps, first }, { ...file, open: () => open(file) });
  }

  /** Octets of the mail that the draft will be. */
  bytesOf(draft: EmailDraft): number {
    const { sender, clock, store } = this.#options;
    const from = draft.from ?? sender();
    const messageId = newMessageId(SOME_ID, store.storeId, from);
    const { content, collapse, counts } = draft;
    const largest = collapse === undefined ? content : told(content, REPLACED_MAX, counts);
    const sending = { from, messageId, dateMs: clock.wallMs(), open: unread };
    return this.#render({ ...draft, content: largest }, sending).size;
  }

  /** A relay has said its size limit (RFC 1870). */
  heard({ host, port }: RelayConfig, limitBytes: number | null): void {
    this.#limits.set(`${host}:${port}`, limitBytes);
  }

  /** Bytes of the largest mail that any relay takes; null if one of them may have no limit. */
  get limitBytes(): number | null {
    const { relays } = this.#options.config;
    const limits = relays.map(({ host, port }) => this.#limits.get(`${host}:${port}`) ?? null);
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
    { from, messageId, dateMs, open }: Sending,
  ): Rendered {
    const { fromName = '', to, cc, replyTo, headers } = content.head ?? {};
    return render({
      from: { name: fromName, address: from },
      to: to ?? [{ name: '', address: destination }],
      cc,
      replyTo,
      headers,
      content,
      messageId,
      dateMs,
      attachments: attachments.map((attachment) => ({ ...attachment, open: () => open(attachment) })),
    });
  }
}

/** How one mail is sent. */
interface Sending {
  /** In the From header. */
  readonly from: Address;
  /** Without angle brackets. */
  readonly messageId: string;
  readonly dateMs: number | null;
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
