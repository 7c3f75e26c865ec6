/**
 * Who is to blame for a refusal: the other messages show it. If the peer refuses a message again, and has taken others in
 * between, the message itself is at fault.
 */
import { DAY_MS } from '../limits.js';
import { Recent } from '../recent.js';
import type { Clock } from '../system/clock.js';

/** How many messages are remembered. A forgotten one is judged as if it had never been refused. */
const REMEMBERED_MAX = 1000;
/** The peer counts as failing after it has refused more different messages than this in a row. */
const IN_A_ROW_MAX = 20;
/** A message that the peer took longer ago proves nothing. */
const PROOF_MS = DAY_MS;

/** `unclear`: only further messages can show it. */
type Culprit = 'peer' | 'message' | 'unclear';

/** Remembers which messages one peer took and refused. */
export class Proofs {
  readonly #clock: Pick<Clock, 'bootMs'>;
  #taken = 0;
  #takenMs = Number.NEGATIVE_INFINITY;
  /** Messages refused since one was taken. */
  #inARow = 0;
  /** By message id: how many messages had been taken when it was refused. */
  readonly #refused = new Recent<string, number>(REMEMBERED_MAX);

  constructor(clock: Pick<Clock, 'bootMs'>) {
    this.#clock = clock;
  }

  /** The peer has taken this message, or refused it for good. */
  taken(id: string): void {
    this.#refused.delete(id);
    this.#taken++;
    this.#takenMs = this.#clock.bootMs();
    this.#inARow = 0;
  }

  /** The peer has refused this message. */
  refused(id: string): Culprit {
    const takenThen = this.#refused.get(id);
    const hasTakenOthers = takenThen !== undefined && takenThen < this.#taken;
    // Keep the message's count: it stays at fault as long as the peer takes others from time to time.
    if (hasTakenOthers && this.#clock.bootMs() - this.#takenMs < PROOF_MS) return 'message';
    this.#refused.set(id, this.#taken);
    const isFirst = takenThen === undefined || hasTakenOthers;
    return isFirst && ++this.#inARow <= IN_A_ROW_MAX ? 'unclear' : 'peer';
  }
}
