/**
 * The messages of the daemon itself. Each goes through the queue as any message does.
 */
import { FieldpostError, wordsOf } from '../base/errors.js';
import type { Log } from '../base/system/log.js';
import type { Delivery } from '../mail/delivery/delivery.js';
import type { Address } from '../mail/message/address.js';
import { type EmailDraft, NO_ATTACHMENTS, type ShortDraft } from '../mail/message/message.js';
import type { KeyedContent, Store } from '../mail/store/store.js';

interface OwnMessagesOptions {
  readonly store: Pick<Store, 'accept'>;
  readonly delivery: Pick<Delivery, 'nudge'>;
  readonly log: Log;
}

/** Queues them. */
export class OwnMessages {
  readonly #options: OwnMessagesOptions;
  /** A line says that one waits. */
  #isTold = false;

  constructor(options: OwnMessagesOptions) {
    this.#options = options;
  }

  /**
   * Resolves with their ids once they are queued; null if they must wait: the caller tries again. The log says so once,
   * with the subject. `keyed` as in Store.accept.
   */
  async post(
    drafts: readonly (EmailDraft | ShortDraft)[],
    subject: string,
    keyed: KeyedContent | null = null,
  ): Promise<readonly string[] | null> {
    const { store, delivery, log } = this.#options;
    try {
      const { ids } = await store.accept(drafts, keyed);
      delivery.nudge();
      this.#isTold = false;
      return ids;
    } catch (error) {
      // Such as a full queue or disk.
      if (!(error instanceof FieldpostError)) throw error;
      if (!this.#isTold) log.warn('notice waits', { subject, reason: wordsOf(error) });
      this.#isTold = true;
      return null;
    }
  }
}

/** What few of them have. */
type Terms = Pick<EmailDraft, 'urgent' | 'collapse' | 'notice'>;

/** Such a mail, of these lines. */
export function ownMail(
  to: Address,
  subject: string,
  lines: readonly string[],
  terms: Terms = {},
): EmailDraft {
  const plain = lines.map((line) => `${line}\r\n`).join('');
  return { type: 1, destination: to, content: { subject, plain, html: '' }, ...ownTerms(terms) };
}

/** Such an SMS, call or push. */
export function ownShort(
  type: ShortDraft['type'],
  destination: string,
  message: string,
  terms: Terms = {},
): ShortDraft {
  return { type, destination, content: { message }, ...ownTerms(terms) };
}

function ownTerms(terms: Terms) {
  return { attachments: NO_ATTACHMENTS, ignored: [], ...terms };
}
