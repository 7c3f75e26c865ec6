/**
 * What may still be taken in: the count of messages, the bytes in the state directory, and what must stay
 * free on the disk for everybody else. Asked before anything is written. Used by journaled-store.ts.
 */
import { FieldpostError } from '../errors.js';
import { FREE_INODES_MIN, MIB, SPACE_FRESH_MS } from '../limits.js';
import type { Clock } from '../system/clock.js';
import type { Disk, Space } from '../system/disk.js';
import type { Log } from '../system/log.js';

/** The settings that bound the store. */
export interface BudgetLimits {
  readonly maxQueue: number;
  readonly maxSpoolBytes: number;
  readonly minFreeBytes: number;
}

/** Says whether something still fits. It looks at the disk, but never writes. */
export class Budget {
  readonly #disk: Disk;
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #directory: string;
  readonly #limits: BudgetLimits;
  #space: Space = { freeBytes: Number.POSITIVE_INFINITY, freeInodes: Number.POSITIVE_INFINITY };
  #lookedMs = Number.NEGATIVE_INFINITY;

  constructor(world: { disk: Disk; clock: Clock; log: Log; directory: string; budget: BudgetLimits }) {
    this.#disk = world.disk;
    this.#clock = world.clock;
    this.#log = world.log;
    this.#directory = world.directory;
    this.#limits = world.budget;
  }

  /** As of the last look. */
  get freeBytes(): number {
    return this.#space.freeBytes;
  }

  /** True if what is known of the free space is too old to decide by. */
  get stale(): boolean {
    return this.#clock.bootMs() - this.#lookedMs >= SPACE_FRESH_MS;
  }

  /** Looks at the free space, and says when it has run out and when there is some again. */
  async look(): Promise<void> {
    const before = this.shortage;
    this.#space = await this.#disk.space(this.#directory);
    this.#lookedMs = this.#clock.bootMs();
    const { shortage } = this;
    if (shortage && !before) this.#log.warn('storage full', { reason: shortage });
    if (!shortage && before) this.#log.info('storage no longer full');
  }

  /** Why the disk takes nothing more, as a sentence, or null. */
  get shortage(): string | null {
    const { freeBytes, freeInodes } = this.#space;
    if (freeBytes < this.#limits.minFreeBytes) {
      return `the disk has ${inMib(freeBytes)} free; ${inMib(this.#limits.minFreeBytes)} must stay free (FIELDPOST_MIN_FREE)`;
    }
    if (freeInodes < FREE_INODES_MIN) {
      return `the disk has ${freeInodes} inodes free; ${FREE_INODES_MIN} must stay free`;
    }
    return null;
  }

  /** Throws queue-full or storage-full unless `count` messages and `bytes` more than are `waiting` and `used` fit. */
  check(asked: { count: number; bytes: number }, waiting: number, usedBytes: number): void {
    const { maxQueue, maxSpoolBytes } = this.#limits;
    if (waiting + asked.count > maxQueue) {
      throw new FieldpostError(
        'queue-full',
        `the queue holds ${waiting} messages and takes at most ${maxQueue}`,
        {
          hint: 'wait for the link, or raise FIELDPOST_MAX_QUEUE',
        },
      );
    }
    if (usedBytes + asked.bytes > maxSpoolBytes) {
      throw new FieldpostError(
        'queue-full',
        `the stored messages take ${inMib(usedBytes)} and may take at most ${inMib(maxSpoolBytes)}`,
        { hint: 'wait for the link, or raise FIELDPOST_MAX_SPOOL' },
      );
    }
    this.checkReserve();
  }

  /** Throws storage-full if the disk is below its reserve. */
  checkReserve(): void {
    const { shortage } = this;
    if (shortage) throw new FieldpostError('storage-full', shortage, { hint: 'free some space on the disk' });
  }
}

function inMib(bytes: number): string {
  return `${(bytes / MIB).toFixed(1)} MiB`;
}
