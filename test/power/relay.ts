/**
 * The relay of a device that loses its power: an SMTP server that others wrote. It reports each mail to the model.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { SMTPServerSession } from 'smtp-server';
import type { Chance } from '../simulation/chance.js';
import { readMail } from '../simulation/mail.js';
import { CROWDED, NOBODY } from '../simulation/relay.js';
import { contentOf, type OtherRelay, otherRelay } from '../support/other-relay.js';

export interface Taken {
  readonly token: string;
  readonly digest: string;
  readonly messageId: string;
  /** When its transaction began. */
  readonly sinceMs: number;
}

/** The longest delay of the answer to the final dot. */
const ANSWER_MS_MAX = 15;

export class PowerRelay {
  /** False while the device or the relay is off: connections and mails are ignored. */
  isHeard = true;
  /** Full mailboxes are emptied. */
  isRoomy = false;
  readonly #chance: Chance;
  readonly #onTaken: (taken: Taken) => void;
  readonly #beginnings = new WeakMap<SMTPServerSession, number>();
  #server: OtherRelay | null = null;

  constructor(chance: Chance, onTaken: (taken: Taken) => void) {
    this.#chance = chance;
    this.#onTaken = onTaken;
  }

  async listen(): Promise<number> {
    this.#server = await otherRelay({
      onMailFrom: (_, session, done) => {
        this.#beginnings.set(session, performance.now());
        done();
      },
      onRcptTo: ({ address }, _, done) => done(this.#refusal(address)),
      onMail: async (mail, session) => await this.#take(await contentOf(mail), session),
      isHeard: () => this.isHeard,
    });
    return this.#server.port;
  }

  /** Ends all connections and refuses new ones. */
  deafen(): void {
    this.isHeard = false;
    this.#server?.drop();
  }

  async close(): Promise<void> {
    this.isHeard = false;
    await this.#server?.close();
  }

  #refusal(address: string): Error | null {
    if (address.startsWith(NOBODY)) return replying(550, '5.1.1 no such user');
    return address.startsWith(CROWDED) && !this.isRoomy ? replying(452, '4.2.2 mailbox full') : null;
  }

  async #take(content: Buffer, session: SMTPServerSession): Promise<void> {
    if (!this.isHeard) return;
    this.#onTaken({ ...readMail(content.toString('latin1')), sinceMs: this.#beginnings.get(session) ?? 0 });
    await pause(this.#chance.below(ANSWER_MS_MAX));
  }
}

function replying(responseCode: number, words: string): Error {
  return Object.assign(new Error(words), { responseCode });
}
