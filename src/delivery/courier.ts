/**
 * Offers one message to one relay and judges what comes of it: the loop asks, and acts on the answer. What
 * needs more than a single ending to be judged is remembered: lost connections here, and how long relays were
 * reachable in the store.
 */
import type { Address } from '../message/address.js';
import type { Email, EmailContent, Message, Verdict } from '../message/message.js';
import { isExpired } from './age.js';
import { deferral, unreadable } from './charge.js';
import { SessionError } from './conversation.js';
import type { Envelope } from './envelope.js';
import type { Line } from './line.js';
import type { DeliveryOptions } from './loop.js';
import { isRefusal, type Outcome, outcomeOf, reasonOf } from './outcome.js';
import type { Culprit } from './refusals.js';
import type { RelayHealth } from './relay-health.js';
import type { Ending } from './reply.js';

/** A message as it goes over the wire. */
export interface Parcel {
  /** Bytes of the content. */
  readonly size: number;
  /** True if an address or a header goes beyond ASCII. */
  readonly smtpUtf8: boolean;
  readonly content: Buffer | AsyncIterable<Buffer>;
}

/** A message that can be offered as it is. */
export interface Load {
  readonly message: Message;
  readonly envelope: Envelope;
  readonly content: Parcel['content'];
}

/** Throws storage-damaged, as does the content when read, if something is not what was accepted. */
export type Render = (email: Email, content: EmailContent, from: Address) => Parcel;

/**
 * `unoffered`: nothing has happened, it is still the next. `behind`: nothing is charged, the others go first;
 * `isOutage` if the relay alone is to blame, so that the message takes its old place once the relay is well;
 * `isNews` but for the second and further mails that one trouble of the relay puts behind.
 */
export type Fate =
  | Verdict
  | { readonly kind: 'unoffered' }
  | { readonly kind: 'behind'; readonly reply: string; readonly isOutage: boolean; readonly isNews: boolean };

/** How many messages are remembered to have lost a connection. Forgetting one gives it another free loss. */
const LOST_MAX = 1000;
/** Who is to blame for an attempt; null if it went well. */
type Blame = Culprit | 'both' | null;
const UNOFFERED: Fate = { kind: 'unoffered' };

/** One for all lines. */
export class Courier {
  readonly #options: DeliveryOptions;
  /** Messages whose last offer ended with the connection. */
  readonly #lost = new Set<string>();
  /** Senders of the past that a relay has refused. */
  readonly #refused = new Set<Address>();
  #isStopping = false;
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
      // Another delivery may have taken over by now: this one says nothing of the relay any more.
      if (!this.#isStopping) health.failed(reasonOf(error.ending));
      return false;
    }
  }

  /** No relay is of any use: this time does not count. */
  missed(): void {
    if (!this.#isStopping) this.#options.store.reachability.missed();
  }

  #heard(): void {
    const { store, clock, config } = this.#options;
    // A message waiting for its turn asks more often than this.
    store.reachability.heard(clock.bootMs(), 2 * config.retryMaxMs);
  }

  /** Nothing begins any more. What is being sent may end as it does, and counts. */
  stopping(): void {
    this.#isStopping = true;
  }

  /** We are about to close the connections: what ends now ends by our own doing. */
  abandon(): void {
    this.#isAbandoning = true;
  }

  /** Makes a message, which has been taken, ready to be offered; or tells its fate, if it cannot be read. */
  async load(message: Message): Promise<Load | Verdict> {
    const { store, render } = this.#options;
    try {
      const email = message as Email;
      const from = this.#senderOf(email);
      const { size, smtpUtf8, content } = render(email, (await store.content(email)) as EmailContent, from);
      return { message, envelope: { from, to: email.destination, size, smtpUtf8 }, content };
    } catch (error) {
      return unreadable(message, error, this.#options);
    }
  }

  /**
   * The sender of its acceptance, the same at every try. The present one takes its place where a relay has refused
   * that, for then somebody has mended FIELDPOST_FROM; and where a person has queued the message anew.
   */
  #senderOf({ from, retried }: Email): Address {
    const present = this.#options.sender();
    return from === undefined || retried !== undefined || this.#refused.has(from) ? present : from;
  }

  /** Q3: offers a message over the line, and has the `next` announced where the relay takes that. */
  async offer(line: Line, health: RelayHealth, load: Load, next: Load | null): Promise<Fate> {
    const { message, envelope } = load;
    let readError: unknown;
    const content = reporting(load.content, (error) => {
      readError = error;
    });
    const ending = await line.send(envelope, content, next?.envelope);
    if (ending === null) return UNOFFERED;
    const outcome = outcomeOf(ending, envelope.smtpUtf8);
    if (outcome.blame === 'us') this.#refused.add(envelope.from);
    if (this.#isAbandoning && outcome.kind !== 'sent') return this.#abandoned(message, outcome);
    const blame = this.#judgeRelay(health, message, outcome, ending);
    if ('trouble' in ending && ending.trouble.kind === 'source') {
      return unreadable(message, readError ?? ending.trouble.words, this.#options);
    }
    return this.#judge(health, message, outcome, blame);
  }

  #abandoned({ id }: Message, { reply }: Outcome): Fate {
    this.#options.log.warn('send abandoned', { id, reply });
    return UNOFFERED;
  }

  /** Tells the relay's health what happened; gives who is to blame in the end. */
  #judgeRelay(health: RelayHealth, { id }: Message, outcome: Outcome, ending: Ending): Blame {
    if ('reply' in ending) this.#heard();
    if (outcome.kind === 'sent') health.refusals.taken(id);
    const blame = blameOf(health, id, outcome, ending);
    if (blame === 'relay' || blame === 'both') health.failed(reasonOf(ending));
    else if (blame === 'unclear') health.suspected(reasonOf(ending));
    // What others have proven says nothing of how the relay is now.
    else if (blame === outcome.blame) health.good();
    return blame;
  }

  #judge(health: RelayHealth, message: Message, { kind, reply }: Outcome, blame: Blame): Fate {
    const wasLost = this.#lost.has(message.id);
    if (blame === 'both') this.#rememberLoss(message.id);
    else if (blame === 'message' || blame === null) this.#lost.delete(message.id);
    if (kind !== 'deferred') return { kind, reply };
    // It has been offered, so it may expire.
    const { store, clock, config } = this.#options;
    if (isExpired(message, config.maxAgeMs[message.type], store, clock)) return { kind: 'expired', reply };
    // The second connection lost in a row over one message is charged to it, and so is each further one.
    const isCharged = blame === 'message' || (blame === 'both' && wasLost);
    if (isCharged) return deferral(message, reply, this.#options);
    const isNews = blame === 'both' || health.refused();
    return { kind: 'behind', reply, isOutage: blame === 'relay', isNews };
  }

  #rememberLoss(id: string): void {
    this.#lost.delete(id);
    this.#lost.add(id);
    for (const oldest of this.#lost) {
      if (this.#lost.size <= LOST_MAX) break;
      this.#lost.delete(oldest);
    }
  }
}

/** What other messages show of a refusal that is not plainly the message's own. */
function blameOf(health: RelayHealth, id: string, { blame }: Outcome, ending: Ending): Blame {
  if (blame !== 'us' && !(blame === 'relay' && isRefusal(ending))) return blame;
  const culprit = health.refusals.refused(id);
  // A relay in trouble of its own (a full disk) is left alone at once.
  return blame === 'relay' && culprit === 'unclear' ? 'relay' : culprit;
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
