/**
 * The ready queue of one transport: which message is sent next, and when there will be one. Urgent messages come first. Of
 * equal priority the oldest comes first, new and deferred ones in turn. A requeued message comes last; after an outage it
 * takes its old place.
 */
import type { Stamp } from '../../base/stamp.js';
import type { Clock } from '../../base/system/clock.js';
import type { Message } from '../message/message.js';
import type { IsWanted, Store, WaitingList } from '../store/store.js';

/** How many messages one walk picks up at most. */
const HANDFUL = 64;
/** A walk over this many messages that finds nothing is not repeated within a millisecond for each of them. */
const WALK_PER_MS = 100;

/** Says which message is next, and when there will be one. */
export class ReadyQueue {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #urgent: Priority;
  readonly #normal: Priority;
  readonly #lists: readonly ListWalk[];

  /** `mine` tells which messages this transport takes. */
  constructor(store: Store, clock: Clock, mine: IsWanted) {
    this.#store = store;
    this.#clock = clock;
    this.#urgent = new Priority(store, clock, mine, ['urgent']);
    this.#normal = new Priority(store, clock, mine, ['queued', 'deferred']);
    this.#lists = [...this.#urgent.lists, ...this.#normal.lists];
  }

  /** Walks again, because the store may have changed: a message was accepted, retried, flushed, … */
  review(): void {
    for (const list of this.#lists) list.review();
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
    return Math.min(...this.#lists.map(({ nextMs }) => nextMs));
  }

  /** Boot time of the next walk for an urgent one if there is none now. */
  get urgentNextMs(): number {
    return this.urgentReady > 0 ? Number.POSITIVE_INFINITY : (this.#urgent.lists[0]?.nextMs as number);
  }

  /**
   * Claims the message to send next; null if there is none. It is out of the queue until it is put back, requeued or
   * deferred. A probe takes a requeued message only if there is no other. Any other claim takes it after the messages of
   * its priority that were due when it was requeued. With `isUrgent` only an urgent message is claimed.
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

  /** The message was claimed and given back without an offer: it is the next of its list again. */
  putBack(message: Message): void {
    this.#listOf(message)?.putBack(message.id);
  }

  /** The offer failed, and nothing is charged to the message: it moves to the end. `isOutage`: until the outage is over. */
  requeue(message: Message, isOutage: boolean): void {
    (message.extras?.urgent ? this.#urgent : this.#normal).requeue(message.id, isOutage);
  }

  /** An outage is over: the messages that met it take their old places. */
  endOutage(): void {
    this.#urgent.endOutage();
    this.#normal.endOutage();
  }

  /** The store has deferred it. */
  deferred(id: string): void {
    const message = this.#store.get(id);
    if (message) this.#listOf(message)?.expect(dueMs(message, this.#clock));
  }

  #listOf(message: Message): ListWalk | undefined {
    return this.#lists.find((list) => list.has(message));
  }
}

/** The waiting messages of one priority. */
class Priority {
  readonly lists: readonly ListWalk[];
  readonly #store: Store;
  readonly #clock: Clock;
  /** The one whose turn it is comes first. */
  readonly #turns: ListWalk[];
  /** In the order in which they were requeued: id and boot time. */
  readonly #requeued = new Map<string, number>();
  /** Those of them that met an outage. */
  readonly #unlucky = new Set<string>();
  /** Messages that took their old place after an outage. If one of them meets the next outage too, it may be the cause. */
  readonly #returned = new Set<string>();

  constructor(store: Store, clock: Clock, mine: IsWanted, lists: readonly WaitingList[]) {
    this.#store = store;
    this.#clock = clock;
    const ripeMs = (message: Message) => (this.#requeued.has(message.id) ? null : dueMs(message, clock));
    this.lists = lists.map((list) => new ListWalk(store, list, mine, ripeMs));
    this.#turns = [...this.lists];
  }

  ready(): number {
    const nowMs = this.#clock.bootMs();
    const requeued = this.#firstRequeued()[0] === null ? 0 : this.#requeued.size;
    return this.lists.reduce((sum, list) => sum + list.ready(nowMs), requeued);
  }

  /** The message to send next, which leaves the queue. A requeued one comes after those that were due before it was. */
  pick(): Message | null {
    const [back, sinceMs] = this.#firstRequeued();
    const message = this.pickFresh(back === null ? Number.POSITIVE_INFINITY : sinceMs);
    if (message) return message;
    if (back) this.#requeued.delete(back.id);
    return back;
  }

  /** The same without requeued ones, among those that were due by then. */
  pickFresh(ripeMaxMs = Number.POSITIVE_INFINITY): Message | null {
    for (const list of this.#turns) {
      const message = list.peek(this.#clock.bootMs());
      if (message === null || this.#ripeMs(message) > ripeMaxMs) continue;
      list.drop();
      // The other lists are next.
      this.#turns.splice(this.#turns.indexOf(list), 1);
      this.#turns.push(list);
      return message;
    }
    return null;
  }

  requeue(id: string, isOutage: boolean): void {
    this.#requeued.set(id, this.#clock.bootMs());
    if (isOutage && !this.#returned.has(id)) this.#unlucky.add(id);
  }

  endOutage(): void {
    if (this.#unlucky.size === 0) return;
    this.#returned.clear();
    for (const id of this.#unlucky) {
      this.#requeued.delete(id);
      this.#returned.add(id);
    }
    this.#unlucky.clear();
    for (const list of this.lists) list.startOver();
  }

  #firstRequeued(): [Message | null, sinceMs: number] {
    for (const [id, sinceMs] of this.#requeued) {
      const message = this.#store.get(id);
      if (message?.status === 'queued' || message?.status === 'deferred') return [message, sinceMs];
      this.#requeued.delete(id);
    }
    return [null, 0];
  }

  /** Boot time since which the message is ready; 0 if that was in an earlier boot. */
  #ripeMs(message: Message): number {
    if (message.status === 'deferred') return dueMs(message, this.#clock);
    return inBootMs(message.retried ?? message.accepted, this.#clock);
  }
}

/** The next messages of one of the store's lists. One walk picks up many of them, so a long queue costs little. */
class ListWalk {
  readonly #store: Store;
  readonly #list: WaitingList;
  readonly #mine: IsWanted;
  /** Boot time from which the message may be picked; null: not at all. */
  readonly #ripeMs: (message: Message) => number | null;
  /** The first message is at the end, where it is cheap to remove. */
  #handful: string[] = [];
  /** Boot time of the next walk; 0: at once. */
  #walkMs = 0;
  /** Earliest boot time of the next walk that a review may start. */
  #reviewMs = 0;

  constructor(store: Store, list: WaitingList, mine: IsWanted, ripeMs: (message: Message) => number | null) {
    this.#store = store;
    this.#list = list;
    this.#mine = mine;
    this.#ripeMs = (message) => (this.has(message) ? ripeMs(message) : null);
  }

  /** False for a message that has left the list, or that another list has. */
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

  /** A message is ripe then. */
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
      this.drop();
    }
    return null;
  }

  drop(): void {
    this.#handful.pop();
  }

  putBack(id: string): void {
    this.#handful.push(id);
  }

  /** Older messages have come back: forgets the picked ones, and walks again. */
  startOver(): void {
    this.#handful = [];
    this.#walkMs = 0;
  }

  /** Picks up the first HANDFUL messages that are ripe. If there are fewer, it computes when the next one is. */
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
    this.#handful = found.reverse();
    // By the length of the list: the walk does not tell how many messages of others it passed.
    this.#reviewMs = nowMs + Math.floor(this.#store.lengthOf(this.#list) / WALK_PER_MS);
  }
}

/** Boot time at which a deferred message is due; 0: now. */
function dueMs({ status, due }: Message, clock: Clock): number {
  return status === 'deferred' ? inBootMs(due, clock) : 0;
}

/** The boot time of a stamp; 0 if it has none, or one of another boot. */
function inBootMs(stamp: Stamp | null, clock: Clock): number {
  return stamp !== null && stamp.boot === clock.boot ? stamp.bootMs : 0;
}
