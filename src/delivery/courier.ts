/**
 * Offers one message to one relay and judges what comes of it: the loop asks, and acts on the answer. What
 * needs more than a single ending to be judged is remembered: lost connections here, and how long relays were
 * reachable in the store.
 */
import { FieldpostError, wordsOf } from '../errors.js';
import type { Content, Message, Verdict } from '../message/message.js';
import { ageMs } from '../message/stamp.js';
import { isExpired } from './age.js';
import { SessionError } from './conversation.js';
import type { Line } from './line.js';
import type { DeliveryOptions } from './loop.js';
import { type Outcome, outcomeOf, reasonOf } from './outcome.js';
import type { RelayHealth } from './relay-health.js';
import type { Ending } from './reply.js';
import { retryDelayMs } from './schedule.js';

/** A message as it goes over the wire. */
export interface Parcel {
  /** Bytes of the content. */
  readonly size: number;
  /** True if an address or a header goes beyond ASCII. */
  readonly smtpUtf8: boolean;
  readonly content: Buffer | AsyncIterable<Buffer>;
}

/** Throws storage-damaged, as does the content when read, if something is not what was accepted. */
export type Render = (message: Message, content: Content) => Parcel;

/**
 * `unoffered`: nothing has happened, it is still the next. `behind`: nothing is charged, the others go first;
 * `isOutage` if the relay alone is to blame, so that the message takes its old place once the relay is well.
 */
export type Fate =
  | Verdict
  | { readonly kind: 'unoffered' }
  | { readonly kind: 'behind'; readonly reply: string; readonly isOutage: boolean };

/** How many messages are remembered to have lost a connection. Forgetting one gives it another free loss. */
const LOST_MAX = 1000;
const UNOFFERED: Fate = { kind: 'unoffered' };

/** One for all lines. */
export class Courier {
  readonly #options: DeliveryOptions;
  /** Messages whose last offer ended with the connection. */
  readonly #lost = new Set<string>();
  #isAbandoning = false;

  constructor(options: DeliveryOptions) {
    this.#options = options;
  }

  /** Sees to it that the line leads to the relay. False if it cannot, which is the relay's trouble alone. */
  async reach(line: Line, health: RelayHealth): Promise<boolean> {
    try {
      if (await line.connect(health.relay)) this.#heard();
      return true;
    } catch (error) {
      if (!(error instanceof SessionError)) throw error;
      health.failed(reasonOf(error.ending));
      return false;
    }
  }

  /** No relay is of any use: this time does not count. */
  missed(): void {
    this.#options.store.reachability.missed();
  }

  #heard(): void {
    const { store, clock, config } = this.#options;
    // A message waiting for its turn asks more often than this.
    store.reachability.heard(clock.bootMs(), 2 * config.retryMaxMs);
  }

  /** We are about to close the connections: what ends now ends by our own doing. */
  abandon(): void {
    this.#isAbandoning = true;
  }

  /** Q3: offers the message, which has been taken, over the line. */
  async offer(line: Line, health: RelayHealth, message: Message): Promise<Fate> {
    const { store, config, render } = this.#options;
    let parcel: Parcel;
    try {
      parcel = render(message, await store.content(message));
    } catch (error) {
      return this.#unreadable(message, error);
    }
    let readError: unknown;
    const content = reporting(parcel.content, (error) => {
      readError = error;
    });
    const { size, smtpUtf8 } = parcel;
    const ending = await line.send({ from: config.from, to: message.destination, size, smtpUtf8 }, content);
    if (ending === null) return UNOFFERED;
    const outcome = outcomeOf(ending, smtpUtf8);
    if (this.#isAbandoning && outcome.kind !== 'sent') return this.#abandoned(message, outcome);
    this.#judgeRelay(health, outcome, ending);
    if ('trouble' in ending && ending.trouble.kind === 'source') {
      return this.#unreadable(message, readError ?? ending.trouble.words);
    }
    return this.#judge(message, outcome);
  }

  /** Never half a mail; and no mail that we cannot read keeps the others waiting. */
  #unreadable(message: Message, error: unknown): Fate {
    const reason = wordsOf(error);
    this.#options.log.error('message unreadable', { id: message.id, reason });
    return error instanceof FieldpostError && error.code === 'storage-damaged'
      ? { kind: 'failed', reply: 'storage damaged' }
      : this.#deferral(message, reason);
  }

  #abandoned({ id }: Message, { reply }: Outcome): Fate {
    this.#options.log.warn('send abandoned', { id, reply });
    return UNOFFERED;
  }

  #judgeRelay(health: RelayHealth, { blame }: Outcome, ending: Ending): void {
    if ('reply' in ending) this.#heard();
    if (blame === 'relay' || blame === 'both') health.failed(reasonOf(ending));
    else health.good();
  }

  #judge(message: Message, { kind, blame, reply }: Outcome): Fate {
    const wasLost = this.#lost.has(message.id);
    if (blame === 'both') this.#rememberLoss(message.id);
    else if (blame !== 'relay') this.#lost.delete(message.id);
    if (kind !== 'deferred') return { kind, reply };
    // It has been offered, so it may expire.
    const { store, clock, config } = this.#options;
    if (isExpired(message, config.maxAgeMs[message.type], store, clock)) return { kind: 'expired', reply };
    // The second connection lost in a row over one message is charged to it, and so is each further one.
    const isCharged = blame === 'message' || (blame === 'both' && wasLost);
    return isCharged
      ? this.#deferral(message, reply)
      : { kind: 'behind', reply, isOutage: blame === 'relay' };
  }

  #rememberLoss(id: string): void {
    this.#lost.delete(id);
    this.#lost.add(id);
    for (const oldest of this.#lost) {
      if (this.#lost.size <= LOST_MAX) break;
      this.#lost.delete(oldest);
    }
  }

  #deferral(message: Message, reply: string): Fate {
    const { store, config, random, clock } = this.#options;
    const oldMs = ageMs(message.retried ?? message.accepted, clock, store.boots);
    const delayMs = retryDelayMs(oldMs, random(), config.retryMinMs, config.retryMaxMs);
    return { kind: 'deferred', reply, delayMs };
  }
}

/** The same content; an error of reading it is told before it goes on to whoever reads. */
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
