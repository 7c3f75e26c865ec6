/**
 * Who is to blame for a refusal: the other messages show it. If the peer refuses a message again, and has taken others in
 * between, the message itself is at fault. A success before the first refusal proves nothing, because a quota may be used
 * up in the middle of a session (delivery.md, A refusal is confirmed before it is final).
 */
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../base/limits.js';
import { Recent } from '../../base/recent.js';
import type { Clock } from '../../base/system/clock.js';

/** How many messages are remembered. A forgotten one is judged as if it had never been refused. */
const REMEMBERED_MAX = 1000;
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

/** Remembers which messages one peer took and refused. */
export class Proofs {
  readonly #clock: Pick<Clock, 'bootMs'>;
  #refusals = 0;
  #taken = 0;
  #takenMs = Number.NEGATIVE_INFINITY;
  /** The refusals before the latest offer that was taken: only those prove something of it. */
  #takenAfter = 0;
  /** How often the peer has turned out to refuse all messages. */
  #turns = 0;
  /** Messages refused since one was taken. */
  readonly #inARow = new Set<string>();
  /** By message id. */
  readonly #refused = new Recent<string, Refusals>(REMEMBERED_MAX);

  constructor(clock: Pick<Clock, 'bootMs'>) {
    this.#clock = clock;
  }

  /** All refusals so far. Give it to `taken` for an offer that begins now. */
  get refusals(): number {
    return this.#refusals;
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
    const number = ++this.#refusals;
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
