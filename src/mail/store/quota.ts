/**
 * The quota of the store: messages in the queue, bytes in the state directory, bytes of memory, and what must stay free on
 * the disk. The store asks it before it writes. What is granted stays reserved until it is used, so simultaneous requests
 * cannot exceed the quota together.
 */
import { Recent } from '../../base/collections.js';
import { FieldpostError } from '../../base/errors.js';
import { KIB } from '../../base/limits.js';
import { bytesInWords, counted } from '../../base/text.js';
import type { QueueRoom } from '../../base/views.js';
import type { Message, Payer } from '../message/message.js';
import { type Accounts, type Amounts, accountsOf, enterInto, NOTHING, plus, SENDERS } from './accounts.js';
import { FreeSpace, type FreeSpaceOptions } from './free-space.js';
import { countWaiting, Freed, messagesOf, type State } from './state.js';
import { neededMemoryBytes, plainWeight } from './weight.js';

/** The share of the queue and its budget that is kept for urgent messages. */
export const URGENT_SHARE = 0.05;
/** The share of the queue and its budget that callers who may only send may fill together, in percent, */
const SENDERS_SHARE = 50;
/** and the share of what is kept for urgent messages that theirs may use. */
const SENDERS_URGENT_SHARE = 0.1;

/** How many callers' full accounts are remembered, so that each is logged once. */
const REFUSED_CALLERS_MAX = 32;

/** Who asks. */
export interface Asker extends Payer {
  /** It may use what is kept for urgent messages. */
  readonly isUrgent: boolean;
}

/** Who asks for a message like most. */
export const ANYBODY: Asker = { isUrgent: false, onlySends: false };

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
function partOf({ count, bytes, memoryBytes }: Amounts, share: number, countMin = 0): Amounts {
  return {
    count: Math.max(Math.floor(count * share), countMin),
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

/** What new messages may take over: failed messages' content, kept for a retry. */
function givable({ state }: Stored, isOf: (message: Message) => boolean = () => true): Amounts {
  const freed = new Freed(state);
  for (const message of messagesOf(state, state.kept)) if (isOf(message)) freed.add(message);
  return { ...NOTHING, bytes: freed.fileBytes + freed.textBytes };
}

/** The memory of a message without attachments. */
export const PLAIN_WEIGHT = plainWeight('', '');

/** What a message of 1 KiB needs. */
const SMALL: Amounts = { count: 1, bytes: KIB, memoryBytes: PLAIN_WEIGHT };

const MEMORY = "the service's memory (MemoryMax=)";

/** The settings that bound the store. */
export interface BudgetLimits {
  readonly maxQueue: number;
  readonly maxSpoolBytes: number;
  readonly minFreeBytes: number;
  /** The part of the queue that one caller may fill, in percent; left out: all of it. */
  readonly maxShare?: number;
  /** Who is told of failures; null or left out: nobody, and the store does not remember which were told. */
  readonly failuresTo?: unknown;
}

/** The most that may be on an account. */
interface Bound {
  readonly name: string;
  /** In percent of the queue. */
  readonly share: number;
  readonly max: Amounts;
}

/** Why something does not fit; `name` is the account that is full, null the queue. */
interface Refusal {
  readonly name: string | null;
  readonly error: FieldpostError;
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
  /** Of it, for accounts; with what their uploads have written. */
  readonly #accounts: Accounts = new Map();
  /** The last amounts that the queue (null) or an account refused, until they fit; SMALL if no message fits. */
  readonly #refused = new Recent<string | null, Amounts>(REFUSED_CALLERS_MAX);

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

  /** The bounds of an asker's accounts. What is kept for urgent messages is no part of a caller's share. */
  #boundsFor({ isUrgent, onlySends, caller }: Asker): Bound[] {
    const { maxShare = 100 } = this.#options.budget;
    const boundOf = (name: string, share: number) => ({
      name,
      share,
      max: partOf(this.#max, share / 100, 1),
    });
    const bounds: Bound[] = [];
    if (caller !== undefined && maxShare < 100) bounds.push(boundOf(caller, maxShare));
    if (onlySends) {
      const bound = boundOf(SENDERS, SENDERS_SHARE);
      bounds.push(isUrgent ? { ...bound, max: plus(bound.max, this.#sendersReserve) } : bound);
    }
    return bounds;
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
    if (this.#refused.size === 0) return;
    const giving = givable(this.#stored);
    for (const [name, refused] of this.#refused) {
      const asker = askerOf(name);
      // Log the end only when a tenth of the queue is free: a busy queue must not be logged every second.
      const { count: countMax } = this.#boundsFor(asker)[0]?.max ?? this.#maxFor(ANYBODY);
      const count = Math.min(refused.count + Math.floor(countMax / 10), countMax);
      if (this.#refusal({ ...refused, count }, giving, asker) !== null) continue;
      this.#refused.delete(name);
      this.#options.log.info('queue no longer full', name === null ? {} : { for: name });
    }
  }

  /** Why the queue takes no message of 1 KiB, as a sentence, or null. */
  #fullnessFor(asker: Asker): string | null {
    return this.#refusal(SMALL, givable(this.#stored), asker)?.error.message ?? null;
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
      this.#noteRefused(asked, refusal);
      throw refusal.error;
    }
    this.space.checkBytes(this.#reserved.bytes + asked.bytes, giving.bytes);
    // A file that grows needs no further inode.
    if (asked.count > 0) this.space.checkInodes();
  }

  /** Logs a refusal once, until the message would fit: once for large messages, once when no small one fits either. */
  #noteRefused(asked: Amounts, { name, error }: Refusal): void {
    const before = this.#refused.get(name);
    if (before === SMALL) return;
    const isFull = this.#fullnessFor(askerOf(name)) !== null;
    if (before === undefined || isFull) this.#options.log.warn('queue full', { reason: error.message });
    this.#refused.set(name, isFull ? SMALL : asked);
  }

  /** Why `asked` is refused (queue-full), or null. `giving` is what can be dropped for it. */
  #refusal(asked: Amounts, giving: Amounts, asker: Asker): Refusal | null {
    for (const bound of this.#boundsFor(asker)) {
      const error = this.#accountRefusal(asked, bound);
      if (error !== null) return { name: bound.name, error };
    }
    const error = this.#queueRefusal(asked, giving, asker);
    return error && { name: null, error };
  }

  #queueRefusal(asked: Amounts, giving: Amounts, asker: Asker): FieldpostError | null {
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
      return queueFull(words, MEMORY);
    }
    return null;
  }

  /** Why an account takes no more, because of what is on it already; or null. */
  #accountRefusal(asked: Amounts, { name, share, max }: Bound): FieldpostError | null {
    const held = plus(this.#stored.state.accounts.get(name) ?? NOTHING, this.#accounts.get(name) ?? NOTHING);
    const all = plus(held, asked);
    const [has, gets] = name === SENDERS ? ['have', 'get'] : ['has', 'gets'];
    const part = share === 50 ? 'half' : `${share} %`;
    const refused = (have: string, most: string, what: string) =>
      queueFull(
        `${name} ${has} ${have} in the queue and ${gets} at most ${part} of it, ${most}`,
        name === SENDERS ? what : 'FIELDPOST_MAX_SHARE',
      );
    if (asked.count > 0 && all.count > max.count)
      return refused(counted(held.count, 'message'), String(max.count), 'FIELDPOST_MAX_QUEUE');
    const isOf = ({ extras }: Message) => accountsOf(extras).includes(name);
    if (all.bytes > max.bytes && all.bytes - givable(this.#stored, isOf).bytes > max.bytes) {
      const most = `${bytesInWords(max.bytes)}; this one needs ${bytesInWords(asked.bytes)}`;
      return refused(bytesInWords(held.bytes), most, 'FIELDPOST_MAX_SPOOL');
    }
    if (all.memoryBytes <= max.memoryBytes) return null;
    const memory = [held.memoryBytes, max.memoryBytes].map((bytes) => `${bytesInWords(bytes)} of memory`);
    return refused(memory[0] as string, memory[1] as string, MEMORY);
  }

  /** Adds to what is reserved; negative amounts end a reservation. Only for reservations. */
  change(by: Amounts, asker: Asker): void {
    this.#reserved = plus(this.#reserved, by);
    enterInto(this.#accounts, accountsOf(asker), by);
  }

  /**
   * Reserved bytes were written: from now on they count as used. They are on an account only with their messages later,
   * so there they stay reserved until `forget`. Only for reservations.
   */
  spend(bytes: number): void {
    this.#reserved = plus(this.#reserved, { ...NOTHING, bytes: -bytes });
    this.space.spend(bytes);
  }

  /** The reservation ends that these bytes were spent of. Only for reservations. */
  forget(bytes: number, asker: Asker): void {
    enterInto(this.#accounts, accountsOf(asker), { ...NOTHING, bytes: -bytes });
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

/** Somebody whose only account is this one; null: anybody. */
function askerOf(name: string | null): Asker {
  if (name === null) return ANYBODY;
  return name === SENDERS ? { ...ANYBODY, onlySends: true } : { ...ANYBODY, caller: name };
}

function queueFull(words: string, what: string): FieldpostError {
  return new FieldpostError('queue-full', words, { hint: `wait for the link, or raise ${what}` });
}
