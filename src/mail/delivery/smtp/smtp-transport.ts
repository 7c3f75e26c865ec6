/**
 * The transport of emails: each configured relay is a peer, and each line has one connection to one of them. New relay
 * settings make a new transport.
 */

import type { Config } from '../../../base/config/settings.js';
import type { RelayConfig } from '../../../base/config/types.js';
import { Recent } from '../../../base/recent.js';
import { startMsOf } from '../../../base/stamp.js';
import type { Clock } from '../../../base/system/clock.js';
import type { Log } from '../../../base/system/log.js';
import type { RelayView } from '../../../base/views.js';
import type { Address } from '../../message/address.js';
import type { Email, EmailContent, Message, ReadyMadeContent, Sender } from '../../message/message.js';
import type { Store } from '../../store/store.js';
import { nextPeerMs, Peer } from '../peer.js';
import type { Line, Load, Outcome, Transport } from '../transport.js';
import type { Envelope } from './envelope.js';
import { outcomeOf, reasonOf } from './outcome.js';
import { subjectOf } from './refusal.js';
import type { Parcel, Rendering } from './rendering.js';
import type { Ending } from './reply.js';
import { type OpenSession, SessionError } from './session.js';
import { SessionLine } from './session-line.js';

/** Refused senders that are remembered. A device has one or two; a mail may bring any allowed one. */
const REFUSED_SENDERS_MAX = 100;

/** What the transport needs. */
export interface SmtpOptions {
  readonly store: Store;
  readonly config: Pick<
    Config,
    'relays' | 'relayConnections' | 'backoffMinMs' | 'backoffMaxMs' | 'retryMaxMs'
  >;
  /** Rejects with SessionError. */
  readonly open: OpenSession;
  readonly render: Rendering['parcel'];
  /** The present sender. Some mails are sent with it in place of the stored one. */
  readonly sender: () => Address;
  readonly clock: Clock;
  /** In [0, 1). */
  readonly random: () => number;
  readonly log: Log;
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
  readonly #options: SmtpOptions;
  readonly #startedMs: number;
  /** Stored senders that a relay has refused. */
  readonly #refused = new Recent<Sender, true>(REFUSED_SENDERS_MAX);

  constructor(options: SmtpOptions) {
    const { config, clock, log } = options;
    this.#options = options;
    this.#startedMs = clock.bootMs();
    const relays = new Map<Peer, RelayConfig>();
    for (const config of options.config.relays) {
      const relay = `${config.host}:${config.port}`;
      const onFailing = (reason: string) => log.warn('relay failing', { relay, reason });
      const onRefusing = (reason: string) => log.warn('relay refusing', { relay, reason });
      const onOk = (failedMs: number | undefined) => log.info('relay ok', { relay, failedMs });
      relays.set(new Peer(relay, { ...options, onFailing, onRefusing, onOk }), config);
    }
    this.peers = [...relays.keys()];
    const unanswered = new Map<RelayConfig, number>();
    const line = () =>
      new RelayLine(new SessionLine(options.open, clock, unanswered), relays, {
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
    if (best === undefined) return { state: 'none', sinceMs: startedMs, reason: null, nextTryMs: null };
    const reasons = this.peers.flatMap(({ name, reason }) => (reason === null ? [] : [`${name}: ${reason}`]));
    return {
      state: best.state,
      sinceMs: best.sinceMs,
      reason: reasons.length === 0 ? null : reasons.join('; '),
      nextTryMs: best.isDown ? this.#nextTryMs() : null,
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

/** What a line learns about its relay. */
interface RelayListener {
  /** The relay can be reached. */
  heard(): void;
  /** The relay refuses this sender. */
  refused(from: Sender): void;
}

/** One connection to one of the relays. */
class RelayLine implements Line<Mail> {
  readonly #session: SessionLine;
  readonly #relays: ReadonlyMap<Peer, RelayConfig>;
  readonly #listener: RelayListener;

  constructor(session: SessionLine, relays: ReadonlyMap<Peer, RelayConfig>, listener: RelayListener) {
    this.#session = session;
    this.#relays = relays;
    this.#listener = listener;
  }

  isOpenTo(peer: Peer): boolean {
    return this.#session.isOpenTo(this.#relayOf(peer));
  }

  async open(peer: Peer): Promise<string | null> {
    try {
      if (await this.#session.connect(this.#relayOf(peer))) this.#listener.heard();
      return null;
    } catch (error) {
      if (!(error instanceof SessionError)) throw error;
      return reasonOf(error.ending);
    }
  }

  /** No announcement during a streamed mail: a long upload must not block the next message. */
  takesAhead({ content }: Mail): boolean {
    return this.#session.takesAhead && Buffer.isBuffer(content);
  }

  async offer({ envelope, content, fromHeader }: Mail, next: Mail | null): Promise<Outcome | null> {
    let readError: unknown;
    const reported = reporting(content, (error) => {
      readError = error;
    });
    const ending = await this.#session.send(envelope, reported, next?.envelope);
    if (ending === null) return null;
    const outcome = outcomeOf(ending, envelope.smtpUtf8);
    if (outcome.suspect === 'device' || outcome.suspect === 'envelope') this.#listener.refused(envelope.from);
    if ('reply' in ending) this.#listener.heard();
    else if (ending.trouble.kind === 'source')
      return { ...outcome, unreadable: readError ?? ending.trouble.words };
    return fromHeader !== null && refusesSender(ending) ? withFrom(outcome, fromHeader) : outcome;
  }

  rest(): void {
    this.#session.rest();
  }

  close(): Promise<void> {
    return this.#session.close();
  }

  #relayOf(peer: Peer): RelayConfig {
    return this.#relays.get(peer) as RelayConfig;
  }
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
