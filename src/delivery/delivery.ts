/**
 * Delivery of what is in a store: emails by relays; calls, pushes and SMS by the cloud. Each type has a queue of its own,
 * so a call does not wait behind 300 SMS, nor for a provider of SMS that is down.
 * Used by cloud-server/cloud.ts and daemon.ts.
 */
import { heloNameOf, senderOf } from '../config/names.js';
import type { Config } from '../config.js';
import type { Message } from '../message/message.js';
import type { Store } from '../store/store.js';
import type { Clock } from '../system/clock.js';
import type { Connect } from '../system/connect.js';
import type { Log } from '../system/log.js';
import type { Outcomes, RelayView } from '../views.js';
import { CloudTransport, type Short, type ShortWay } from './cloud-transport.js';
import { type AgeingType, Expiry } from './expiry.js';
import { OutcomeWriter } from './outcome-writer.js';
import { Queue } from './queue.js';
import { Rendering } from './smtp/rendering.js';
import type { openSession } from './smtp/smtp-session.js';
import { type Mail, SmtpTransport } from './smtp/smtp-transport.js';
import type { Load, Transport } from './transport.js';

/** What delivery is given. */
export interface DeliveryOptions {
  readonly store: Store;
  /** It may change under delivery; relays are used as it was at the last reload(). */
  readonly config: Config;
  readonly clock: Clock;
  /** In [0, 1). */
  random(): number;
  readonly log: Log;
  readonly connect: Connect;
  /** The device's name at this moment. */
  hostname(): string;
  /** Told of the octets that were streamed, so that memory does not pile up. */
  readonly streamed?: (bytes: number) => void;
  /** Left out: over sockets. */
  readonly openSession?: typeof openSession;
  /** How SMS, calls and pushes leave; null: there is no way, and they grow old. */
  readonly short: ShortWay | null;
}

/** Calls first: they are the most urgent. */
const TYPES: readonly AgeingType[] = [3, 4, 2];

/** A queue of what goes by the cloud. */
interface ShortQueue {
  readonly type: AgeingType;
  readonly transport: CloudTransport;
  readonly queue: Queue<Short>;
}

/** All ways out; idle until started. */
export class Delivery {
  readonly #options: DeliveryOptions;
  readonly #writer: OutcomeWriter;
  readonly #expiry: Expiry;
  readonly #rendering: Rendering;
  readonly #shorts: readonly ShortQueue[];
  #relays: SmtpTransport;
  #mails: Queue<Mail>;

  constructor(options: DeliveryOptions) {
    const { short } = options;
    this.#options = options;
    this.#writer = new OutcomeWriter(options, {
      deferred: (id) => this.#deferred(id),
      relieved: () => this.#relieved(),
    });
    const reasonOf = (type: AgeingType) => this.#shortOf(type)?.transport.peers[0].reason ?? null;
    this.#expiry = new Expiry({ ...options, writer: this.#writer, reasonOf });
    this.#rendering = new Rendering({ ...options, sender: this.#sender });
    this.#shorts = short === null ? [] : TYPES.map((type) => this.#shortQueue(type, short));
    this.#relays = this.#openRelays();
    this.#mails = this.#queue(this.#relays, 1);
  }

  /** How many messages came to what, since the start. */
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

  /** What mails will be, and how large relays take them. */
  get rendering(): Pick<Rendering, 'limitBytes' | 'bytesOf'> {
    return this.#rendering;
  }

  start(): void {
    this.#expiry.start();
    for (const queue of this.#queues) queue.start();
  }

  /** Something may be there to send, or to be left alone: after an accept, retry, flush, hold or release. */
  nudge(): void {
    this.#expiry.nudge();
    for (const queue of this.#queues) queue.nudge();
  }

  /** The network or the link is back, or a person wants it so: what fails is tried at once. */
  wake(): void {
    this.#expiry.nudge();
    for (const queue of this.#queues) queue.wake();
  }

  /**
   * Follows new settings. `renewsRelays`: the mail under way is finished within STOP_SENDING_MS, then relays are used as
   * they are set now.
   */
  async reload(renewsRelays: boolean): Promise<void> {
    this.#expiry.lookAtAll();
    if (!renewsRelays) return;
    await this.#mails.stop();
    this.#relays = this.#openRelays();
    this.#mails = this.#queue(this.#relays, 1);
    this.#mails.start();
  }

  /** Finishes what is being sent, for at most STOP_SENDING_MS. */
  async stop(): Promise<void> {
    await Promise.all([this.#expiry.stop(), ...this.#queues.map((queue) => queue.stop())]);
    await this.#writer.stop();
  }

  get #queues(): readonly Pick<Queue<Mail>, 'start' | 'nudge' | 'wake' | 'relieved' | 'stop'>[] {
    return [this.#mails, ...this.#shorts.map(({ queue }) => queue)];
  }

  #shortOf(type: Message['type']): ShortQueue | undefined {
    return this.#shorts.find((short) => short.type === type);
  }

  #deferred(id: string): void {
    const message = this.#options.store.get(id);
    if (message === undefined) return;
    (this.#shortOf(message.type)?.queue ?? this.#mails).deferred(id);
    this.#expiry.expect(message);
  }

  #relieved(): void {
    this.#expiry.lookAtAll();
    for (const queue of this.#queues) queue.relieved();
  }

  readonly #sender = () => senderOf(this.#options.config, this.#options.hostname());

  #openRelays(): SmtpTransport {
    const { config, clock, connect, hostname } = this.#options;
    const session = {
      password: config.relayPassword,
      ca: config.relayCa,
      timeoutMs: config.smtpTimeoutMs,
      clock,
      connect,
    };
    return new SmtpTransport({
      ...this.#options,
      sender: this.#sender,
      render: (...mail) => this.#rendering.parcel(...mail),
      open: async (relay) => {
        // Loaded with the first connection: a daemon that waits for a link need not carry TLS about.
        const open = this.#options.openSession ?? (await import('./smtp/smtp-session.js')).openSession;
        const opened = await open({ relay, ...session, helo: heloNameOf(config, hostname()) });
        this.#rendering.heard(relay, opened.sizeLimit);
        return opened;
      },
    });
  }

  #shortQueue(type: AgeingType, way: ShortWay): ShortQueue {
    const transport = new CloudTransport(way, this.#options);
    return { type, transport, queue: this.#queue(transport, type) };
  }

  #queue<L extends Load>(transport: Transport<L>, type: Message['type']): Queue<L> {
    const options = { ...this.#options, writer: this.#writer, expiry: this.#expiry };
    return new Queue(transport, (message) => message.type === type, options);
  }
}
