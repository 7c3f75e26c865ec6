/**
 * Who is to blame for a refusal: the other messages show it. If the peer refuses a message again, and has taken others in
 * between, the message itself is at fault. A success before the first refusal proves nothing, because a quota may be used
 * up in the middle of a session (delivery.md, A refusal is confirmed before it is final).
 */
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../limits.js';
import { Recent } from '../recent.js';
import type { Clock } from '../system/clock.js';

/** How many messages are remembered. A forgotten one is judged as if it had never been refused. */
const REMEMBERED_MAX = 1000;
/** This many different messages refused in a row show that the peer refuses all. */
const IN_A_ROW = 3;
/** A message that the peer took longer ago proves nothing. */
const PROOF_MS = DAY_MS;
/** Two refusals further apart may have two causes, such as a quota that ran out twice: a message does not fail for them. */
const SAME_CAUSE_MS = 5 * MINUTE_MS;
/** Where no other message shows it, this many refusals over this time do: a quota of a day is over by then. */
const REFUSALS = 3;
const REFUSED_FOR_MS = DAY_MS + HOUR_MS;

/** `unclear`: only further messages can show it. `time`: only time can. */
type Culprit = 'peer' | 'message' | 'unclear' | 'time';

/** The refusals of one message. */
interface Refusals {
  readonly firstMs: number;
  lastMs: number;
  count: number;
  /** How many messages the peer had taken, and how often it had refused all, at the first of them that counts. */
  taken: number;
  readonly turns: number;
}

/** Remembers which messages one peer took and refused. */
export class Proofs {
  readonly #clock: Pick<Clock, 'bootMs'>;
  #taken = 0;
  #takenMs = Number.NEGATIVE_INFINITY;
  /** How often the peer has turned out to refuse all messages. */
  #turns = 0;
  /** Messages refused since one was taken. */
  readonly #inARow = new Set<string>();
  /** By message id. */
  readonly #refused = new Recent<string, Refusals>(REMEMBERED_MAX);

  constructor(clock: Pick<Clock, 'bootMs'>) {
    this.#clock = clock;
  }

  /** The peer has taken this message, or refused it for good. */
  taken(id: string): void {
    this.#refused.delete(id);
    this.#taken++;
    this.#takenMs = this.#clock.bootMs();
    this.#inARow.clear();
  }

  /** The peer has refused this message. `hasOthers`: others can be tried now. `isFinal`: it fails if it is to blame. */
  refused(id: string, hasOthers: boolean, isFinal: boolean): Culprit {
    const nowMs = this.#clock.bootMs();
    const refusals = this.#refused.get(id) ?? {
      ...{ firstMs: nowMs, lastMs: nowMs, count: 0, taken: this.#taken, turns: this.#turns },
    };
    this.#refused.set(id, refusals);
    refusals.count++;
    const sinceMs = nowMs - refusals.lastMs;
    refusals.lastMs = nowMs;
    // The peer refused all since: whether for a quota or for this message, nobody can tell. Age decides.
    if (isFinal && refusals.turns !== this.#turns) return 'time';
    if (refusals.taken < this.#taken) {
      // Keep the message's count: it stays at fault as long as the peer takes others from time to time.
      if (isFinal ? sinceMs < SAME_CAUSE_MS : nowMs - this.#takenMs < PROOF_MS) return 'message';
      refusals.taken = this.#taken;
    }
    const isAgain = this.#inARow.has(id);
    this.#inARow.add(id);
    const isRow = this.#inARow.size > 1 && (isAgain || !hasOthers);
    if (isRow || this.#inARow.size >= IN_A_ROW) return 'peer';
    if (hasOthers && !isAgain) return 'unclear';
    const isLong = refusals.count >= REFUSALS && nowMs - refusals.firstMs >= REFUSED_FOR_MS;
    return isFinal && isLong ? 'message' : 'time';
  }

  /** The peer refuses all messages for now. */
  refusesAll(): void {
    this.#turns++;
    this.#inARow.clear();
  }
}
