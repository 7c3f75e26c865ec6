/**
 * What is sent next: the urgent messages first, then the others.
 */

import type { Clock } from '../../base/system/clock.js';
import type { Message } from '../message/message.js';
import type { IsWanted, Store } from '../store/store.js';
import { Rank } from './rank.js';

/** Says which message is next, and when there will be one. */
export class Agenda {
  readonly #store: Store;
  readonly #urgent: Rank;
  readonly #normal: Rank;
  /** In the order in which they are served. */
  readonly #ranks: readonly Rank[];

  /** `mine` tells which messages this transport takes. */
  constructor(store: Store, clock: Clock, mine: IsWanted) {
    this.#store = store;
    this.#urgent = new Rank(store, clock, mine, ['urgent']);
    this.#normal = new Rank(store, clock, mine, ['queued', 'deferred']);
    this.#ranks = [this.#urgent, this.#normal];
  }

  /** Walks again, because the store may have changed: a message was accepted, retried, flushed, … */
  review(): void {
    for (const rank of this.#ranks) rank.review();
  }

  /** How many messages can be claimed now. It also counts messages that were cancelled after the last walk. */
  ready(): number {
    return this.#urgent.ready() + this.#normal.ready();
  }

  /** How many of them are urgent. */
  get urgentReady(): number {
    return this.#urgent.ready();
  }

  /** Boot time of the next walk if nothing can be claimed now; Infinity if only a change of the store leads to one. */
  get nextMs(): number {
    return Math.min(this.#urgent.nextMs, this.#normal.nextMs);
  }

  /**
   * Claims the message to send next; null if there is none. It is off the agenda until it is put back, put behind or
   * deferred. A probe takes a message from the end only if there is no other. Any other claim takes it after the messages
   * of its rank that were due when it was moved. With `isUrgent` only an urgent message is claimed.
   */
  claim(probe: boolean, isUrgent: boolean): Message | null {
    for (;;) {
      const message = isUrgent ? this.#urgent.pick() : this.#pick(probe);
      const claimed = message && this.#store.claim(message.id);
      // A message that is being cancelled cannot be claimed. If the cancellation fails, a review finds it again.
      if (claimed || message === null) return claimed;
    }
  }

  #pick(probe: boolean): Message | null {
    if (probe) {
      const fresh = this.#urgent.pickFresh() ?? this.#normal.pickFresh();
      if (fresh) return fresh;
    }
    return this.#urgent.pick() ?? this.#normal.pick();
  }

  /** The message was claimed and given back without an offer: it is the next of its lane again. */
  putBack(message: Message): void {
    this.#rankOf(message).putBack(message);
  }

  /** The offer failed, and nothing is charged to the message: it moves to the end of its rank. */
  putBehind(message: Message, isOutage: boolean): void {
    this.#rankOf(message).putBehind(message, isOutage);
  }

  /** An outage is over: the messages that met it take their old places. */
  letBack(): void {
    for (const rank of this.#ranks) rank.letBack();
  }

  /** The store has deferred it. */
  deferred(id: string): void {
    const message = this.#store.get(id);
    if (message) this.#rankOf(message).deferred(message);
  }

  #rankOf({ extras }: Message): Rank {
    return extras?.urgent ? this.#urgent : this.#normal;
  }
}
