/**
 * The quota of the store: messages in the queue, bytes in the state directory, bytes of memory, and what must stay free on
 * the disk. The store asks it before it writes. What is granted stays reserved until it is used, so simultaneous requests
 * cannot exceed the quota together.
 */
import { FieldpostError } from '../../base/errors.js';
import { KIB } from '../../base/limits.js';
import { bytesInWords, counted } from '../../base/text.js';
import type { QueueRoom } from '../../base/views.js';
import type { Message } from '../message/message.js';
import { FreeSpace, type FreeSpaceOptions } from './free-space.js';
import { countWaiting, Freed, messagesOf, type State } from './state.js';
import { neededMemoryBytes, plainWeight } from './weight.js';

/** Roughly what a message takes in journal and snapshots besides its content. */
const MESSAGE_RECORD_BYTES = 512;
/** The share of the queue and its budget that is kept for urgent messages. */
export const URGENT_SHARE = 0.05;
/** The share of the queue and its budget that callers who may only send may fill together, */
const SENDERS_SHARE = 0.5;
/** and the share of what is kept for urgent messages that theirs may use. */
const SENDERS_URGENT_SHARE = 0.1;

/** Messages in the queue, bytes in the state directory, and bytes of memory (weight.ts). */
export interface Amounts {
  readonly count: number;
  readonly bytes: number;
  readonly memoryBytes: number;
}

/** Who asks. */
export interface Asker {
  /** It may use what is kept for urgent messages. */
  readonly isUrgent: boolean;
  /** It may only send: askers like that share a part of the quota. */
  readonly onlySends: boolean;
}

/** Who asks for a message like most. */
export const ANYBODY: Asker = { isUrgent: false, onlySends: false };

function plus(one: Amounts, other: Amounts): Amounts {
  return {
    count: one.count + other.count,
    bytes: one.bytes + other.bytes,
    memoryBytes: one.memoryBytes + other.memoryBytes,
  };
}

/** The amounts with the opposite sign. */
function negative({ count, bytes, memoryBytes }: Amounts): Amounts {
  return { count: -count, bytes: -bytes, memoryBytes: -memoryBytes };
}

/** The amounts without this share of them, but at least one message. */
function withoutPart({ count, bytes, memoryBytes }: Amounts, share: number): Amounts {
  return {
    count: count - Math.max(0, Math.min(Math.floor(count * share), count - 1)),
    bytes: bytes - Math.floor(bytes * share),
    memoryBytes: memoryBytes * (1 - share),
  };
}

/** This share of the amounts. */
function partOf({ count, bytes, memoryBytes }: Amounts, share: number): Amounts {
  return {
    count: Math.floor(count * share),
    bytes: Math.floor(bytes * share),
    memoryBytes: memoryBytes * share,
  };
}

/** The parts of a store that the quota measures. */
interface Stored {
  readonly state: State;
  /** See Ledger.usedBytes. */
  readonly usedBytes: number;
}

/** What is in use, without memory that new messages may take over. */
function usedBy({ state, usedBytes }: Stored): Amounts {
  return { count: countWaiting(state), bytes: usedBytes, memoryBytes: neededMemoryBytes(state) };
}

/** The same of the callers who may only send: their waiting messages, with content of theirs that is kept for a retry. */
function usedBySenders({ state: { onlySent, weights } }: Stored): Amounts {
  const bytes = weights.onlySentBytes + onlySent.size * MESSAGE_RECORD_BYTES;
  return { count: onlySent.size, bytes, memoryBytes: weights.onlySent };
}

/** What new messages may take over: failed messages' content, kept for a retry. */
function givable({ state }: Stored, isOf: (message: Message) => boolean = () => true): Amounts {
  const freed = new Freed(state);
  for (const message of messagesOf(state, state.kept)) if (isOf(message)) freed.add(message);
  return { ...NOTHING, bytes: freed.fileBytes + freed.textBytes };
}

/** The memory of a message without attachments. */
export const PLAIN_WEIGHT = plainWeight('', '');

export const NOTHING: Amounts = { count: 0, bytes: 0, memoryBytes: 0 };
/** What a message of 1 KiB needs. */
const SMALL: Amounts = { count: 1, bytes: KIB, memoryBytes: PLAIN_WEIGHT };

const SENDERS = 'callers who may only send';

/** The settings that bound the store. */
export interface BudgetLimits {
  readonly maxQueue: number;
  readonly maxSpoolBytes: number;
  readonly minFreeBytes: number;
}

interface QuotaOptions extends FreeSpaceOptions {
  /** A reload changes this object. */
  readonly budget: BudgetLimits;
  readonly memoryBytesMax?: number;
}

/** Grants or refuses. */
export class Quota {
  /** What must stay free on the disk. */
  readonly space: FreeSpace;
  readonly #options: QuotaOptions;
  readonly #stored: Stored;
  #reserved: Amounts = NOTHING;
  /** Of it, for callers who may only send; with what their uploads have written. */
  #sendersReserved: Amounts = NOTHING;
  /** The last refused amounts of callers who may only send, and of others, until it fits; SMALL if no message fits. */
  readonly #refused = new Map<boolean, Amounts>();

  constructor(options: QuotaOptions, stored: Stored) {
    this.space = new FreeSpace(options);
    this.#options = options;
    this.#stored = stored;
  }

  /** Read each time, because a reload may change the limits. */
  get #max(): Amounts {
    const { budget, memoryBytesMax: memoryBytes = Number.POSITIVE_INFINITY } = this.#options;
    return { count: budget.maxQueue, bytes: budget.maxSpoolBytes, memoryBytes };
  }

  /** A part is kept for urgent messages, most of it for those of callers who may do more than send. */
  #maxFor({ isUrgent, onlySends }: Asker): Amounts {
    if (isUrgent && !onlySends) return this.#max;
    const max = withoutPart(this.#max, URGENT_SHARE);
    return isUrgent ? plus(max, this.#sendersReserve) : max;
  }

  /** What all callers who may only send may have in the queue. */
  #sendersMax(isUrgent: boolean): Amounts {
    const half = partOf(this.#max, SENDERS_SHARE);
    const max = { ...half, count: Math.max(half.count, 1) };
    return isUrgent ? plus(max, this.#sendersReserve) : max;
  }

  get #sendersReserve(): Amounts {
    return partOf(this.#max, URGENT_SHARE * SENDERS_URGENT_SHARE);
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
      if (this.#refusal({ ...refused, count }, givable(this.#stored), asker) !== null) continue;
      this.#refused.delete(onlySends);
      this.#options.log.info('queue no longer full', onlySends ? { for: SENDERS } : {});
    }
  }

  /** Why the queue takes no message of 1 KiB, as a sentence, or null. */
  #fullnessFor(asker: Asker): string | null {
    return this.#refusal(SMALL, givable(this.#stored), asker)?.message ?? null;
  }

  /** What is used or reserved, and the limits. */
  get room(): QueueRoom {
    const { count, bytes, memoryBytes } = plus(usedBy(this.#stored), this.#reserved);
    const max = this.#max;
    const memoryBytesMax = Number.isFinite(max.memoryBytes) ? max.memoryBytes : null;
    return {
      used: { messages: count, bytes, memoryBytes },
      limits: { messages: max.count, bytes: max.bytes, memoryBytes: memoryBytesMax },
      reason: this.#fullnessFor(ANYBODY),
      urgentReason: this.#fullnessFor({ ...ANYBODY, isUrgent: true }),
    };
  }

  get reservedBytes(): number {
    return this.#reserved.bytes;
  }

  /** By how much `asked` exceeds the limits; zero and negative amounts fit. */
  excess(asked: Amounts, asker: Asker): Amounts {
    const used = plus(usedBy(this.#stored), this.#reserved);
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
   * Reserves until it is spent or given back. Throws queue-full or storage-full if it does not fit even after content
   * was dropped. If content must be dropped first, no bytes are reserved: the caller adds them afterwards.
   */
  reserve(asked: Amounts, asker: Asker): Reservation {
    const isFree = this.missing(asked.bytes, asker) <= 0;
    this.#check(asked, isFree ? NOTHING : givable(this.#stored), asker);
    return new Reservation(this, isFree ? asked : { ...asked, bytes: 0 }, asker);
  }

  /** Reserves more. Throws queue-full or storage-full if it does not fit. Only for reservations. */
  take(asked: Amounts, asker: Asker): void {
    this.#check(asked, NOTHING, asker);
    this.change(asked, asker);
  }

  #check(asked: Amounts, giving: Amounts, asker: Asker): void {
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
  #noteRefused(asked: Amounts, reason: string, { onlySends }: Asker): void {
    const before = this.#refused.get(onlySends);
    if (before === SMALL) return;
    const isFull = this.#fullnessFor({ isUrgent: false, onlySends }) !== null;
    if (before === undefined || isFull) this.#options.log.warn('queue full', { reason });
    this.#refused.set(onlySends, isFull ? SMALL : asked);
  }

  /** The error that refuses `asked` (queue-full), or null. `giving` is what can be dropped for it. */
  #refusal(asked: Amounts, giving: Amounts, asker: Asker): FieldpostError | null {
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
  #sendersRefusal(asked: Amounts, isUrgent: boolean): FieldpostError | null {
    const max = this.#sendersMax(isUrgent);
    const held = plus(usedBySenders(this.#stored), this.#sendersReserved);
    const isOf = ({ extras }: Message) => extras?.onlySends === true;
    const refused = (have: string, most: string, what: string) =>
      queueFull(`${SENDERS} have ${have} in the queue and get at most half of it, ${most}`, what);
    if (asked.count > 0 && held.count + asked.count > max.count)
      return refused(counted(held.count, 'message'), String(max.count), 'FIELDPOST_MAX_QUEUE');
    if (
      held.bytes + asked.bytes > max.bytes &&
      held.bytes + asked.bytes - givable(this.#stored, isOf).bytes > max.bytes
    )
      return refused(bytesInWords(held.bytes), bytesInWords(max.bytes), 'FIELDPOST_MAX_SPOOL');
    if (held.memoryBytes + asked.memoryBytes <= max.memoryBytes) return null;
    const memory = [held.memoryBytes, max.memoryBytes].map((bytes) => `${bytesInWords(bytes)} of memory`);
    return refused(memory[0] as string, memory[1] as string, "the service's memory (MemoryMax=)");
  }

  /** Adds to what is reserved; negative amounts end a reservation. Only for reservations. */
  change(by: Amounts, { onlySends }: Asker): void {
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

/** What is reserved and not yet used. */
export class Reservation {
  readonly asker: Asker;
  readonly #quota: Quota;
  #left: Amounts;
  #spentBytes = 0;

  /** `granted`: what the quota has checked. */
  constructor(quota: Quota, granted: Amounts, asker: Asker) {
    this.#quota = quota;
    this.#left = granted;
    this.asker = asker;
    quota.change(granted, asker);
  }

  /** Bytes that may still be written. */
  get bytes(): number {
    return this.#left.bytes;
  }

  /** Reserves more bytes. Throws queue-full or storage-full if they do not fit. */
  add(bytes: number): void {
    this.#quota.take({ ...NOTHING, bytes }, this.asker);
    this.#left = { ...this.#left, bytes: this.#left.bytes + bytes };
  }

  /** These bytes are written. */
  spend(bytes: number): void {
    this.#quota.spend(bytes);
    this.#left = { ...this.#left, bytes: this.#left.bytes - bytes };
    this.#spentBytes += bytes;
  }

  /** Gives back what is left. May be called twice. */
  end(): void {
    this.#quota.change(negative(this.#left), this.asker);
    this.#quota.forget(this.#spentBytes, this.asker);
    this.#left = NOTHING;
    this.#spentBytes = 0;
  }
}

function queueFull(words: string, what: string): FieldpostError {
  return new FieldpostError('queue-full', words, { hint: `wait for the link, or raise ${what}` });
}
