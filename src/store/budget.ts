/**
 * What may still be taken in: the count of messages, the bytes in the state directory, and what must stay
 * free on the disk for everybody else. Asked before anything is written; what was granted is reserved until it is
 * used, so that many at a time do not overrun it together. Used by acceptance.ts and uploads.
 */
import { FieldpostError } from '../errors.js';
import { FREE_INODES_MIN, MIB, SPACE_FRESH_MS } from '../limits.js';
import type { Clock } from '../system/clock.js';
import type { Disk, Space } from '../system/disk.js';
import type { Log } from '../system/log.js';
import { asTrouble } from './trouble.js';

/** The settings that bound the store. */
export interface BudgetLimits {
  readonly maxQueue: number;
  readonly maxSpoolBytes: number;
  readonly minFreeBytes: number;
}

/** So many messages in the queue, and bytes in the state directory. */
export interface Room {
  readonly count: number;
  readonly bytes: number;
}

/** Says whether something still fits. It looks at the disk, but never writes. */
export class Budget {
  readonly #disk: Disk;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #directory: string;
  readonly #limits: BudgetLimits;
  readonly #used: () => Room;
  #reserved: Room = { count: 0, bytes: 0 };
  #space: Space = { freeBytes: Number.POSITIVE_INFINITY, freeInodes: Number.POSITIVE_INFINITY };
  #lookedMs = Number.NEGATIVE_INFINITY;

  /** `used` is asked for what waits and what is stored now. */
  constructor(
    world: { disk: Disk; clock: Clock; log: Log; directory: string; budget: BudgetLimits },
    used: () => Room,
  ) {
    this.#disk = world.disk;
    this.#clock = world.clock;
    this.#log = world.log;
    this.#directory = world.directory;
    this.#limits = world.budget;
    this.#used = used;
  }

  /** As of the last look, less what was written since. */
  get freeBytes(): number {
    return this.#space.freeBytes;
  }

  /** True if what is known of the free space is too old to decide by. */
  get stale(): boolean {
    return this.#clock.bootMs() - this.#lookedMs >= SPACE_FRESH_MS;
  }

  /** Looks at the free space, and says when it has run out and when there is some again. Throws storage-failed. */
  async look(): Promise<void> {
    const before = this.shortage;
    this.#space = await this.#disk.space(this.#directory).catch((error) => {
      throw asTrouble(error);
    });
    this.#lookedMs = this.#clock.bootMs();
    const { shortage } = this;
    if (shortage && !before) this.#log.warn('storage full', { reason: shortage });
    if (!shortage && before) this.#log.info('storage no longer full');
  }

  /** Why the disk takes nothing more, as a sentence, or null. */
  get shortage(): string | null {
    return this.#shortageOfBytes(0) ?? this.#shortageOfInodes;
  }

  #shortageOfBytes(askedBytes: number): string | null {
    const { freeBytes } = this.#space;
    const { minFreeBytes } = this.#limits;
    if (freeBytes - askedBytes >= minFreeBytes) return null;
    const asked = askedBytes > 0 ? `, and ${inMib(askedBytes)} are asked for` : '';
    return `the disk has ${inMib(freeBytes)} free${asked}; ${inMib(minFreeBytes)} must stay free (FIELDPOST_MIN_FREE)`;
  }

  get #shortageOfInodes(): string | null {
    const { freeInodes } = this.#space;
    if (freeInodes >= FREE_INODES_MIN) return null;
    return `the disk has ${freeInodes} inodes free; ${FREE_INODES_MIN} must stay free`;
  }

  /** By how much it would be too much; what is not positive fits. */
  excess(asked: Room): Room {
    const used = this.#used();
    return {
      count: used.count + this.#reserved.count + asked.count - this.#limits.maxQueue,
      bytes: used.bytes + this.#reserved.bytes + asked.bytes - this.#limits.maxSpoolBytes,
    };
  }

  /** How many bytes would have to go, from the state directory or the disk, for so many more to fit. */
  missing(askedBytes: number): number {
    const { bytes } = this.excess({ count: 0, bytes: askedBytes });
    const leftBytes = this.#space.freeBytes - this.#reserved.bytes - askedBytes;
    return Math.max(bytes, this.#limits.minFreeBytes - leftBytes);
  }

  /** Reserves room until it is spent or given back. Throws queue-full or storage-full if there is not as much. */
  reserve(asked: Room): Reservation {
    const reservation = new Reservation(this);
    reservation.add(asked);
    return reservation;
  }

  /** Throws queue-full or storage-full unless so much more fits. Only for reservations. */
  take(asked: Room): void {
    const { count, bytes } = this.excess(asked);
    const { maxQueue, maxSpoolBytes } = this.#limits;
    if (asked.count > 0 && count > 0) {
      throw new FieldpostError(
        'queue-full',
        `the queue holds ${maxQueue + count - asked.count} messages and takes at most ${maxQueue}`,
        {
          hint: 'wait for the link, or raise FIELDPOST_MAX_QUEUE',
        },
      );
    }
    if (bytes > 0) {
      throw new FieldpostError(
        'queue-full',
        `the stored messages take ${inMib(maxSpoolBytes + bytes - asked.bytes)} and may take at most ${inMib(maxSpoolBytes)}; this one needs ${inMib(asked.bytes)}`,
        { hint: 'wait for the link, or raise FIELDPOST_MAX_SPOOL' },
      );
    }
    this.#refuseFor(this.#shortageOfBytes(this.#reserved.bytes + asked.bytes));
    // A file that grows needs none.
    if (asked.count > 0) this.#refuseFor(this.#shortageOfInodes);
    this.change(asked);
  }

  /** Throws storage-full if the disk is below its reserve. */
  checkReserve(): void {
    this.#refuseFor(this.shortage);
  }

  #refuseFor(shortage: string | null): void {
    if (shortage) throw new FieldpostError('storage-full', shortage, { hint: 'free some space on the disk' });
  }

  /** Counts room as reserved, or with negative numbers as no longer so. Only for reservations. */
  change({ count, bytes }: Room): void {
    this.#reserved = { count: this.#reserved.count + count, bytes: this.#reserved.bytes + bytes };
  }

  /** Counts a file that is about to be made. Throws storage-full if there are too few inodes. */
  takeFile(): void {
    this.checkReserve();
    this.#space.freeInodes--;
  }

  /** So many reserved bytes were written, and count as used from here on. Only for reservations. */
  spend(bytes: number): void {
    this.change({ count: 0, bytes: -bytes });
    this.#space.freeBytes -= bytes;
  }
}

/** Room that was granted and is not yet used. */
export class Reservation {
  readonly #budget: Budget;
  #count = 0;
  #bytes = 0;

  constructor(budget: Budget) {
    this.#budget = budget;
  }

  /** Bytes that may still be written. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Throws queue-full or storage-full if there is not as much. */
  add(asked: Room): void {
    this.#budget.take(asked);
    this.#count += asked.count;
    this.#bytes += asked.bytes;
  }

  /** So many of its bytes are written. */
  spend(bytes: number): void {
    this.#budget.spend(bytes);
    this.#bytes -= bytes;
  }

  /** Gives back what is left. May be called twice. */
  end(): void {
    this.#budget.change({ count: -this.#count, bytes: -this.#bytes });
    this.#count = 0;
    this.#bytes = 0;
  }
}

function inMib(bytes: number): string {
  return `${(bytes / MIB).toFixed(1)} MiB`;
}
