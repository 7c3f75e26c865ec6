/**
 * The transport of emails: each configured relay is a peer, and each line has one connection to one of them. The cloud may
 * be one of the relays. New relay settings make a new transport.
 */

import { Recent } from '../../../base/collections.js';
import { assert } from '../../../base/errors.js';
import { SECOND_MS } from '../../../base/limits.js';
import { Alarm } from '../../../base/retry/alarm.js';
import { startMsOf } from '../../../base/stamp.js';
import type { Clock } from '../../../base/system/clock.js';
import type { Log } from '../../../base/system/log.js';
import type { RelayView } from '../../../base/views.js';
import type { Address } from '../../message/address.js';
import type { Email, EmailContent, Message, ReadyMadeContent, Sender } from '../../message/message.js';
import { type MailConfig, nameOf, type Relay } from '../../settings.js';
import type { Store } from '../../store/store.js';
import type { CloudSession } from '../cloud-mail.js';
import { nextPeerMs, Peer, type PeerOptions } from '../peer.js';
import { RelayRate } from '../rate.js';
import type { Line, Load, Outcome, Transport } from '../transport.js';
import { outcomeOf, reasonOf, subjectOf } from './failure-classification.js';
import { type Ending, type Envelope, SessionError } from './protocol.js';
import type { Parcel, Rendering } from './rendering.js';
import type { Session } from './session.js';

/** A connection without a message is closed after this long. */
export const SESSION_IDLE_MS = 5 * SECOND_MS;
/** A relay that leaves so many groups of commands in a row without an answer gets one command at a time. */
const UNANSWERED_GROUPS_MAX = 2;
/** Refused senders that are remembered. A device has one or two; a mail may bring any allowed one. */
const REFUSED_SENDERS_MAX = 100;

/** What the transport needs. */
export interface SmtpOptions {
  readonly store: Store;
  readonly config: Pick<
    MailConfig,
    'relays' | 'relayConnections' | 'relayRate' | 'backoffMinMs' | 'backoffMaxMs' | 'retryMaxMs'
  >;
  /** Rejects with SessionError. */
  readonly open: (relay: Relay) => Promise<Session | CloudSession>;
  readonly render: Rendering['parcel'];
  /** The present sender. Some mails are sent with it in place of the stored one. */
  readonly sender: () => Address;
  readonly clock: Clock;
  /** In [0, 1). */
  readonly random: () => number;
  readonly log: Log;
  /** The state of a relay has changed. */
  readonly tell?: (what: 'relay', name: string) => void;
}

/** A mail that can be offered. */
export interface Mail extends Load {
  readonly envelope: Envelope;
  readonly content: Parcel['content'];
  /** Its From header, if that is not the device's own. */
  readonly fromHeader: string | null;
}

/** The relays. */
export class SmtpTransport implements Transport<Mail> {
  readonly peers: readonly Peer[];
  readonly lines: readonly Line<Mail>[];
  readonly scout: Line<Mail>;
  readonly rate: RelayRate | null;
  readonly #options: SmtpOptions;
  readonly #startedMs: number;
  /** Stored senders that a relay has refused. */
  readonly #refused = new Recent<Sender, true>(REFUSED_SENDERS_MAX);

  constructor(options: SmtpOptions) {
    const { config, clock, log, store } = options;
    this.#options = options;
    this.#startedMs = clock.bootMs();
    this.rate = config.relayRate && new RelayRate(config.relayRate, clock, store);
    const relays = new Map<Peer, Relay>();
    for (const relay of config.relays) {
      const name = nameOf(relay);
      const onChange: PeerOptions['onChange'] = (state, why) => {
        log[state === 'ok' ? 'info' : 'warn'](`relay ${state}`, { relay: name, ...why });
        options.tell?.('relay', name);
      };
      relays.set(new Peer(name, { ...options, onChange }), relay);
    }
    this.peers = [...relays.keys()];
    const unanswered = new Map<Peer, number>();
    const line = () =>
      new RelayLine({
        open: (peer) => options.open(relays.get(peer) as Relay),
        clock,
        unanswered,
        heard: () => this.#heard(),
        refused: (from) => this.#refused.set(from, true),
      });
    this.lines = Array.from({ length: config.relayConnections }, line);
    this.scout = line();
  }

  isOpen(): boolean {
    return true;
  }

  async load(message: Message): Promise<Mail> {
    const { store, render } = this.#options;
    const email = message as Email;
    const stored = (await store.content(email)) as EmailContent | ReadyMadeContent;
    const from = this.#senderOf(email, stored);
    const { content, ...kind } = render(email, stored, from);
    const fromHeader = 'missing' in stored ? (stored.fromHeader ?? null) : null;
    return { message, envelope: { from, to: email.destination, ...kind }, content, fromHeader };
  }

  missed(): void {
    this.#options.store.reachability.missed();
  }

  /** All relays as one state: that of the best, with the reasons of all that fail. */
  view(): RelayView {
    const by = (state: RelayView['state']) => this.peers.find((peer) => peer.state === state);
    // A relay that was not needed yet does not show whether mail is delivered.
    const best = by('ok') ?? by('refusing') ?? by('failing') ?? by('unknown');
    const startedMs = startMsOf(this.#options.clock) + this.#startedMs;
    if (best === undefined)
      return { state: 'none', sinceMs: startedMs, reason: null, nextTryMs: null, rate: null };
    const reasons = this.peers.flatMap(({ name, reason }) => (reason === null ? [] : [`${name}: ${reason}`]));
    return {
      state: best.state,
      sinceMs: best.sinceMs,
      reason: reasons.length === 0 ? null : reasons.join('; '),
      nextTryMs: best.isDown ? this.#nextTryMs() : null,
      name: best.name,
      rate: this.rate?.view((this.peers.find(({ isDown }) => !isDown) ?? best).name) ?? null,
    };
  }

  /** Wall time of the next probe; null while one runs. */
  #nextTryMs(): number | null {
    const { clock } = this.#options;
    const readyMs = nextPeerMs(this.peers);
    return Number.isFinite(readyMs) ? startMsOf(clock) + Math.max(readyMs, clock.bootMs()) : null;
  }

  #heard(): void {
    const { store, clock, config } = this.#options;
    // A waiting message causes a try more often than this.
    store.reachability.heard(clock.bootMs(), 2 * config.retryMaxMs);
  }

  /**
   * The sender stored at acceptance. The present one takes its place if a relay has refused the stored one, because a
   * person has corrected FIELDPOST_FROM since; and if a person has queued the message again. A sender that the client
   * chose, and the null sender, stay.
   */
  #senderOf({ from, retried }: Email, content: EmailContent | ReadyMadeContent): Sender {
    const { hasOwnFrom } = 'missing' in content ? content : (content.head ?? {});
    if (from === '' || hasOwnFrom) return from;
    // The present one is not free: it may need the host's name.
    return retried !== undefined || this.#refused.has(from) ? this.#options.sender() : from;
  }
}

/** What a line of relays needs. */
interface LineOptions {
  /** Rejects with SessionError. */
  open(peer: Peer): Promise<Session | CloudSession>;
  readonly clock: Clock;
  /** Of each relay: the times in a row that it did not answer pipelined commands. All lines share it. */
  readonly unanswered: Map<Peer, number>;
  /** The relay can be reached. */
  heard(): void;
  /** The relay refuses this sender. */
  refused(from: Sender): void;
}

/** One connection: opened when there is something to send, used for one message after another, closed when it is idle. */
export class RelayLine implements Line<Mail> {
  readonly #options: LineOptions;
  readonly #idle: Alarm;
  #session: Session | CloudSession | null = null;
  #peer: Peer | null = null;
  /** How many messages this session sent, and how many of them the relay took. */
  #sends = 0;
  #taken = 0;
  #isAnnounced = false;
  /** Relays that did not understand an announcement. */
  readonly #confused = new Set<Peer | null>();

  constructor(options: LineOptions) {
    this.#options = options;
    this.#idle = new Alarm(options.clock, () => void this.close());
  }

  isOpenTo(peer: Peer): boolean {
    return this.#peer === peer && this.#session?.usable === true;
  }

  async open(peer: Peer): Promise<string | null> {
    this.#idle.off();
    if (this.isOpenTo(peer)) return null;
    await this.close();
    try {
      this.#session = await this.#options.open(peer);
    } catch (error) {
      if (!(error instanceof SessionError)) throw error;
      return reasonOf(error.ending);
    }
    this.#peer = peer;
    if ((this.#options.unanswered.get(peer) ?? 0) >= UNANSWERED_GROUPS_MAX) this.#session.oneByOne();
    this.#sends = 0;
    this.#taken = 0;
    this.#isAnnounced = false;
    // The cloud is called with the first mail.
    if ('send' in this.#session) this.#options.heard();
    return null;
  }

  /** No announcement during a streamed mail: a long upload must not block the next message. */
  takesAhead({ content }: Pick<Mail, 'content'>): boolean {
    const { takesAhead = false } = this.#session ?? {};
    return takesAhead && !this.#confused.has(this.#peer) && Buffer.isBuffer(content);
  }

  async offer(mail: Mail, next: Mail | null): Promise<Outcome | null> {
    const { envelope, content, fromHeader } = mail;
    const session = this.#session;
    assert(session !== null, 'a line is opened before it sends');
    let readError: unknown;
    const reported = reporting(content, (error) => {
      readError = error;
    });
    if ('offer' in session) {
      const outcome = await session.offer(mail.message.id, envelope, reported);
      if (session.hasHeard) this.#options.heard();
      return readError === undefined ? outcome : { ...outcome, suspect: 'message', unreadable: readError };
    }
    const ending = await this.#send(session, envelope, reported, next?.envelope ?? null);
    if (ending === null) return null;
    const outcome = outcomeOf(ending, envelope.smtpUtf8);
    if (outcome.suspect === 'device' || outcome.suspect === 'envelope') this.#options.refused(envelope.from);
    if ('reply' in ending) this.#options.heard();
    else if (ending.trouble.kind === 'source')
      return { ...outcome, unreadable: readError ?? ending.trouble.words };
    return fromHeader !== null && refusesSender(ending) ? withFrom(outcome, fromHeader) : outcome;
  }

  /**
   * Null: this session did not try the message, so it goes over a new one. The relay closed a used connection, or takes no
   * more mails over it, or did not understand the announcement; then it gets no other.
   */
  async #send(
    session: Session,
    envelope: Envelope,
    content: Parcel['content'],
    next: Envelope | null,
  ): Promise<Ending | null> {
    const wasAnnounced = this.#isAnnounced;
    this.#isAnnounced = next !== null;
    const isPipelined = session.takesAhead;
    // A stop may close the session meanwhile.
    const ending = await session.send(envelope, content, next);
    if (isPipelined && this.#peer !== null) this.#judge(this.#peer, ending);
    if (wasAnnounced && ending.phase === 'mail' && 'trouble' in ending && !session.usable) {
      this.#confused.add(this.#peer);
      return null;
    }
    if (this.#sends++ > 0 && hasEndedUnused(ending)) return null;
    if (this.#taken > 0 && (isEnoughForOneSession(ending) || wantsNewLogin(ending))) return null;
    if (ending.phase === 'dot' && 'reply' in ending && ending.reply.code < 300) this.#taken++;
    return ending;
  }

  /** A relay may offer PIPELINING and lose the commands behind the first. */
  #judge(peer: Peer, ending: Ending): void {
    const { unanswered } = this.#options;
    if (!['mail', 'rcpt', 'data'].includes(ending.phase)) unanswered.delete(peer);
    else if ('trouble' in ending && ending.trouble.kind === 'deadline')
      unanswered.set(peer, (unanswered.get(peer) ?? 0) + 1);
  }

  /** Keeps a good session for a while. */
  rest(): void {
    if (this.#session === null || this.#idle.isSet) return;
    if (this.#session.usable) this.#idle.in(SESSION_IDLE_MS);
    else void this.close();
  }

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

/** After the content a relay may mean the From header. */
function refusesSender(ending: Ending): boolean {
  return 'reply' in ending && ending.phase === 'dot' && subjectOf(ending.phase, ending.reply) === 'sender';
}

function withFrom(outcome: Outcome, fromHeader: string): Outcome {
  const words = ` (the mail has the header From: ${fromHeader}; see FIELDPOST_FROM_HEADER)`;
  return { ...outcome, reply: outcome.reply + words, reason: outcome.reason + words };
}

/** The same content. An error while it is read is reported, and then thrown. */
function reporting(
  content: Parcel['content'],
  report: (error: unknown) => void,
): Buffer | AsyncIterable<Buffer> {
  if (Buffer.isBuffer(content)) return content;
  return (async function* () {
    try {
      yield* content;
    } catch (error) {
      report(error);
      throw error;
    }
  })();
}
