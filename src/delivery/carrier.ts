/**
 * Takes one type of message to the cloud: SMS, phone calls or push messages, one message after another while the link
 * is online. It takes the same care as the relays' loop: trouble of the cloud charges no message, and no message keeps
 * the others waiting. Used by gateway.ts, which has one for each type.
 */
import type { Config } from '../config.js';
import { assert } from '../errors.js';
import { STOP_SENDING_MS } from '../limits.js';
import type { Message, ShortContent, Verdict } from '../message/message.js';
import { Backoff } from '../retry/backoff.js';
import type { Timer } from '../system/clock.js';
import { Agenda } from './agenda.js';
import { type ChargeOptions, deferral, unreadable } from './charge.js';
import { CLOUD, type Expiry } from './expiry.js';
import type { OutcomeWriter } from './outcome-writer.js';
import { Refusals } from './refusals.js';

/** A message as the cloud is given it. */
export type ShortMessage = ShortContent & {
  readonly id: string;
  readonly type: 2 | 3 | 4;
  readonly destination: string;
};

/**
 * What came of an offer. `later`: it was neither taken nor refused. `isReached`: there was a connection, so the cloud
 * may have seen the message.
 */
export type GatewayAnswer =
  | { readonly kind: 'taken' | 'refused'; readonly reply: string }
  | {
      readonly kind: 'later';
      readonly reply: string;
      readonly retryAfterMs: number | null;
      readonly isReached: boolean;
    };

/** What the gateway is given. */
export interface GatewayOptions extends ChargeOptions {
  readonly writer: OutcomeWriter;
  readonly config: Pick<Config, 'backoffMinMs' | 'backoffMaxMs' | 'retryMinMs' | 'retryMaxMs' | 'maxAgeMs'>;
  readonly send: (message: ShortMessage, signal: AbortSignal) => Promise<GatewayAnswer>;
  /** While it is not, nothing is attempted. */
  readonly isOnline: () => boolean;
}

/** Sends the messages of one type; idle until started. */
export class Carrier {
  readonly #options: GatewayOptions;
  readonly #expiry: Expiry;
  readonly #agenda: Agenda;
  readonly #writer: OutcomeWriter;
  readonly #stopped = new AbortController();
  #mode: 'idle' | 'running' | 'stopping' = 'idle';
  #timer: Timer | null = null;
  #working: Promise<void> | null = null;
  readonly #backoff: Backoff;
  /** Why the cloud is left alone; null while it works. */
  #reason: string | null = null;
  /** What the cloud has put off, and what it has taken or refused since. */
  readonly #refusals: Refusals;

  constructor(type: ShortMessage['type'], options: GatewayOptions, expiry: Expiry) {
    this.#expiry = expiry;
    const { store, clock } = options;
    this.#options = options;
    this.#backoff = new Backoff(options);
    this.#agenda = new Agenda(store, clock, (message) => message.type === type);
    this.#writer = options.writer;
    this.#refusals = new Refusals(clock);
  }

  start(): void {
    assert(this.#mode === 'idle');
    this.#mode = 'running';
    this.#pump();
  }

  /** Why messages wait although the link is online; null if none does. */
  get reason(): string | null {
    return this.#agenda.ready() > 0 ? this.#reason : null;
  }

  /** Why the cloud is left alone; null while it works. */
  get trouble(): string | null {
    return this.#reason;
  }

  /** Something may be there to send, or to be left alone: after an accept, retry, flush, hold or release. */
  nudge(): void {
    this.#agenda.review();
    if (this.#writer.isWaiting) void this.#writer.tryAgain();
    else this.#pump();
  }

  /** The store has deferred it. */
  deferred(id: string): void {
    this.#agenda.deferred(id);
  }

  /** There is room again for what becomes of messages. */
  relieved(): void {
    this.#pump();
  }

  /** The link is online (again), or it is wanted now: the back-off is over, unless the cloud asked for it. */
  wake(): void {
    this.#backoff.wake();
    this.nudge();
  }

  /** Finishes what is being sent, for at most STOP_SENDING_MS. */
  async stop(): Promise<void> {
    this.#mode = 'stopping';
    this.#timer?.stop();
    const patience = this.#options.clock.after(STOP_SENDING_MS, () => this.#stopped.abort());
    await this.#working;
    patience.stop();
  }

  get #mayWork(): boolean {
    return this.#mode === 'running' && !this.#writer.isStuck;
  }

  get #maySend(): boolean {
    const { store, clock, isOnline } = this.#options;
    return this.#mayWork && !store.held && isOnline() && clock.bootMs() >= this.#backoff.readyMs;
  }

  /** Begins what can begin now, and sets the one timer for what can begin later. */
  #pump(): void {
    this.#timer?.stop();
    this.#timer = null;
    if (this.#working !== null || !this.#mayWork) return;
    const { clock } = this.#options;
    if (this.#maySend && this.#agenda.ready() > 0 && this.#writer.mayOffer()) {
      this.#working = this.#work().finally(() => {
        this.#working = null;
        this.#pump();
      });
      return;
    }
    const nextMs = this.#nextSendMs;
    if (nextMs === Number.POSITIVE_INFINITY) return;
    this.#timer = clock.after(Math.max(1, nextMs - clock.bootMs()), () => this.#pump());
  }

  /** When there may be something to send; Infinity: not by itself. */
  get #nextSendMs(): number {
    const { store, isOnline } = this.#options;
    // Without room for an outcome relieved() is called.
    if (store.held || !isOnline() || !store.hasReserve) return Number.POSITIVE_INFINITY;
    const { readyMs } = this.#backoff;
    return this.#agenda.ready() > 0 ? readyMs : Math.max(this.#agenda.nextMs, readyMs);
  }

  /** Offers one message after another. */
  async #work(): Promise<void> {
    while (this.#maySend && this.#agenda.ready() > 0 && this.#writer.mayOffer()) {
      const message = this.#agenda.claim(this.#backoff.isFailing);
      if (message === null) break;
      if (this.#expiry.isOver(message, false)) await this.#conclude(message, this.#expiry.verdictOn(message));
      else await this.#offer(message);
    }
  }

  /** Q3: offers one message that is claimed, and acts on what comes of it. */
  async #offer(message: Message): Promise<void> {
    const { store, send } = this.#options;
    const { id, destination } = message;
    let content: ShortContent;
    try {
      content = (await store.content(message)) as ShortContent;
    } catch (error) {
      return this.#conclude(message, unreadable(message, error, this.#options));
    }
    const type = message.type as ShortMessage['type'];
    this.#backoff.begin();
    const answer = await send({ id, type, destination, ...content }, this.#stopped.signal);
    if (answer.kind === 'later') return this.#putOffOrDefer(message, answer);
    if (this.#backoff.isFailing) this.#agenda.letBack();
    this.#backoff.good();
    this.#reason = null;
    this.#refusals.taken(message.id);
    const kind = answer.kind === 'taken' ? 'sent' : 'failed';
    return this.#conclude(message, { kind, reply: answer.reply });
  }

  async #conclude({ id }: Message, verdict: Verdict): Promise<void> {
    await this.#writer.record({ id, verdict, relay: CLOUD });
  }

  /**
   * The cloud is left alone for a while, and the message goes behind the others. If others have passed since, it is
   * this one that the cloud cannot digest: then it waits alone, and its wait is charged to it; but what the cloud asks
   * for is granted first.
   */
  async #putOffOrDefer(message: Message, answer: GatewayAnswer & { kind: 'later' }): Promise<void> {
    const { clock, log } = this.#options;
    const { id } = message;
    const { reply } = answer;
    const askedMs = answer.retryAfterMs ?? 0;
    if (this.#stopped.signal.aborted) {
      log.warn('send abandoned', { id, reply });
      this.#giveBack(message);
      return;
    }
    // The network's trouble says nothing of the message.
    const isItsOwn = answer.isReached && this.#refusals.refused(id) === 'message';
    if (!isItsOwn || askedMs > 0) {
      this.#backoff.failed(askedMs);
      // One trouble is told once, however many messages it puts behind.
      if (this.#reason === null && !isItsOwn) log.info('put behind', { id, relay: CLOUD, reply });
      this.#reason = reply;
    }
    if (isItsOwn) {
      // Between two pauses the others have time to pass.
      const pauseMs = Math.max(0, this.#backoff.readyMs - clock.bootMs());
      const { delayMs, ...rest } = deferral(message, reply, this.#options);
      return this.#conclude(message, { ...rest, delayMs: pauseMs + delayMs });
    }
    this.#giveBack(message);
    this.#agenda.putBehind(message, true);
  }

  #giveBack(message: Message): void {
    this.#options.store.giveBack(message.id);
    this.#expiry.expect(message);
  }
}
