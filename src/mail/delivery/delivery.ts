/**
 * Delivers the messages of a store: emails by relays; calls, pushes and SMS by the cloud. Each type has a queue of its own,
 * so a call does not wait behind 300 SMS, nor for an SMS provider that is down.
 */

import { FieldpostError } from '../../base/errors.js';
import { SECOND_MS } from '../../base/limits.js';
import type { Clock } from '../../base/system/clock.js';
import type { Connect } from '../../base/system/connect.js';
import type { Log } from '../../base/system/log.js';
import type { Outcomes, RelayView, TrialStep, TriedRelay } from '../../base/views.js';
import type { Message, Verdict } from '../message/message.js';
import { heloNameOf, senderOf } from '../names.js';
import { CLOUD, type MailConfig, showRelay } from '../settings.js';
import type { IsWanted, Store } from '../store/store.js';
import type { CloudSession, CloudTrial } from './cloud-mail.js';
import { CloudTransport, type Short, type ShortWay } from './cloud-transport.js';
import { type AgeingType, Expiry } from './expiry.js';
import { type OpenTokenSource, RelayTokens } from './oauth/access-tokens.js';
import { OutcomeWriter } from './outcome-writer.js';
import { Queue } from './queue.js';
import { type LateConfig, Rendering } from './smtp/rendering.js';
import type { openSession } from './smtp/session.js';
import { type Mail, SmtpTransport } from './smtp/smtp-transport.js';
import type { Load, Transport } from './transport.js';

/** An outcome of the message `id` is recorded, or the state of the relay of this name has changed. */
export type Tell = (what: Verdict['kind'] | 'relay', id: string) => void;

/** What delivery is given. */
interface DeliveryOptions {
  readonly store: Store;
  /** A reload may change it at any time. Its relay settings take effect with reload(). */
  readonly config: MailConfig & LateConfig;
  readonly clock: Clock;
  /** In [0, 1). */
  random(): number;
  readonly log: Log;
  readonly connect: Connect;
  /** The device's name at this moment. */
  hostname(): string;
  /** Called with the number of bytes that were streamed, so that a garbage collection can free them in time. */
  readonly streamed?: (bytes: number) => void;
  /** True: a killed process sends at most one message twice, not two. */
  readonly recordsEach?: boolean;
  /** Over sockets if left out. */
  readonly openSession?: typeof openSession;
  /** Where access tokens for relays come from; only with settings that name no such source it may be left out. */
  readonly openTokens?: OpenTokenSource;
  /** How SMS, calls and pushes leave; null: they cannot be sent, and expire. */
  readonly short: ShortWay | null;
  readonly tell?: Tell;
}

/** Calls first: they are the most urgent. */
const TYPES: readonly AgeingType[] = [3, 4, 2];

/** The queue of one type that goes by the cloud, or of the messages apart. */
interface ShortQueue {
  readonly takes: IsWanted;
  readonly transport: CloudTransport;
  readonly queue: Queue<Short>;
}

/** In a trial of the relays an answer may take this long, or less if the settings say so. */
const TRIAL_ANSWER_MS = 15 * SECOND_MS;
const NOT_OVER = { step: 'time', words: 'the trial took too long', blame: 'relay', hint: '' } as const;

/** All queues; idle until started. */
export class Delivery {
  readonly #options: DeliveryOptions;
  readonly #writer: OutcomeWriter;
  readonly #expiry: Expiry;
  readonly #rendering: Rendering;
  readonly #shorts: readonly ShortQueue[];
  readonly #tokens: RelayTokens;
  #relays: SmtpTransport;
  #mails: Queue<Mail>;
  #isTrying = false;

  constructor(options: DeliveryOptions) {
    const { short } = options;
    this.#options = options;
    this.#writer = new OutcomeWriter(options, {
      deferred: (id) => this.#deferred(id),
      relieved: () => this.#relieved(),
      tell: options.tell,
    });
    const reasonOf = (message: Message) => this.#shortOf(message)?.transport.peers[0].reason ?? null;
    this.#expiry = new Expiry({ ...options, writer: this.#writer, reasonOf });
    this.#rendering = new Rendering({ ...options, sender: this.#sender });
    this.#shorts = short === null ? [] : queuesOf(short).map((takes) => this.#shortQueue(takes, short));
    this.#tokens = new RelayTokens(options.config, options.openTokens);
    this.#relays = this.#openRelays();
    this.#mails = this.#queue(this.#relays, isMail);
  }

  /** How many messages were sent, deferred, failed and expired since the start. */
  get outcomes(): Readonly<Outcomes> {
    return this.#writer.outcomes;
  }

  relayView(): RelayView {
    return this.#relays.view();
  }

  /** Why messages wait although the link is online; null if none does. */
  get waitReason(): string | null {
    for (const { transport, queue } of this.#shorts) {
      const { reason } = transport.peers[0];
      if (reason !== null && queue.hasReady) return reason;
    }
    return null;
  }

  /** The size of a mail, and the largest size that the relays take. */
  get rendering(): Pick<Rendering, 'limitBytes' | 'bytesOf'> {
    return this.#rendering;
  }

  start(): void {
    this.#expiry.start();
    for (const queue of this.#queues) queue.start();
  }

  /**
   * Checks what may be sent now. Call it after an accept, retry, flush, hold or release. `lifeMs`: the shortest life that an
   * accepted or retried message gave itself.
   */
  nudge(lifeMs?: number): void {
    this.#expiry.nudge(lifeMs);
    for (const queue of this.#queues) queue.nudge();
  }

  /** Tries failing relays and the cloud at once, because the network is back or a person asked for it. */
  wake(): void {
    this.#expiry.nudge();
    for (const queue of this.#queues) queue.wake();
  }

  /**
   * Follows new settings. With `renewsRelays` it finishes the mail under way within STOP_SENDING_MS, then uses the relays
   * of the new settings.
   */
  async reload(renewsRelays: boolean): Promise<void> {
    this.#expiry.lookAtAll();
    if (!renewsRelays) return;
    await this.#mails.stop();
    await this.#tokens.reload();
    this.#relays = this.#openRelays();
    this.#mails = this.#queue(this.#relays, isMail);
    this.#mails.start();
  }

  /**
   * Tries each relay for a person, beside the queue, and sends no mail. After `signal` it resolves at once, and begins with
   * no further relay. Throws busy while another trial runs.
   */
  async tryRelays(signal: AbortSignal): Promise<readonly TriedRelay[]> {
    if (this.#isTrying) throw new FieldpostError('busy', 'The relay is being tried already');
    this.#isTrying = true;
    // A reload may replace them meanwhile.
    const { relays } = this.#options.config;
    const tried = relays.map(
      (relay): TriedRelay => ({ relay: showRelay(relay), steps: [], fault: NOT_OVER }),
    );
    const over = this.#tryEach(relays, tried, signal).finally(() => {
      this.#isTrying = false;
    });
    const ended = new Promise((resolve) => signal.addEventListener('abort', resolve));
    await Promise.race([over, ended]);
    // A trial that goes on changes nothing of this answer.
    return structuredClone(tried);
  }

  async #tryEach(
    relays: MailConfig['relays'],
    tried: readonly TriedRelay[],
    signal: AbortSignal,
  ): Promise<void> {
    const { config, clock, connect, hostname } = this.#options;
    const { tryRelay } = await import('./smtp/trial.js');
    // The source of the tokens is that of the queue.
    const tokens = {
      session: ((...of) => this.#tokens.session(...of)) as RelayTokens['session'],
      close: async () => undefined,
    };
    const limits = { smtpTimeoutMs: Math.min(config.smtpTimeoutMs, TRIAL_ANSWER_MS) };
    const own = { config: { ...config, ...limits }, to: null, version: '', id: '' };
    for (const [index, relay] of relays.entries()) {
      const one = tried[index];
      if (one === undefined || signal.aborted) return;
      const trial = { ...own, tell: (step: TrialStep) => void one.steps.push(step), clock, hostname };
      one.fault =
        relay === CLOUD ? await this.#tryCloud(trial) : await tryRelay(relay, { ...trial, connect, tokens });
    }
  }

  async #tryCloud(trial: CloudTrial): Promise<TriedRelay['fault']> {
    const { tryCloud } = await import('./cloud-mail.js');
    return await tryCloud(this.#options.short?.sendMail ?? null, trial);
  }

  /** Finishes the messages that are being sent, within STOP_SENDING_MS. */
  async stop(): Promise<void> {
    await Promise.all([this.#expiry.stop(), ...this.#queues.map((queue) => queue.stop())]);
    await this.#tokens.close();
    await this.#writer.stop();
  }

  get #queues(): readonly Pick<Queue<Mail>, 'start' | 'nudge' | 'wake' | 'relieved' | 'stop'>[] {
    return [this.#mails, ...this.#shorts.map(({ queue }) => queue)];
  }

  #shortOf(message: Message): ShortQueue | undefined {
    return this.#shorts.find(({ takes }) => takes(message));
  }

  #deferred(id: string): void {
    const message = this.#options.store.get(id);
    if (message === undefined) return;
    (this.#shortOf(message)?.queue ?? this.#mails).deferred(id);
    this.#expiry.expect(message);
  }

  #relieved(): void {
    this.#expiry.lookAtAll();
    for (const queue of this.#queues) queue.relieved();
  }

  readonly #sender = () => senderOf(this.#options.config, this.#options.hostname);

  #openRelays(): SmtpTransport {
    const { config, clock, connect, hostname } = this.#options;
    const { relayPassword: password, relayCa: ca, relayCert: cert, relayKey: key } = config;
    const session = { password, ca, cert, key, timeoutMs: config.smtpTimeoutMs, clock, connect };
    return new SmtpTransport({
      ...this.#options,
      sender: this.#sender,
      render: (...mail) => this.#rendering.parcel(...mail),
      open: async (relay) => {
        if (relay === CLOUD) return await this.#openCloud(config.smtpTimeoutMs);
        // Loaded with the first connection: TLS needs memory that a daemon without a link does not need.
        const open = this.#options.openSession ?? (await import('./smtp/session.js')).openSession;
        const helo = heloNameOf(config, hostname());
        const opened = await this.#tokens.session(relay, (token) => open({ relay, ...session, token, helo }));
        this.#rendering.heard(relay, opened.sizeLimit);
        return opened;
      },
    });
  }

  async #openCloud(timeoutMs: number): Promise<CloudSession> {
    const { CloudSession, noLink } = await import('./cloud-mail.js');
    const { sendMail, isOnline } = this.#options.short ?? {};
    if (sendMail === undefined || isOnline === undefined) throw noLink();
    return new CloudSession({ sendMail, isOnline }, timeoutMs);
  }

  #shortQueue(takes: IsWanted, way: ShortWay): ShortQueue {
    const transport = new CloudTransport(way, this.#options);
    return { takes, transport, queue: this.#queue(transport, takes) };
  }

  #queue<L extends Load>(transport: Transport<L>, takes: IsWanted): Queue<L> {
    const options = { ...this.#options, writer: this.#writer, expiry: this.#expiry };
    return new Queue(transport, takes, options);
  }
}

const isMail: IsWanted = ({ type }) => type === 1;

/** Which messages each queue takes: every message that is no mail has one. */
function queuesOf({ isApart }: ShortWay): IsWanted[] {
  const ofTypes = TYPES.map(
    (own): IsWanted =>
      (known) =>
        known.type === own && !isApart?.(known),
  );
  return isApart === undefined ? ofTypes : [...ofTypes, isApart];
}
