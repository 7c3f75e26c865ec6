/**
 * One of the loop's few connections to relays: opened when there is something to send, used for message after
 * message, closed after some seconds without one.
 */
import type { RelayConfig } from '../config.js';
import { SESSION_IDLE_MS } from '../limits.js';
import type { Clock, Timer } from '../system/clock.js';
import type { Ending } from './reply.js';
import type { Envelope, Session } from './smtp-session.js';

/** Opens a session to a relay; rejects with SessionError. */
export type OpenSession = (relay: RelayConfig) => Promise<Session>;

/** One connection, which is opened when it is needed and closed when it has been idle. */
export class Line {
  /** Taken by an attempt, from before the session is opened until the outcome is recorded. */
  isBusy = false;
  readonly #open: OpenSession;
  readonly #clock: Clock;
  #session: Session | null = null;
  #relay: RelayConfig | null = null;
  #sends = 0;
  #idle: Timer | null = null;

  constructor(open: OpenSession, clock: Clock) {
    this.#open = open;
    this.#clock = clock;
  }

  /** True if a session to that relay stands ready. */
  isOpenTo(relay: RelayConfig): boolean {
    return this.#relay === relay && this.#session?.usable === true;
  }

  /** Makes sure there is a session to that relay. True if it was opened just now. Rejects with SessionError. */
  async connect(relay: RelayConfig): Promise<boolean> {
    this.#idle?.stop();
    this.#idle = null;
    if (this.isOpenTo(relay)) return false;
    await this.close();
    this.#session = await this.#open(relay);
    this.#relay = relay;
    this.#sends = 0;
    return true;
  }

  /**
   * Sends one message over the session; never rejects. Null: the connection had been used before and ended
   * unused, as it does when the relay closes it for its age or count. That says nothing of relay or message.
   */
  async send(envelope: Envelope, content: Buffer | AsyncIterable<Buffer>): Promise<Ending | null> {
    if (this.#session === null) throw new Error('a line is connected before it sends');
    const ending = await this.#session.send(envelope, content);
    return this.#sends++ > 0 && hasEndedUnused(ending) ? null : ending;
  }

  /** Nothing to send for now: keeps a good session for a while. */
  rest(): void {
    if (this.#session === null || this.#idle !== null) return;
    if (this.#session.usable) this.#idle = this.#clock.after(SESSION_IDLE_MS, () => void this.close());
    else void this.close();
  }

  /** Lets go of the session; what is being sent ends as lost. Never rejects. */
  async close(): Promise<void> {
    this.#idle?.stop();
    this.#idle = null;
    const session = this.#session;
    this.#session = null;
    await session?.close();
  }
}

function hasEndedUnused(ending: Ending): boolean {
  if (ending.phase !== 'mail') return false;
  return 'reply' in ending ? ending.reply.code === 421 : ending.trouble.kind === 'lost';
}
