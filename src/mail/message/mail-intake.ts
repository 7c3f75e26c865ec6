/**
 * The door for ready-made mails (RFC 5322), as those who bring them see it: the local API and the SMTP server.
 */
import type { Address } from './address.js';
import type { Sender } from './message.js';

/** The envelope of a mail that comes, and what is known of it beforehand. */
export interface MailTerms {
  /** The envelope's sender; '' is the null sender, null the device's own. */
  readonly from: Sender | null;
  /** At least one, unless the headers count. */
  readonly to: readonly Address[];
  /** True: those in To, Cc and Bcc are recipients as well. */
  readonly readsHeaders?: boolean;
  /** Octets of the mail; 0 if unknown. */
  readonly expectedBytes: number;
  /** True: what no relay would take is made sendable (delivery.md, What system programs send). */
  readonly isRepaired?: boolean;
  /** It goes before all messages that are not urgent. */
  readonly isUrgent: boolean;
  /** True: the caller may only send. */
  readonly onlySends: boolean;
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
