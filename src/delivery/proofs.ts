/**
 * Who is to blame when a peer refuses us over one message: the other messages show it. If the peer refuses a message
 * again, and has taken others since, that is the message's own trouble. Used by peer.ts.
 */
import { DAY_MS } from '../limits.js';
import { Recent } from '../recent.js';
import type { Clock } from '../system/clock.js';

/** How many messages are remembered. A forgotten one is judged as if it had never been refused. */
const REMEMBERED_MAX = 1000;
/** So many different messages in a row may be refused before the peer counts as failing. */
const IN_A_ROW_MAX = 20;
/** What a peer took longer ago proves nothing. */
const PROOF_MS = DAY_MS;

/** `unclear`: others must be tried before anybody can tell. */
export type Culprit = 'peer' | 'message' | 'unclear';

/** What one peer took and refused. */
export class Proofs {
  readonly #clock: Pick<Clock, 'bootMs'>;
  #taken = 0;
  #takenMs = Number.NEGATIVE_INFINITY;
  /** Messages refused since one was taken. */
  #inARow = 0;
  /** By message: how many had been taken when it was refused. */
  readonly #refused = new Recent<string, number>(REMEMBERED_MAX);

  constructor(clock: Pick<Clock, 'bootMs'>) {
    this.#clock = clock;
  }

  /** The peer has taken this message, or settled it for good. */
  taken(id: string): void {
    this.#refused.delete(id);
    this.#taken++;
    this.#takenMs = this.#clock.bootMs();
    this.#inARow = 0;
  }

  /** The peer has refused this message, or us over it. */
  refused(id: string): Culprit {
    const takenThen = this.#refused.get(id);
    const hasTakenOthers = takenThen !== undefined && takenThen < this.#taken;
    // Its count stays: it is the message's own trouble as long as others go through now and then.
    if (hasTakenOthers && this.#clock.bootMs() - this.#takenMs < PROOF_MS) return 'message';
    this.#refused.set(id, this.#taken);
    const isFirst = takenThen === undefined || hasTakenOthers;
    return isFirst && ++this.#inARow <= IN_A_ROW_MAX ? 'unclear' : 'peer';
  }
}
