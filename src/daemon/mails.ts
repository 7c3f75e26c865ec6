/**
 * Mails as they go over the wire, and how large the relays take them: what delivery sends, and what the api refuses
 * at the door because no relay would take it. Built by daemon.ts.
 */
import type { Config, RelayConfig } from '../config.js';
import type { Parcel } from '../delivery/courier.js';
import { type Address, domainOf, needsSmtpUtf8 } from '../message/address.js';
import type { Attachment, Email, EmailContent, EmailDraft } from '../message/message.js';
import { wallMsOf } from '../message/stamp.js';
import { render } from '../mime/letter.js';
import type { Store } from '../store/store.js';
import type { Clock } from '../system/clock.js';

/** What is read is copied about so often on its way to the relay: as base64, and that in pieces. */
const SENT_COPIES = 4;
/** All ids are as long as this. */
const SOME_ID = '0'.repeat(15);

/** The mails of one daemon; `config` may change under it. */
export class Mails {
  readonly #config: Pick<Config, 'relays'>;
  readonly #sender: () => Address;
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #streamed: (bytes: number) => void;
  /** What each relay said last; null: that it has no limit. */
  readonly #limits = new Map<string, number | null>();

  constructor(
    config: Pick<Config, 'relays'>,
    sender: () => Address,
    store: Store,
    { clock, streamed = () => undefined }: { clock: Clock; streamed?: (bytes: number) => void },
  ) {
    this.#config = config;
    this.#sender = sender;
    this.#store = store;
    this.#clock = clock;
    this.#streamed = streamed;
  }

  /** The message, ready to be sent by `from`. Its Message-ID is that of its acceptance, whoever sends it. */
  parcel(message: Email, content: EmailContent, from: Address): Parcel {
    const isWrong = this.#clock.trust() === 'wrong';
    const dateMs = isWrong ? null : wallMsOf(message.accepted, this.#clock, this.#store.boots);
    const open = (attachment: Attachment) => this.#open(attachment);
    const { size, bytes } = this.#render({ ...message, content }, message, { from, dateMs, open });
    const smtpUtf8 = needsSmtpUtf8(from) || needsSmtpUtf8(message.destination);
    return { size, smtpUtf8, content: bytes };
  }

  /** Octets of the mail that the draft will be. */
  bytesOf(draft: EmailDraft): number {
    const from = this.#sender();
    return this.#render(draft, { id: SOME_ID }, { from, dateMs: this.#clock.wallMs(), open: unread }).size;
  }

  /** A relay has said how large a mail it takes (RFC 1870). */
  heard({ host, port }: RelayConfig, limitBytes: number | null): void {
    this.#limits.set(`${host}:${port}`, limitBytes);
  }

  /** The largest mail that a relay takes; null while one of them may take any. */
  get limitBytes(): number | null {
    const { relays } = this.#config;
    const limits = relays.map(({ host, port }) => this.#limits.get(`${host}:${port}`) ?? null);
    return limits.length === 0 || limits.includes(null) ? null : Math.max(...(limits as number[]));
  }

  async *#open(attachment: Attachment): AsyncGenerator<Buffer, void, void> {
    for await (const chunk of this.#store.openAttachment(attachment)) {
      this.#streamed(SENT_COPIES * chunk.length);
      yield chunk;
    }
  }

  #render(
    { destination, content, attachments }: Pick<EmailDraft, 'destination' | 'content' | 'attachments'>,
    { id, from: stamped }: Pick<Email, 'id' | 'from'>,
    { from, dateMs, open }: Sending,
  ) {
    return render({
      from,
      to: destination,
      content,
      messageId: `${id}.${this.#store.storeId}@${domainOf(stamped ?? from)}`,
      dateMs,
      attachments: attachments.map((attachment) => ({ ...attachment, open: () => open(attachment) })),
    });
  }
}

/** How one mail is sent. */
interface Sending {
  readonly from: Address;
  readonly dateMs: number | null;
  readonly open: (attachment: Attachment) => AsyncIterable<Buffer>;
}

/** For a mail of which only the size is asked. */
async function* unread(): AsyncGenerator<Buffer, void, void> {}
