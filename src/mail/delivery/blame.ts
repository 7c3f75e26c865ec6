/**
 * Who is to blame for a failed offer, and what follows for the message and for the peer: one rule for relays and cloud.
 *
 * | suspect   | others were taken since | others can be tried | else                        |
 * |-----------|-------------------------|---------------------|-----------------------------|
 * | peer here | charged                 | the peer fails      | the peer fails              |
 * | device    | charged                 | the peer refuses    | the peer refuses            |
 * | envelope  | charged                 | requeued            | the peer refuses            |
 * | unclear   | failed                  | to be confirmed     | charged; failed in the end  |
 *
 * Where three messages in a row are refused, the peer refuses.
 */

import { Recent } from '../../base/collections.js';
import { assert, FieldpostError, wordsOf } from '../../base/errors.js';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../base/limits.js';
import { spread } from '../../base/retry/backoff.js';
import { ageMs } from '../../base/stamp.js';
import type { Clock } from '../../base/system/clock.js';
import type { Log } from '../../base/system/log.js';
import type { Message, Verdict } from '../message/message.js';
import type { MailConfig } from '../settings.js';
import type { Store } from '../store/store.js';
import type { Peer } from './peer.js';
import type { Outcome } from './transport.js';

/** How many messages with a lost connection are remembered. A forgotten one may lose one more without a charge. */
const LOST_MAX = 1000;
/** How many refused messages are remembered. A forgotten one is judged as if it had never been refused. */
const REFUSED_MAX = 1000;
/** This many different messages refused in a row show that the peer refuses all. */
const IN_A_ROW = 3;
/** A message that the peer took longer ago proves nothing. */
const PROOF_MS = DAY_MS;
/** A message that may fail is offered again after this time: a limit of a second is over by then. */
export const CONFIRM_MS = 10 * SECOND_MS;
/** Two refusals further apart may have two causes, such as a quota that ran out twice: a message does not fail for them. */
const SAME_CAUSE_MS = 5 * MINUTE_MS;
/** If the peer refuses others, too, it may have a rate limit: then a message fails after more refusals, */
const REFUSALS_AMONG_OTHERS = 4;
/** and only if the peer takes so many for each that it refuses. */
const TAKEN_EACH = 9;
/** Where no other message shows it, this many refusals over this time do: a quota of a day is over by then. */
const REFUSALS_ALONE = 3;
const REFUSED_FOR_MS = DAY_MS + HOUR_MS;

/**
 * What follows for the message. `final`: the outcome as it is. `failed`: it fails. `charged`: it is deferred for a fault of
 * its own. `unconfirmed`: it is offered again soon, uncharged, with its reply. `requeued`: it moves to the end, uncharged.
 * `waits`: the same, and it takes its old place when the peer works again.
 */
type Judgement = 'final' | 'failed' | 'charged' | 'unconfirmed' | 'requeued' | 'waits';

/** What was so when a message was offered. */
export interface Offer {
  /** Other messages can be tried now. */
  readonly hasOthers: boolean;
  /** The peer's refusals before the offer. */
  readonly afterRefusals: number;
}

/** The judge of one queue. It remembers lost connections, because the first one of a message is not charged. */
export class Blame {
  readonly #clock: Pick<Clock, 'bootMs'>;
  /** Messages whose last offer ended with the connection. */
  readonly #lost = new Recent<string, true>(LOST_MAX);
  readonly #proofs = new Map<Peer, Proofs>();

  constructor(clock: Pick<Clock, 'bootMs'>) {
    this.#clock = clock;
  }

  /** All refusals of a peer so far. */
  refusals(peer: Peer): number {
    return this.#proofsOf(peer).refusals;
  }

  /** Updates the peer's state by the outcome of an offer, and returns what follows for the message. */
  judge(peer: Peer, id: string, outcome: Outcome, { hasOthers, afterRefusals }: Offer): Judgement {
    const { kind, suspect, isProof, reason, retryAfterMs } = outcome;
    if (isProof) this.#proofsOf(peer).taken(id, afterRefusals);
    if (kind !== 'deferred' || suspect === 'message') {
      this.#lost.delete(id);
      // A recipient may be refused before the relay looks at what it refuses now, such as the account.
      if (isProof || peer.state !== 'refusing') peer.good();
      return kind === 'deferred' ? 'charged' : 'final';
    }
    if (suspect === 'peer' || suspect === 'either') {
      peer.failed(reason, retryAfterMs);
      return suspect === 'peer' ? 'waits' : this.#judgeLoss(id);
    }
    return this.#judgeRefusal(peer, id, outcome, hasOthers);
  }

  #proofsOf(peer: Peer): Proofs {
    const known = this.#proofs.get(peer);
    if (known !== undefined) return known;
    const proofs = new Proofs(this.#clock);
    this.#proofs.set(peer, proofs);
    return proofs;
  }

  #judgeRefusal(peer: Peer, id: string, outcome: Outcome, hasOthers: boolean): Judgement {
    const { suspect, reason, retryAfterMs, pauses } = outcome;
    const isUnclear = suspect === 'unclear';
    const proofs = this.#proofsOf(peer);
    const found = proofs.refused(id, hasOthers, isUnclear);
    // A peer that refuses all shows nothing of this message, unless it is alone for long.
    const culprit = peer.state === 'refusing' && !(isUnclear && found === 'message') ? 'peer' : found;
    if (culprit === 'message') {
      this.#lost.delete(id);
      // Other messages prove that this one is at fault, not that the peer works now: obey its Retry-After.
      if (retryAfterMs > 0) peer.failed(reason, retryAfterMs);
      return isUnclear ? 'failed' : 'charged';
    }
    if (culprit === 'unclear' && (isUnclear || suspect === 'envelope')) {
      peer.suspected(reason);
      return isUnclear ? 'unconfirmed' : 'requeued';
    }
    // A peer that has just come back refuses the first message: until it takes one, it refuses.
    if (culprit === 'time' && isUnclear && !peer.isDown) {
      peer.suspected(reason);
      return 'charged';
    }
    if (pauses === undefined) peer.failed(reason, retryAfterMs);
    else {
      proofs.refusesAll();
      peer.refused(reason, pauses);
    }
    return 'waits';
  }

  /** Charges the second lost connection in a row, and each further one: an upload must not be repeated for ever. */
  #judgeLoss(id: string): Judgement {
    const wasLost = this.#lost.has(id);
    this.#lost.set(id, true);
    return wasLost ? 'charged' : 'requeued';
  }
}

/** `unclear`: only further messages can show it. `time`: only time can. */
type Culprit = 'peer' | 'message' | 'unclear' | 'time';

/** The refusals of one message. Their numbers are those of all refusals. */
interface Refusals {
  readonly firstMs: number;
  /** The first that counts, and the last. */
  firstNumber: number;
  lastNumber: number;
  lastMs: number;
  count: number;
  /** How many messages the peer had taken at the last of them. */
  taken: number;
  /** How often the peer had refused all at the first of them. */
  readonly turns: number;
}

/**
 * Which messages one peer took and refused. If it refuses a message again, and has taken others in between, the message is
 * at fault. A success before the first refusal proves nothing, because a quota may be used up in the middle of a session.
 */
class Proofs {
  readonly #clock: Pick<Clock, 'bootMs'>;
  /** All refusals so far. */
  refusals = 0;
  #taken = 0;
  #takenMs = Number.NEGATIVE_INFINITY;
  /** The refusals before the latest offer that was taken: only those prove something of it. */
  #takenAfter = 0;
  /** How often the peer has turned out to refuse all messages. */
  #turns = 0;
  /** Messages refused since one was taken. */
  readonly #inARow = new Set<string>();
  /** By message id. */
  readonly #refused = new Recent<string, Refusals>(REFUSED_MAX);

  constructor(clock: Pick<Clock, 'bootMs'>) {
    this.#clock = clock;
  }

  /** The peer has taken this message, or refused it for good. It was offered after so many refusals. */
  taken(id: string, afterRefusals: number): void {
    this.#refused.delete(id);
    this.#taken++;
    this.#takenMs = this.#clock.bootMs();
    this.#takenAfter = Math.max(this.#takenAfter, afterRefusals);
    this.#inARow.clear();
  }

  /** The peer has refused this message. `hasOthers`: others can be tried now. `isFinal`: it fails if it is to blame. */
  refused(id: string, hasOthers: boolean, isFinal: boolean): Culprit {
    const number = ++this.refusals;
    const before = this.#refused.get(id);
    const nowMs = this.#clock.bootMs();
    const first = { firstMs: nowMs, firstNumber: number, count: 0, turns: this.#turns };
    const refusals = {
      ...(before ?? first),
      ...{ lastNumber: number, lastMs: nowMs, count: (before?.count ?? 0) + 1, taken: this.#taken },
    };
    this.#refused.set(id, refusals);
    if (before !== undefined && !isFinal && before.firstNumber <= this.#takenAfter) {
      // Keep the first one: the message stays at fault as long as the peer takes others from time to time.
      if (nowMs - this.#takenMs < PROOF_MS) return 'message';
      refusals.firstNumber = number;
    }
    if (isFinal && (this.#isConfirmed(before, refusals) || (!hasOthers && this.#isAlone(refusals))))
      return 'message';
    const isAgain = this.#inARow.has(id);
    this.#inARow.add(id);
    if (this.#inARow.size >= IN_A_ROW) return 'peer';
    // The peer refused all since: whether for a quota or for this message, nobody can tell. Age decides.
    if (isFinal && refusals.turns !== this.#turns) return 'time';
    const mayShow = hasOthers && !isAgain && (before === undefined || !isFinal);
    return mayShow ? 'unclear' : 'time';
  }

  /** True if the peer took others between two refusals of this message, and hardly refused any. */
  #isConfirmed(before: Refusals | undefined, { turns, count, lastNumber, lastMs, taken }: Refusals): boolean {
    if (before === undefined || turns !== this.#turns || before.lastNumber > this.#takenAfter) return false;
    const sinceMs = lastMs - before.lastMs;
    if (sinceMs < CONFIRM_MS || sinceMs > SAME_CAUSE_MS) return false;
    const others = lastNumber - before.lastNumber - 1;
    return others === 0 || (count >= REFUSALS_AMONG_OTHERS && taken - before.taken >= TAKEN_EACH * others);
  }

  /** True if the peer has refused this message, and taken no other, for long. */
  #isAlone({ firstMs, lastMs, count }: Refusals): boolean {
    return count >= REFUSALS_ALONE && lastMs - Math.max(firstMs, this.#takenMs) >= REFUSED_FOR_MS;
  }

  /** The peer refuses all messages for now. */
  refusesAll(): void {
    this.#turns++;
    this.#inARow.clear();
  }
}

/** What a charge depends on. */
export interface ChargeOptions {
  readonly store: Store;
  readonly config: Pick<MailConfig, 'retryMinMs' | 'retryMaxMs'>;
  readonly clock: Clock;
  /** In [0, 1). */
  readonly random: () => number;
  readonly log: Log;
}

/** The message is tried again after a delay that grows with its age. */
export function deferral(
  message: Message,
  reply: string,
  { store, config, random, clock }: ChargeOptions,
): Verdict & { kind: 'deferred' } {
  const oldMs = ageMs(message.retried ?? message.accepted, clock, store.boots);
  return {
    kind: 'deferred',
    reply,
    delayMs: retryDelayMs(oldMs, random(), config.retryMinMs, config.retryMaxMs),
  };
}

/**
 * The wait before the next attempt: the message's age, but at least `minMs` and at most `maxMs`, ± 10 %. So the waits
 * double, and the number of attempts grows only with the logarithm of the age. `random` is in [0, 1).
 */
export function retryDelayMs(ageMs: number, random: number, minMs: number, maxMs: number): number {
  assert(random >= 0 && random < 1);
  return spread(Math.min(Math.max(ageMs, minMs), maxMs), random);
}

/** The verdict on a message whose content cannot be read: failed if the content is damaged, else deferred. */
export function unreadable(message: Message, error: unknown, options: ChargeOptions): Verdict {
  const reason = wordsOf(error);
  options.log.error('message unreadable', { id: message.id, reason });
  return error instanceof FieldpostError && error.code === 'storage-damaged'
    ? { kind: 'failed', reply: 'storage damaged' }
    : deferral(message, reason, options);
}
