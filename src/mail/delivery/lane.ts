/**
 * The next messages of one list of the store. One walk over the list picks up many messages and tells when the next walk is
 * due, so a long queue costs little.
 */

import type { Stamp } from '../../base/stamp.js';
import type { Clock } from '../../base/system/clock.js';
import type { Message } from '../message/message.js';
import type { IsWanted, Store, WaitingList } from '../store/store.js';

/** How many messages one walk picks up at most. */
const HANDFUL = 64;
/** A walk over this many messages that finds nothing is not repeated within a millisecond for each of them. */
const WALK_PER_MS = 100;

/** The next messages of one of the store's lists. */
export class Lane {
  readonly #store: Store;
  readonly #list: WaitingList;
  readonly #mine: IsWanted;
  /** Boot time from which the message may be picked; null: not at all. */
  readonly #ripeMs: (message: Message) => number | null;
  #handful: string[] = [];
  /** Boot time of the next walk; 0: at once. */
  #walkMs = 0;
  /** Earliest boot time of the next walk that a review may start. */
  #reviewMs = 0;

  constructor(store: Store, list: WaitingList, mine: IsWanted, ripeMs: (message: Message) => number | null) {
    this.#store = store;
    this.#mine = mine;
    this.#list = list;
    this.#ripeMs = (message) => (this.has(message) ? ripeMs(message) : null);
  }

  /** False for a message that has left the list, or that another lane has. */
  has({ status, extras }: Message): boolean {
    const isUrgent = extras?.urgent === true;
    if (this.#list === 'urgent') return isUrgent && (status === 'queued' || status === 'deferred');
    return !isUrgent && status === this.#list;
  }

  get nextMs(): number {
    return this.#walkMs;
  }

  review(): void {
    this.expect(this.#reviewMs);
  }

  expect(ripeMs: number): void {
    this.#walkMs = Math.min(this.#walkMs, ripeMs);
  }

  ready(nowMs: number): number {
    if (this.#handful.length === 0 && nowMs >= this.#walkMs) this.#walk(nowMs);
    return this.#handful.length;
  }

  /** The first message that may still be picked. Drops those that were cancelled or sent since the walk. */
  peek(nowMs: number): Message | null {
    while (this.ready(nowMs) > 0) {
      const message = this.#store.get(this.#handful.at(-1) ?? '');
      const ripeMs = message ? this.#ripeMs(message) : null;
      if (message && ripeMs !== null && ripeMs <= nowMs) return message;
      this.#handful.pop();
    }
    return null;
  }

  shift(): void {
    this.#handful.pop();
  }

  /** Older messages have come back: forgets the picked ones, and walks again. */
  startOver(): void {
    this.#handful = [];
    this.#walkMs = 0;
  }

  unshift(id: string): void {
    this.#handful.push(id);
  }

  /** Picks up the first HANDFUL messages that are due. If there are fewer, it computes when the next one is due. */
  #walk(nowMs: number): void {
    const found: string[] = [];
    this.#walkMs = Number.POSITIVE_INFINITY;
    for (const message of this.#store[this.#list](this.#mine)) {
      const ripeMs = this.#ripeMs(message);
      if (ripeMs === null) continue;
      if (ripeMs > nowMs) {
        this.expect(ripeMs);
        continue;
      }
      found.push(message.id);
      if (found.length < HANDFUL) continue;
      // There may be more.
      this.#walkMs = 0;
      break;
    }
    // The first message is at the end, where it is cheap to remove.
    this.#handful = found.reverse();
    // By the length of the list: the walk does not tell how many messages of others it passed.
    this.#reviewMs = nowMs + Math.floor(this.#store.lengthOf(this.#list) / WALK_PER_MS);
  }
}

/** Boot time at which a deferred message is due; 0 if it has none, or one of another boot. */
export function dueMs(due: Stamp | null, clock: Clock): number {
  return due !== null && due.boot === clock.boot ? due.bootMs : 0;
}
