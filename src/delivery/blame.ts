/**
 * Who is to blame for a failed offer, and what follows for the message and for the peer: one rule for relays and cloud
 * (delivery.md, Outcomes).
 */
import { Recent } from '../recent.js';
import type { Peer } from './peer.js';
import type { Outcome } from './transport.js';

/** How many messages with a lost connection are remembered. A forgotten one may lose one more without a charge. */
const LOST_MAX = 1000;

/**
 * What follows for the message. `charged`: it is deferred for a fault of its own. `behind`: it moves to the end, uncharged.
 * `waits`: the same, and it takes its old place when the peer works again.
 */
type Judgement = 'final' | 'charged' | 'behind' | 'waits';

/** The judge of one queue. It remembers lost connections, because the first one of a message is not charged. */
export class Blame {
  /** Messages whose last offer ended with the connection. */
  readonly #lost = new Recent<string, true>(LOST_MAX);

  /** Updates the peer's state by the outcome, and returns what follows for the message. */
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
      // Other messages prove that this one is at fault, not that the peer works now: obey its Retry-After.
      if (retryAfterMs > 0) peer.failed(reason, retryAfterMs);
      return 'charged';
    }
    if (suspect === 'us' && culprit === 'unclear') {
      peer.suspected(reason);
      return 'behind';
    }
    // The peer has refused many messages, or has a fault of its own (a full disk): it gets a back-off.
    peer.failed(reason, retryAfterMs);
    return 'waits';
  }

  /** Charges the second lost connection in a row, and each further one: an upload must not be repeated for ever. */
  #judgeLoss(id: string): Judgement {
    const wasLost = this.#lost.has(id);
    this.#lost.set(id, true);
    return wasLost ? 'charged' : 'behind';
  }
}
