/**
 * What is sent next: oldest first, new and deferred messages in turn. Messages that failed together with a relay or the
 * cloud come last; after an outage a message takes its old place. One walk over the store's lists picks up many messages
 * and tells when the next walk is due, so a long queue costs little. Used by queue.ts.
 */
import type { Message, Stamp } from '../message/message.js';
import type { IsWanted, Store } from '../store/store.js';
import type { Clock } from '../system/clock.js';

/** How many messages one walk picks up at most. */
const HANDFUL = 64;
/** A walk over this many messages that finds nothing is not repeated within a millisecond for each of them. */
const WALK_PER_MS = 100;

/** Says which message is next, and when there will be one. */
export class Agenda {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #fresh: Lane;
  readonly #deferred: Lane;
  #freshFirst = true;
  /** The messages that were moved to the end, in the order of the moves: id and boot time of the move. */
  readonly #behind = new Map<string, number>();
  /** Those of them that met an outage. */
  readonly #unlucky = new Set<string>();
  /** Messages that took their old place after an outage. If one of them meets the next outage too, it may be the cause. */
  readonly #letBack = new Set<string>();

  /** `mine` tells which messages this transport takes. */
  constructor(store: Store, clock: Clock, mine: IsWanted) {
    this.#store = store;
    this.#clock = clock;
    const wanted = (message: Message) => mine(message) && !this.#behind.has(message.id);
    this.#fresh = new Lane(store, 'queued', mine, (message) => (wanted(message) ? 0 : null));
    this.#deferred = new Lane(store, 'deferred', mine, (message) =>
      wanted(message) ? dueMs(message.due, clock) : null,
    );
  }

  /** Walks again, because the store may have changed: a message was accepted, retried, flushed, … */
  review(): void {
    this.#fresh.review();
    this.#deferred.review();
  }

  /** How many messages can be claimed now. It also counts messages that were cancelled after the last walk. */
  ready(): number {
    const nowMs = this.#clock.bootMs();
    const behind = this.#firstBehind()[0] === null ? 0 : this.#behind.size;
    return this.#fresh.ready(nowMs) + this.#deferred.ready(nowMs) + behind;
  }

  /** Boot time of the next walk if nothing can be claimed now; Infinity if only a change of the store leads to one. */
  get nextMs(): number {
    return Math.min(this.#fresh.nextMs, this.#deferred.nextMs);
  }

  /**
   * Claims the message to send next; null if there is none. It is off the agenda until it is put back, put behind or
   * deferred. A probe takes a message from the end only if there is no other. Any other claim takes it after the messages
   * that were due when it was moved.
   */
  claim(probe: boolean): Message | null {
    for (;;) {
      const message = this.#pick(probe);
      const claimed = message && this.#store.claim(message.id);
      // A message that is being cancelled cannot be claimed. If the cancellation fails, a review finds it again.
      if (claimed || message === null) return claimed;
    }
  }

  #pick(probe: boolean): Message | null {
    const [back, sinceMs] = this.#firstBehind();
    const ripeMaxMs = back === null || probe ? Number.POSITIVE_INFINITY : sinceMs;
    for (const lane of this.#freshFirst ? [this.#fresh, this.#deferred] : [this.#deferred, this.#fresh]) {
      const message = lane.peek(this.#clock.bootMs());
      if (message === null || this.#ripeMs(message) > ripeMaxMs) continue;
      lane.shift();
      this.#freshFirst = lane === this.#deferred;
      return message;
    }
    if (back) this.#behind.delete(back.id);
    return back;
  }

  /** The message was claimed and given back without an offer: it is the next of its lane again. */
  putBack(message: Message): void {
    (message.status === 'deferred' ? this.#deferred : this.#fresh).unshift(message.id);
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
    this.#fresh.startOver();
    this.#deferred.startOver();
  }

  /** The store has deferred it. */
  deferred(id: string): void {
    this.#deferred.expect(dueMs(this.#store.get(id)?.due ?? null, this.#clock));
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

/** The next messages of one of the store's two lists. */
class Lane {
  readonly #store: Store;
  readonly #status: 'queued' | 'deferred';
  readonly #mine: IsWanted;
  /** Boot time from which the message may be picked; null: not at all. */
  readonly #ripeMs: (message: Message) => number | null;
  #handful: string[] = [];
  /** Boot time of the next walk; 0: at once. */
  #walkMs = 0;
  /** Earliest boot time of the next walk that a review may start. */
  #reviewMs = 0;

  constructor(
    store: Store,
    status: 'queued' | 'deferred',
    mine: IsWanted,
    ripeMs: (message: Message) => number | null,
  ) {
    this.#store = store;
    this.#mine = mine;
    this.#status = status;
    this.#ripeMs = (message) => (message.status === status ? ripeMs(message) : null);
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
    let walked = 0;
    this.#walkMs = Number.POSITIVE_INFINITY;
    const isMine: IsWanted = (message) => {
      walked++;
      return this.#mine(message);
    };
    for (const message of this.#store[this.#status](isMine)) {
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
    this.#reviewMs = nowMs + Math.floor(walked / WALK_PER_MS);
  }
}

/** Boot time at which a deferred message is due; 0 if it has none, or one of another boot. */
function dueMs(due: Stamp | null, clock: Clock): number {
  return due !== null && due.boot === clock.boot ? due.bootMs : 0;
}
