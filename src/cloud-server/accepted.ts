/**
 * Accepts messages to people into the cloud's store, from which delivery sends them, and counts them.
 */
import type { Draft } from '../message/message.js';
import type { Accepted, KeyedContent, Store } from '../store/store.js';

/** Messages accepted since the start, by kind. */
export class AcceptedMessages {
  readonly #store: Pick<Store, 'accept'>;
  readonly #nudge: () => void;
  readonly totals = { notification: 0, message: 0 };

  /** `nudge` tells delivery that there is something to send. */
  constructor(store: Pick<Store, 'accept'>, nudge: () => void) {
    this.#store = store;
    this.#nudge = nudge;
  }

  /** Accepts a message once for its key. Rejects as Store.accept does. */
  async accept(kind: keyof AcceptedMessages['totals'], draft: Draft, keyed: KeyedContent): Promise<Accepted> {
    const answer = await this.#store.accept([draft], keyed);
    if (!answer.replayed) this.totals[kind]++;
    this.#nudge();
    return answer;
  }
}
