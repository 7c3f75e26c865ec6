/**
 * The budget of the store: messages in the queue, bytes in the state directory, bytes of memory, and what must stay
 * free on the disk. The store asks it before it writes. Granted room stays reserved until it is used. So simultaneous
 * requests cannot exceed the budget.
 */
import { FieldpostError } from '../errors.js';
import { URGENT_SHARE } from '../limits.js';
import { bytesInWords, counted } from '../sizes.js';
import { FreeSpace } from './free-space.js';
import type { StoreOptions } from './journaled-store.js';
import {
  NOTHING,
  negative,
  plus,
  type Room,
  roomGiving,
  roomUsed,
  SMALL,
  type Stored,
  withoutPart,
} from './room.js';
import type { QueueRoom } from './store.js';
import { neededMemoryBytes } from './weight.js';

/** The settings that bound the store. */
export interface BudgetLimits {
  readonly maxQueue: number;
  readonly maxSpoolBytes: number;
  readonly minFreeBytes: number;
}

/** Grants room, or refuses it. */
export class Budget {
  /** What must stay free on the disk. */
  readonly space: FreeSpace;
  readonly #options: StoreOptions;
  readonly #stored: Stored;
  #reserved: Room = NOTHING;
  /** The last refused room, until it fits; SMALL if no message fits. */
  #refused: Room | null = null;

  constructor(options: StoreOptions, stored: Stored) {
    this.space = new FreeSpace(options);
    this.#options = options;
    this.#stored = stored;
  }

  /** Read each time, because a reload may change the limits. */
  get #max(): Room {
    const { budget, memoryBytesMax: memoryBytes = Number.POSITIVE_INFINITY } = this.#options;
    return { count: budget.maxQueue, bytes: budget.maxSpoolBytes, memoryBytes };
  }

  /** A part is kept for urgent messages. */
  #maxFor(isUrgent: boolean): Room {
    return isUrgent ? this.#max : withoutPart(this.#max, URGENT_SHARE);
  }

  get stale(): boolean {
    return this.space.stale;
  }

  /** Looks at the free space and the queue. Logs when there is room again. Throws storage-failed. */
  async look(): Promise<void> {
    this.#lookAtQueue();
    await this.space.look();
  }

  #lookAtQueue(): void {
    if (this.#refused === null) return;
    // Log the end only when a tenth of the queue is free: a busy queue must not be logged every second.
    const { count: countMax } = this.#maxFor(false);
    const count = Math.min(this.#refused.count + Math.floor(countMax / 10), countMax);
    if (this.#refusal({ ...this.#refused, count }, roomGiving(this.#stored)) !== null) return;
    this.#refused = null;
    this.#options.log.info('queue no longer full');
  }

  /** Why the queue takes no message of 1 KiB, as a sentence, or null. */
  get fullness(): string | null {
    return this.#refusal(SMALL, roomGiving(this.#stored))?.message ?? null;
  }

  /** What is used or reserved, and the limits. */
  get room(): QueueRoom {
    const { count, bytes, memoryBytes } = plus(roomUsed(this.#stored), this.#reserved);
    const max = this.#max;
    const memoryBytesMax = Number.isFinite(max.memoryBytes) ? max.memoryBytes : null;
    return {
      used: { messages: count, bytes, memoryBytes },
      limits: { messages: max.count, bytes: max.bytes, memoryBytes: memoryBytesMax },
      reason: this.fullness,
    };
  }

  get reservedBytes(): number {
    return this.#reserved.bytes;
  }

  /** By how much `asked` exceeds the limits; zero and negative amounts fit. */
  excess(asked: Room, isUrgent: boolean): Room {
    const [used, reserved, max] = [roomUsed(this.#stored), this.#reserved, this.#maxFor(isUrgent)];
    return {
      count: used.count + reserved.count + asked.count - max.count,
      bytes: used.bytes + reserved.bytes + asked.bytes - max.bytes,
      memoryBytes: used.memoryBytes + reserved.memoryBytes + asked.memoryBytes - max.memoryBytes,
    };
  }

  /** Bytes of memory neither used nor reserved; negative after a restart with a smaller limit. */
  get leftMemoryBytes(): number {
    return this.#max.memoryBytes - neededMemoryBytes(this.#stored.state) - this.#reserved.memoryBytes;
  }

  /** How many bytes must be freed before `askedBytes` fit. */
  missing(askedBytes: number, isUrgent: boolean): number {
    const bytes = this.#reserved.bytes + askedBytes;
    return Math.max(this.#stored.usedBytes + bytes - this.#maxFor(isUrgent).bytes, this.space.excess(bytes));
  }

  /**
   * Reserves room until it is spent or given back. Throws queue-full or storage-full if it does not fit even after content
   * was dropped. If content must be dropped first, no bytes are reserved: the caller adds them afterwards.
   */
  reserve(asked: Room, isUrgent: boolean): Reservation {
    const isFree = this.missing(asked.bytes, isUrgent) <= 0;
    this.#check(asked, isFree ? NOTHING : roomGiving(this.#stored), isUrgent);
    return new Reservation(this, isFree ? asked : { ...asked, bytes: 0 }, isUrgent);
  }

  /** Reserves more. Throws queue-full or storage-full if it does not fit. Only for reservations. */
  take(asked: Room, isUrgent: boolean): void {
    this.#check(asked, NOTHING, isUrgent);
    this.change(asked);
  }

  #check(asked: Room, giving: Room, isUrgent: boolean): void {
    const refusal = this.#refusal(asked, giving, isUrgent);
    if (refusal) {
      this.#noteRefused(asked, refusal.message);
      throw refusal;
    }
    this.space.checkBytes(this.#reserved.bytes + asked.bytes, giving.bytes);
    // A file that grows needs no further inode.
    if (asked.count > 0) this.space.checkInodes();
  }

  /** Logs a refusal once, until the message would fit: once for large messages, once when no small one fits either. */
  #noteRefused(asked: Room, reason: string): void {
    if (this.#refused === SMALL) return;
    const isFull = this.fullness !== null;
    if (this.#refused === null || isFull) this.#options.log.warn('queue full', { reason });
    this.#refused = isFull ? SMALL : asked;
  }

  /** The error that refuses `asked` (queue-full), or null. `giving` is what can be dropped for it. */
  #refusal(asked: Room, giving: Room, isUrgent = false): FieldpostError | null {
    const excess = this.excess(asked, isUrgent);
    const max = this.#maxFor(isUrgent);
    const kept = max.count < this.#max.count ? ', without what is kept for urgent ones' : '';
    if (asked.count > 0 && excess.count > giving.count) {
      const held = max.count + excess.count - asked.count;
      const words = `the queue holds ${counted(held, 'message')} and takes at most ${max.count}${kept}`;
      return queueFull(words, 'FIELDPOST_MAX_QUEUE');
    }
    if (excess.bytes > giving.bytes) {
      const held = `the stored messages take ${bytesInWords(max.bytes + excess.bytes - asked.bytes)}`;
      const needed = `may take at most ${bytesInWords(max.bytes)}${kept}; this one needs ${bytesInWords(asked.bytes)}`;
      return queueFull(`${held} and ${needed}`, 'FIELDPOST_MAX_SPOOL');
    }
    if (excess.memoryBytes > giving.memoryBytes) {
      const held = bytesInWords(max.memoryBytes + excess.memoryBytes - asked.memoryBytes);
      const words = `the data of the stored messages takes ${held} of memory; the limit is ${bytesInWords(max.memoryBytes)}`;
      return queueFull(words, "the service's memory (MemoryMax=)");
    }
    return null;
  }

  /** Adds to what is reserved; negative amounts end a reservation. Only for reservations. */
  change(by: Room): void {
    this.#reserved = plus(this.#reserved, by);
  }

  /** Reserved bytes were written: from now on they count as used. Only for reservations. */
  spend(bytes: number): void {
    this.change({ ...NOTHING, bytes: -bytes });
    this.space.spend(bytes);
  }
}

/** Room that is reserved and not yet used. */
export class Reservation {
  readonly isUrgent: boolean;
  readonly #budget: Budget;
  #left: Room;

  /** `granted`: what the budget has checked. */
  constructor(budget: Budget, granted: Room, isUrgent: boolean) {
    this.#budget = budget;
    this.#left = granted;
    this.isUrgent = isUrgent;
    budget.change(granted);
  }

  /** Bytes that may still be written. */
  get bytes(): number {
    return this.#left.bytes;
  }

  /** Reserves more bytes. Throws queue-full or storage-full if they do not fit. */
  add(bytes: number): void {
    this.#budget.take({ ...NOTHING, bytes }, this.isUrgent);
    this.#left = { ...this.#left, bytes: this.#left.bytes + bytes };
  }

  /** These bytes are written. */
  spend(bytes: number): void {
    this.#budget.spend(bytes);
    this.#left = { ...this.#left, bytes: this.#left.bytes - bytes };
  }

  /** Gives back what is left. May be called twice. */
  end(): void {
    this.#budget.change(negative(this.#left));
    this.#left = NOTHING;
  }
}

function queueFull(words: string, what: string): FieldpostError {
  return new FieldpostError('queue-full', words, { hint: `wait for the link, or raise ${what}` });
}
