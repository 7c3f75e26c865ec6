/**
 * Who is to blame for what an offer came to, and what follows from that for the message and for the peer: one rule for
 * relays and cloud (delivery.md, Outcomes). Used by queue.ts.
 */
import { Recent } from '../recent.js';
import type { Peer } from './peer.js';
import type { Outcome } from './transport.js';

/** How many messages are remembered to have lost a connection. A forgotten one has another loss free. */
const LOST_MAX = 1000;

/**
 * What follows for the message. `charged`: it is deferred for trouble of its own. `behind`: it goes behind the others,
 * uncharged. `waits`: the same, and it takes its old place once the peer is well.
 */
export type Judgement = 'final' | 'charged' | 'behind' | 'waits';

/** The judge of one queue: what needs more than a single outcome to be judged is remembered. */
export class Blame {
  /** Messages whose last offer ended with the connection. */
  readonly #lost = new Recent<string, true>(LOST_MAX);

  /** Tells the peer what the outcome shows of it, and gives what follows for the message. */
  judge(peer: Peer, id: string, outcome: Outcome): Judgement {
    const { kind, suspect, isProof, reason, retryAfterMs } = outcome;
    if (isProof) peer.proofs.taken(id);
    if (kind !== 'deferred' || suspect === 'message') {
      this.#lost.delete(id);
      peer.good();
      return kind === 'deferred' ? 'charged' : 'final';
    }
    if (suspect === 'peer' || suspect === 'either') {
      peer.failed(reason, retryAfterMs);
      return suspect === 'peer' ? 'waits' : this.#judgeLoss(id);
    }
    const culprit = peer.proofs.refused(id);
    if (culprit === 'message') {
      this.#lost.delete(id);
      // What others have proven says nothing of how the peer is now, but what it asks for is granted.
      if (retryAfterMs > 0) peer.failed(reason, retryAfterMs);
      return 'charged';
    }
    if (suspect === 'us' && culprit === 'unclear') {
      peer.suspected(reason);
      return 'behind';
    }
    // Many have been refused, or it is in trouble of its own (a full disk): it is left alone.
    peer.failed(reason, retryAfterMs);
    return 'waits';
  }

  /** An upload must not be repeated for ever: the second connection lost in a row is charged, and each further one. */
  #judgeLoss(id: string): Judgement {
    const wasLost = this.#lost.has(id);
    this.#lost.set(id, true);
    return wasLost ? 'charged' : 'behind';
  }
}
