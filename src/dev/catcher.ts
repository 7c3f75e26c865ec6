/**
 * The mail catcher of `fieldpost dev`: the SMTP server on loopback, with a function in place of the queue. It is as strict
 * about the protocol as a relay.
 */
import { FieldpostError, wordsOf } from '../base/errors.js';
import { MIB, SECOND_MS } from '../base/limits.js';
import { Octets } from '../base/octets.js';
import type { Clock } from '../base/system/clock.js';
import type { Log } from '../base/system/log.js';
import { parseAddress } from '../mail/message/address.js';
import type { MailIntake, MailTerms } from '../mail/message/message.js';
import { createSmtpServer } from '../mail/smtp-server/smtp-server.js';
import { listen } from './listen.js';

const MAIL_BYTES_MAX = 64 * MIB;
/** A mail is kept in no time: nobody waits longer for a stop. */
const STOP_MS = SECOND_MS;
/** Where mail for a user of this device goes. */
const LOCAL = parseAddress('postmaster@localhost');

/** A mail as it was received. */
export interface CaughtMail {
  /** The envelope's sender; empty for the null sender, and for one that is no address. */
  readonly from: string;
  readonly to: readonly string[];
  readonly raw: Buffer;
}

/** The options of a catcher. */
export interface CatcherOptions {
  readonly clock: Clock;
  readonly log: Log;
  /** The client gets 250 when this resolves, and 451 if it rejects. */
  onMail(mail: CaughtMail): Promise<void>;
  readonly limitBytes?: number;
}

/**
 * Listens on a free port of 127.0.0.1. Rejects with the system's error. `close` stops listening, ends every connection, and
 * waits until `onMail` is done.
 */
export async function openCatcher(options: CatcherOptions) {
  const { clock, log, limitBytes = MAIL_BYTES_MAX } = options;
  let caught = 0;
  const smtp = createSmtpServer({
    async begin({ from, to }) {
      return new CaughtIntake({ from, to }, limitBytes, async (mail) => {
        await options.onMail(mail);
        return String(++caught);
      });
    },
    name: () => 'localhost',
    limitBytes: () => limitBytes,
    localAddress: () => LOCAL,
    // It catches whatever comes.
    isOfThisDevice: () => false,
    tokens: [],
    tls: null,
    clock,
    log,
  });
  const server = smtp.makeServer(false);
  const port = await listen(server, 0);
  return {
    port,
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      await smtp.stop(STOP_MS);
      await closed;
    },
  };
}

/** Collects a mail in memory. */
class CaughtIntake implements MailIntake {
  readonly #envelope: Pick<MailTerms, 'from' | 'to'>;
  readonly #limitBytes: number;
  readonly #keep: (mail: CaughtMail) => Promise<string>;
  readonly #octets = new Octets();

  constructor(
    envelope: Pick<MailTerms, 'from' | 'to'>,
    limitBytes: number,
    keep: (mail: CaughtMail) => Promise<string>,
  ) {
    this.#envelope = envelope;
    this.#limitBytes = limitBytes;
    this.#keep = keep;
  }

  write(bytes: Buffer): void {
    if (this.#octets.length + bytes.length > this.#limitBytes) {
      throw new FieldpostError('too-large', `More than ${this.#limitBytes} octets`);
    }
    this.#octets.push(bytes);
  }

  async finish(): Promise<readonly string[]> {
    const { from, to } = this.#envelope;
    const mail = { from: from ?? '', to, raw: this.#octets.take() };
    try {
      return [await this.#keep(mail)];
    } catch (error) {
      throw new FieldpostError('storage-failed', wordsOf(error), { cause: error });
    }
  }

  async discard(): Promise<void> {
    this.#octets.take();
  }
}
