/**
 * The waiting messages of one priority: oldest first, those of its lanes in turn. Messages that failed together with a relay
 * or the cloud come last; after an outage a message takes its old place.
 */

import type { Clock } from '../../base/system/clock.js';
import type { Message } from '../message/message.js';
import type { IsWanted, Store, WaitingList } from '../store/store.js';
import { dueMs, Lane } from './lane.js';

/** Says which of its messages is next. */
export class Rank {
  readonly #store: Store;
  readonly #clock: Clock;
  /** The one whose turn it is comes first. */
  readonly #lanes: Lane[];
  /** The messages that were moved to the end, in the order of the moves: id and boot time of the move. */
  readonly #behind = new Map<string, number>();
  /** Those of them that met an outage. */
  readonly #unlucky = new Set<string>();
  /** Messages that took their old place after an outage. If one of them meets the next outage too, it may be the cause. */
  readonly #letBack = new Set<string>();

  /** Takes those of the lists that are `mine`. */
  constructor(store: Store, clock: Clock, mine: IsWanted, lists: readonly WaitingList[]) {
    this.#store = store;
    this.#clock = clock;
    const ripeMs = (message: Message) => {
      if (!mine(message) || this.#behind.has(message.id)) return null;
      return message.status === 'deferred' ? dueMs(message.due, clock) : 0;
    };
    this.#lanes = lists.map((list) => new Lane(store, list, mine, ripeMs));
  }

  /** Walks again, because the store may have changed. */
  review(): void {
    for (const lane of this.#lanes) lane.review();
  }

  /** Boot time of the next walk if nothing can be claimed now; Infinity if only a change of the store leads to one. */
  get nextMs(): number {
    return Math.min(...this.#lanes.map(({ nextMs }) => nextMs));
  }

  /** The store has deferred the message. */
  deferred(message: Message): void {
    this.#laneOf(message)?.expect(dueMs(message.due, this.#clock));
  }

  /** The message was given back without an offer: it is the next of its lane again. */
  putBack(message: Message): void {
    this.#laneOf(message)?.unshift(message.id);
  }

  #laneOf(message: Message): Lane | undefined {
    return this.#lanes.find((lane) => lane.has(message));
  }

  /** How many messages can be claimed now. It also counts messages that were cancelled after the last walk. */
  ready(): number {
    const nowMs = this.#clock.bootMs();
    const behind = this.#firstBehind()[0] === null ? 0 : this.#behind.size;
    return this.#lanes.reduce((sum, lane) => sum + lane.ready(nowMs), behind);
  }

  /** The message to send next; it leaves the rank. A message from the end comes after those that were due before its move. */
  pick(): Message | null {
    const [back, sinceMs] = this.#firstBehind();
    const message = this.pickFresh(back === null ? Number.POSITIVE_INFINITY : sinceMs);
    if (message) return message;
    if (back) this.#behind.delete(back.id);
    return back;
  }

  /** The same without the messages at the end, among those that were due by then. */
  pickFresh(ripeMaxMs = Number.POSITIVE_INFINITY): Message | null {
    for (const lane of this.#lanes) {
      const message = lane.peek(this.#clock.bootMs());
      if (message === null || this.#ripeMs(message) > ripeMaxMs) continue;
      lane.shift();
      // The other lanes are next.
      this.#lanes.splice(this.#lanes.indexOf(lane), 1);
      this.#lanes.push(lane);
      return message;
    }
    return null;
  }

  /** The offer failed, and nothing is charged to the message: it moves to the end. */
  putBehind({ id }: Message, isOutage: boolean): void {
    this.#behind.set(id, this.#clock.bootMs());
    if (isOutage && !this.#letBack.has(id)) this.#unlucky.add(id);
  }

  /** An outage is over: the messages that met it take their old places. */
  letBack(): void {
    if (this.#unlucky.size === 0) return;
    this.#letBack.clear();
    for (const id of this.#unlucky) {
      this.#behind.delete(id);
      this.#letBack.add(id);
    }
    this.#unlucky.clear();
    for (const lane of this.#lanes) lane.startOver();
  }

  #firstBehind(): [Message | null, sinceMs: number] {
    for (const [id, sinceMs] of this.#behind) {
      const message = this.#store.get(id);
      if (message?.status === 'queued' || message?.status === 'deferred') return [message, sinceMs];
      this.#behind.delete(id);
    }
    return [null, 0];
  }

  /** Boot time from which the message may be picked; 0 if it has none, or was due in an earlier boot. */
  #ripeMs(message: Message): number {
    if (message.status === 'deferred') return dueMs(message.due, this.#clock);
    const { boot, bootMs } = message.retried ?? message.accepted;
    return boot === this.#clock.boot ? bootMs : 0;
  }
}
