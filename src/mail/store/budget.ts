/**
 * The budget of the store: messages in the queue, bytes in the state directory, bytes of memory, and what must stay
 * free on the disk. The store asks it before it writes. Granted room stays reserved until it is used. So simultaneous
 * requests cannot exceed the budget.
 */
import { FieldpostError } from '../../base/errors.js';
import { SENDERS_SHARE, SENDERS_URGENT_SHARE, URGENT_SHARE } from '../../base/limits.js';
import { bytesInWords, counted } from '../../base/sizes.js';
import type { QueueRoom } from '../../base/views.js';
import type { Message } from '../message/message.js';
import { FreeSpace } from './free-space.js';
import type { StoreOptions } from './journaled-store.js';
import {
  ANYBODY,
  type Asker,
  NOTHING,
  negative,
  partOf,
  plus,
  type Room,
  roomGiving,
  roomOfSenders,
  roomUsed,
  SMALL,
  type Stored,
  withoutPart,
} from './room.js';
import { neededMemoryBytes } from './weight.js';

const SENDERS = 'callers who may only send';

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
  /** Of it, for callers who may only send; with what their uploads have written. */
  #sendersReserved: Room = NOTHING;
  /** The last refused room of callers who may only send, and of others, until it fits; SMALL if no message fits. */
  readonly #refused = new Map<boolean, Room>();

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

  /** A part is kept for urgent messages, most of it for those of callers who may do more than send. */
  #maxFor({ isUrgent, onlySends }: Asker): Room {
    if (isUrgent && !onlySends) return this.#max;
    const max = withoutPart(this.#max, URGENT_SHARE);
    return isUrgent ? plus(max, this.#sendersReserve) : max;
  }

  /** What all callers who may only send may have in the queue. */
  #sendersMax(isUrgent: boolean): Room {
    const half = partOf(this.#max, SENDERS_SHARE);
    const max = { ...half, count: Math.max(half.count, 1) };
    return isUrgent ? plus(max, this.#sendersReserve) : max;
  }

  get #sendersReserve(): Room {
    return partOf(this.#max, URGENT_SHARE * SENDERS_URGENT_SHARE);
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
    for (const [onlySends, refused] of this.#refused) {
      // Log the end only when a tenth of the queue is free: a busy queue must not be logged every second.
      const { count: countMax } = onlySends ? this.#sendersMax(false) : this.#maxFor(ANYBODY);
      const count = Math.min(refused.count + Math.floor(countMax / 10), countMax);
      const asker = { isUrgent: false, onlySends };
      if (this.#refusal({ ...refused, count }, roomGiving(this.#stored), asker) !== null) continue;
      this.#refused.delete(onlySends);
      this.#options.log.info('queue no longer full', onlySends ? { for: SENDERS } : {});
    }
  }

  /** Why the queue takes no message of 1 KiB, as a sentence, or null. */
  get fullness(): string | null {
    return this.#fullnessFor(ANYBODY);
  }

  #fullnessFor(asker: Asker): string | null {
    return this.#refusal(SMALL, roomGiving(this.#stored), asker)?.message ?? null;
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
      urgentReason: this.#fullnessFor({ ...ANYBODY, isUrgent: true }),
    };
  }

  get reservedBytes(): number {
    return this.#reserved.bytes;
  }

  /** By how much `asked` exceeds the limits; zero and negative amounts fit. */
  excess(asked: Room, asker: Asker): Room {
    const used = plus(roomUsed(this.#stored), this.#reserved);
    return plus(plus(used, asked), negative(this.#maxFor(asker)));
  }

  /** Bytes of memory neither used nor reserved; negative after a restart with a smaller limit. */
  get leftMemoryBytes(): number {
    return this.#max.memoryBytes - neededMemoryBytes(this.#stored.state) - this.#reserved.memoryBytes;
  }

  /** How many bytes must be freed before `askedBytes` fit. */
  missing(askedBytes: number, asker: Asker): number {
    const bytes = this.#reserved.bytes + askedBytes;
    return Math.max(this.#stored.usedBytes + bytes - this.#maxFor(asker).bytes, this.space.excess(bytes));
  }

  /**
   * Reserves room until it is spent or given back. Throws queue-full or storage-full if it does not fit even after content
   * was dropped. If content must be dropped first, no bytes are reserved: the caller adds them afterwards.
   */
  reserve(asked: Room, asker: Asker): Reservation {
    const isFree = this.missing(asked.bytes, asker) <= 0;
    this.#check(asked, isFree ? NOTHING : roomGiving(this.#stored), asker);
    return new Reservation(this, isFree ? asked : { ...asked, bytes: 0 }, asker);
  }

  /** Reserves more. Throws queue-full or storage-full if it does not fit. Only for reservations. */
  take(asked: Room, asker: Asker): void {
    this.#check(asked, NOTHING, asker);
    this.change(asked, asker);
  }

  #check(asked: Room, giving: Room, asker: Asker): void {
    const refusal = this.#refusal(asked, giving, asker);
    if (refusal) {
      this.#noteRefused(asked, refusal.message, asker);
      throw refusal;
    }
    this.space.checkBytes(this.#reserved.bytes + asked.bytes, giving.bytes);
    // A file that grows needs no further inode.
    if (asked.count > 0) this.space.checkInodes();
  }

  /** Logs a refusal once, until the message would fit: once for large messages, once when no small one fits either. */
  #noteRefused(asked: Room, reason: string, { onlySends }: Asker): void {
    const before = this.#refused.get(onlySends);
    if (before === SMALL) return;
    const isFull = this.#fullnessFor({ isUrgent: false, onlySends }) !== null;
    if (before === undefined || isFull) this.#options.log.warn('queue full', { reason });
    this.#refused.set(onlySends, isFull ? SMALL : asked);
  }

  /** The error that refuses `asked` (queue-full), or null. `giving` is what can be dropped for it. */
  #refusal(asked: Room, giving: Room, asker: Asker): FieldpostError | null {
    const refusal = asker.onlySends ? this.#sendersRefusal(asked, asker.isUrgent) : null;
    if (refusal !== null) return refusal;
    const excess = this.excess(asked, asker);
    const max = this.#maxFor(asker);
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

  /** Why callers who may only send get no more, because of what they have already; or null. */
  #sendersRefusal(asked: Room, isUrgent: boolean): FieldpostError | null {
    const max = this.#sendersMax(isUrgent);
    const held = plus(roomOfSenders(this.#stored), this.#sendersReserved);
    const isOf = ({ extras }: Message) => extras?.onlySends === true;
    const refused = (have: string, most: string, what: string) =>
      queueFull(`${SENDERS} have ${have} in the queue and get at most half of it, ${most}`, what);
    if (asked.count > 0 && held.count + asked.count > max.count)
      return refused(counted(held.count, 'message'), String(max.count), 'FIELDPOST_MAX_QUEUE');
    if (
      held.bytes + asked.bytes > max.bytes &&
      held.bytes + asked.bytes - roomGiving(this.#stored, isOf).bytes > max.bytes
    )
      return refused(bytesInWords(held.bytes), bytesInWords(max.bytes), 'FIELDPOST_MAX_SPOOL');
    if (held.memoryBytes + asked.memoryBytes <= max.memoryBytes) return null;
    const memory = [held.memoryBytes, max.memoryBytes].map((bytes) => `${bytesInWords(bytes)} of memory`);
    return refused(memory[0] as string, memory[1] as string, "the service's memory (MemoryMax=)");
  }

  /** Adds to what is reserved; negative amounts end a reservation. Only for reservations. */
  change(by: Room, { onlySends }: Asker): void {
    this.#reserved = plus(this.#reserved, by);
    if (onlySends) this.#sendersReserved = plus(this.#sendersReserved, by);
  }

  /**
   * Reserved bytes were written: from now on they count as used. What a caller who may only send has written counts with
   * its messages only later, so it stays reserved until `forget`. Only for reservations.
   */
  spend(bytes: number): void {
    this.#reserved = plus(this.#reserved, { ...NOTHING, bytes: -bytes });
    this.space.spend(bytes);
  }

  /** The reservation ends that these bytes were spent of. Only for reservations. */
  forget(bytes: number, { onlySends }: Asker): void {
    if (onlySends) this.#sendersReserved = plus(this.#sendersReserved, { ...NOTHING, bytes: -bytes });
  }
}

/** Room that is reserved and not yet used. */
export class Reservation {
  readonly asker: Asker;
  readonly #budget: Budget;
  #left: Room;
  #spentBytes = 0;

  /** `granted`: what the budget has checked. */
  constructor(budget: Budget, granted: Room, asker: Asker) {
    this.#budget = budget;
    this.#left = granted;
    this.asker = asker;
    budget.change(granted, asker);
  }

  /** Bytes that may still be written. */
  get bytes(): number {
    return this.#left.bytes;
  }

  /** Reserves more bytes. Throws queue-full or storage-full if they do not fit. */
  add(bytes: number): void {
    this.#budget.take({ ...NOTHING, bytes }, this.asker);
    this.#left = { ...this.#left, bytes: this.#left.bytes + bytes };
  }

  /** These bytes are written. */
  spend(bytes: number): void {
    this.#budget.spend(bytes);
    this.#left = { ...this.#left, bytes: this.#left.bytes - bytes };
    this.#spentBytes += bytes;
  }

  /** Gives back what is left. May be called twice. */
  end(): void {
    this.#budget.change(negative(this.#left), this.asker);
    this.#budget.forget(this.#spentBytes, this.asker);
    this.#left = NOTHING;
    this.#spentBytes = 0;
  }
}

function queueFull(words: string, what: string): FieldpostError {
  return new FieldpostError('queue-full', words, { hint: `wait for the link, or raise ${what}` });
}
