/**
 * The mail catcher of `fieldpost dev`: the SMTP server on loopback, with a function in place of the queue. It is as strict
 * about the protocol as a relay.
 */

import { Octets } from '../base/collections.js';
import { FieldpostError, wordsOf } from '../base/errors.js';
import { MIB, SECOND_MS } from '../base/limits.js';
import type { Clock } from '../base/system/clock.js';
import type { Log } from '../base/system/log.js';
import type { MailIntake } from '../mail/message/message.js';
import { createSmtpServer } from '../mail/smtp-server/smtp-server.js';
import { listen } from './listen.js';

const MAIL_BYTES_MAX = 64 * MIB;
/** A mail is kept in no time: nobody waits longer for a stop. */
const STOP_MS = SECOND_MS;
/** Where mail for a user of this device goes. */

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
export async function openCatcher({ clock, log, onMail, limitBytes = MAIL_BYTES_MAX }: CatcherOptions) {
  let caught = 0;
  const smtp = createSmtpServer({
    async begin({ from, to }): Promise<MailIntake> {
      const octets = new Octets();
      return {
        write(bytes) {
          if (octets.length + bytes.length > limitBytes)
            throw new FieldpostError('too-large', `More than ${limitBytes} octets`);
          octets.push(bytes);
        },
        async finish() {
          try {
            await onMail({ from: from ?? '', to, raw: octets.take() });
            return [String(++caught)];
          } catch (error) {
            throw new FieldpostError('storage-failed', wordsOf(error), { cause: error });
          }
        },
        discard: async () => void octets.take(),
      };
    },
    name: () => 'localhost',
    limitBytes: () => limitBytes,
    // It catches whatever comes.
    homesOf: (address) => [address],
    tokens: [],
    tls: null,
    clock,
    log,
  });
  return await listen(smtp.makeServer(false), 0, () => smtp.stop(STOP_MS));
}
