/**
 * Who is to blame for a failed offer, and what follows for the message and for the peer: one rule for relays and cloud
 * (delivery.md, Outcomes; A refusal is confirmed before it is final).
 *
 * | suspect   | others were taken since | others can be tried | else                        |
 * |-----------|-------------------------|---------------------|-----------------------------|
 * | peer here | charged                 | the peer fails      | the peer fails              |
 * | device    | charged                 | the peer refuses    | the peer refuses            |
 * | envelope  | charged                 | behind              | the peer refuses            |
 * | unclear   | failed                  | requeued            | charged; failed in the end  |
 *
 * Where three messages in a row are refused, the peer refuses.
 */
import { Recent } from '../../base/recent.js';
import type { Peer } from './peer.js';
import type { Outcome } from './transport.js';

/** How many messages with a lost connection are remembered. A forgotten one may lose one more without a charge. */
const LOST_MAX = 1000;

/**
 * What follows for the message. `final`: the outcome as it is. `failed`: it fails. `charged`: it is deferred for a fault of
 * its own. `requeued`: it is offered again soon, uncharged, with its reply. `behind`: it moves to the end, uncharged. `waits`:
 * the same, and it takes its old place when the peer works again.
 */
type Judgement = 'final' | 'failed' | 'charged' | 'requeued' | 'behind' | 'waits';

/** What was so when a message was offered. */
export interface Offer {
  /** Other messages can be tried now. */
  readonly hasOthers: boolean;
  /** The peer's refusals before the offer. */
  readonly afterRefusals: number;
}

/** The judge of one queue. It remembers lost connections, because the first one of a message is not charged. */
export class Blame {
  /** Messages whose last offer ended with the connection. */
  readonly #lost = new Recent<string, true>(LOST_MAX);

  /** Updates the peer's state by the outcome of an offer, and returns what follows for the message. */
  judge(peer: Peer, id: string, outcome: Outcome, { hasOthers, afterRefusals }: Offer): Judgement {
    const { kind, suspect, isProof, reason, retryAfterMs } = outcome;
    if (isProof) peer.proofs.taken(id, afterRefusals);
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

  #judgeRefusal(peer: Peer, id: string, outcome: Outcome, hasOthers: boolean): Judgement {
    const { suspect, reason, retryAfterMs, pauses } = outcome;
    const isUnclear = suspect === 'unclear';
    const found = peer.proofs.refused(id, hasOthers, isUnclear);
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
      return isUnclear ? 'requeued' : 'behind';
    }
    // A peer that has just come back refuses the first message: until it takes one, it refuses.
    if (culprit === 'time' && isUnclear && !peer.isDown) {
      peer.suspected(reason);
      return 'charged';
    }
    if (pauses === undefined) peer.failed(reason, retryAfterMs);
    else {
      peer.proofs.refusesAll();
      peer.refused(reason, pauses);
    }
    return 'waits';
  }

  /** Charges the second lost connection in a row, and each further one: an upload must not be repeated for ever. */
  #judgeLoss(id: string): Judgement {
    const wasLost = this.#lost.has(id);
    this.#lost.set(id, true);
    return wasLost ? 'charged' : 'behind';
  }
}
