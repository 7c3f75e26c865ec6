/**
 * One of the few connections to relays: opened when there is something to send, used for message after message, closed
 * after some seconds without one.
 */
import type { RelayConfig } from '../../../base/config/types.js';
import { SESSION_IDLE_MS } from '../../../base/limits.js';
import { Alarm } from '../../../base/retry/alarm.js';
import type { Clock } from '../../../base/system/clock.js';
import type { Envelope } from './envelope.js';
import type { Ending } from './reply.js';
import type { OpenSession, Session } from './session.js';

/** A relay that leaves so many groups of commands in a row without an answer gets one command at a time. */
const UNANSWERED_GROUPS_MAX = 2;

/** One connection, which is opened when it is needed and closed when it has been idle. */
export class SessionLine {
  readonly #open: OpenSession;
  #session: Session | null = null;
  #relay: RelayConfig | null = null;
  /** How many messages this session sent, and how many of them the relay took. */
  #sends = 0;
  #taken = 0;
  #isAnnounced = false;
  /** Relays that did not understand an announcement. */
  readonly #confused = new Set<RelayConfig>();
  /** Of each relay: the times in a row that it did not answer pipelined commands. */
  readonly #unanswered: Map<RelayConfig, number>;
  readonly #idle: Alarm;

  /** Lines to the same relays share `unanswered`. */
  constructor(open: OpenSession, clock: Clock, unanswered = new Map<RelayConfig, number>()) {
    this.#open = open;
    this.#unanswered = unanswered;
    this.#idle = new Alarm(clock, () => void this.close());
  }

  /** True if a session to that relay is open. */
  isOpenTo(relay: RelayConfig): boolean {
    return this.#relay === relay && this.#session?.usable === true;
  }

  /** Opens a session to that relay if there is none. True if it opened one. Rejects with SessionError. */
  async connect(relay: RelayConfig): Promise<boolean> {
    this.#idle.off();
    if (this.isOpenTo(relay)) return false;
    await this.close();
    this.#session = await this.#open(relay);
    this.#relay = relay;
    if ((this.#unanswered.get(relay) ?? 0) >= UNANSWERED_GROUPS_MAX) this.#session.oneByOne();
    this.#sends = 0;
    this.#taken = 0;
    this.#isAnnounced = false;
    return true;
  }

  /** True if the next message may be announced together with the end of the one before. */
  get takesAhead(): boolean {
    return this.#session?.takesAhead === true && this.#relay !== null && !this.#confused.has(this.#relay);
  }

  /**
   * Sends one message over the session, and may announce the `next`. Never rejects. Null: this session did not try the
   * message, so send it over a new one. The relay closed a used connection, or takes no more mails over it, or did not
   * understand the announcement; then it gets no other.
   */
  async send(
    envelope: Envelope,
    content: Buffer | AsyncIterable<Buffer>,
    next: Envelope | null = null,
  ): Promise<Ending | null> {
    if (this.#session === null) throw new Error('a line is connected before it sends');
    const wasAnnounced = this.#isAnnounced;
    this.#isAnnounced = next !== null;
    const isPipelined = this.#session.takesAhead;
    const ending = await this.#session.send(envelope, content, next);
    if (isPipelined && this.#relay !== null) this.#judge(this.#relay, ending);
    const isBroken = ending.phase === 'mail' && 'trouble' in ending && !this.#session.usable;
    if (wasAnnounced && isBroken && this.#relay !== null) {
      this.#confused.add(this.#relay);
      return null;
    }
    if (this.#sends++ > 0 && hasEndedUnused(ending)) return null;
    if (this.#taken > 0 && (isEnoughForOneSession(ending) || wantsNewLogin(ending))) return null;
    if (ending.phase === 'dot' && 'reply' in ending && ending.reply.code < 300) this.#taken++;
    return ending;
  }

  /** A relay may offer PIPELINING and lose the commands behind the first. */
  #judge(relay: RelayConfig, ending: Ending): void {
    if (!['mail', 'rcpt', 'data'].includes(ending.phase)) this.#unanswered.delete(relay);
    else if ('trouble' in ending && ending.trouble.kind === 'deadline')
      this.#unanswered.set(relay, (this.#unanswered.get(relay) ?? 0) + 1);
  }

  /** There is nothing to send now: keeps a good session for a while. */
  rest(): void {
    if (this.#session === null || this.#idle.isSet) return;
    if (this.#session.usable) this.#idle.in(SESSION_IDLE_MS);
    else void this.close();
  }

  /** Closes the session. A message that is being sent ends as lost. Never rejects. */
  async close(): Promise<void> {
    this.#idle.off();
    const session = this.#session;
    this.#session = null;
    await session?.close();
  }
}

function hasEndedUnused(ending: Ending): boolean {
  if (ending.phase !== 'mail') return false;
  return 'reply' in ending ? ending.reply.code === 421 : ending.trouble.kind === 'lost';
}

/** Some relays end the login of a session with the life of its access token. */
function wantsNewLogin(ending: Ending): boolean {
  return ending.phase === 'mail' && 'reply' in ending && [530, 535].includes(ending.reply.code);
}

/** SMTP has no reply for "too many mails in one session": OpenSMTPD says 452 4.5.3, others use words. */
function isEnoughForOneSession(ending: Ending): boolean {
  if (ending.phase !== 'mail' || !('reply' in ending)) return false;
  const { code, enhanced, text } = ending.reply;
  if (code < 400 || code > 499) return false;
  return enhanced === '4.5.3' || /too many (?:e?mails|messages|transactions)/i.test(text);
}
