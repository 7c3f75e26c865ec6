/**
 * The bytes and inodes that must stay free on the disk for other programs, and whether the state directory is still there.
 * Never writes.
 */
import { join } from 'node:path';
import type { FieldpostError } from '../../base/errors.js';
import { SECOND_MS } from '../../base/limits.js';
import type { Clock } from '../../base/system/clock.js';
import type { Disk, Space } from '../../base/system/disk.js';
import type { Log } from '../../base/system/log.js';
import { bytesInWords, counted } from '../../base/text.js';
import { asDiskError, noRoom } from './disk-error.js';

const FREE_INODES_MIN = 100;
/** How long a figure of the free space may be used again. */
export const SPACE_FRESH_MS = SECOND_MS;

/** The disk, and what must stay free on it. */
export interface FreeSpaceOptions {
  readonly disk: Pick<Disk, 'space'>;
  readonly clock: Pick<Clock, 'bootMs'>;
  readonly log: Pick<Log, 'info' | 'warn' | 'error'>;
  readonly directory: string;
  readonly budget: { readonly minFreeBytes: number };
}

/** Without these the directory itself is of no use: new segments and files have no place. */
const PARTS = ['journal', 'spool'];

const UNKNOWN: Space = {
  freeBytes: Number.POSITIVE_INFINITY,
  sizeBytes: Number.POSITIVE_INFINITY,
  freeInodes: Number.POSITIVE_INFINITY,
};

/** The free space as of the last look, less what was written since. */
export class FreeSpace {
  readonly #options: FreeSpaceOptions;
  #space = { ...UNKNOWN };
  #lookedMs = Number.NEGATIVE_INFINITY;
  /** True if "storage full" was logged and its end was not. */
  #isTold = false;
  #trouble: FieldpostError | null = null;

  constructor(options: FreeSpaceOptions) {
    this.#options = options;
  }

  get freeBytes(): number {
    return this.#space.freeBytes;
  }

  /** Why the last look found no disk to look at; null: it found one. */
  get trouble(): FieldpostError | null {
    return this.#trouble;
  }

  /** True if the last look is SPACE_FRESH_MS old or older, or failed: then each request looks, and is refused by that. */
  get stale(): boolean {
    return this.#trouble !== null || this.#options.clock.bootMs() - this.#lookedMs >= SPACE_FRESH_MS;
  }

  /** Looks at the disk. Logs when the space has run out, and when there is room again. Throws storage-failed. */
  async look(): Promise<void> {
    const { disk, clock, directory, log } = this.#options;
    try {
      const places = [directory, ...PARTS.map((part) => join(directory, part))];
      [this.#space = UNKNOWN] = await Promise.all(places.map((place) => disk.space(place)));
      if (this.#trouble !== null) log.info('storage ok');
      this.#trouble = null;
    } catch (error) {
      const trouble = asDiskError(error);
      if (this.#trouble === null) log.error('storage failed', { reason: trouble.message });
      this.#trouble = trouble;
      throw trouble;
    }
    this.#lookedMs = clock.bootMs();
    this.#tell();
  }

  #tell(): void {
    const { log, budget } = this.#options;
    const { shortage } = this;
    // Log the end only when a tenth more is free: a disk near its limit must not be logged every second.
    const isOver =
      this.excess(budget.minFreeBytes / 10) <= 0 &&
      this.#space.freeInodes >= FREE_INODES_MIN + FREE_INODES_MIN / 10;
    if (this.#isTold ? !isOver : shortage === null) return;
    this.#isTold = !this.#isTold;
    if (shortage) log.warn('storage full', { reason: shortage });
    else log.info('storage no longer full');
  }

  /** Why the disk has no room for more, as a sentence; or null. */
  get shortage(): string | null {
    return this.#shortageOfBytes(0) ?? this.#shortageOfInodes;
  }

  /** By how many bytes the disk would fall below its reserve; zero or less if the asked bytes fit. */
  excess(askedBytes: number): number {
    return this.#options.budget.minFreeBytes + askedBytes - this.#space.freeBytes;
  }

  /** Throws storage-full unless the asked bytes fit after `givingBytes` were freed. */
  checkBytes(askedBytes: number, givingBytes: number): void {
    if (this.excess(askedBytes) > givingBytes) this.#refuseFor(this.#shortageOfBytes(askedBytes));
  }

  /** Throws storage-full if there are too few inodes. */
  checkInodes(): void {
    this.#refuseFor(this.#shortageOfInodes);
  }

  /** Throws storage-full if the disk is below its reserve. */
  check(): void {
    this.#refuseFor(this.shortage);
  }

  /** Counts a file that is about to be made. Throws storage-full if the disk is below its reserve. */
  takeFile(): void {
    this.check();
    this.#space.freeInodes--;
  }

  /** Counts bytes that were written. */
  spend(bytes: number): void {
    this.#space.freeBytes -= bytes;
  }

  #shortageOfBytes(askedBytes: number): string | null {
    if (this.excess(askedBytes) <= 0) return null;
    const { freeBytes, sizeBytes } = this.#space;
    const { minFreeBytes } = this.#options.budget;
    const least = `${bytesInWords(minFreeBytes)} must stay free (FIELDPOST_MIN_FREE)`;
    if (this.#isTooSmall) return `the disk has ${bytesInWords(sizeBytes)} in all, and ${least}`;
    const asked = askedBytes > 0 ? `, and ${bytesInWords(askedBytes)} are asked for` : '';
    return `the disk has ${bytesInWords(freeBytes)} free${asked}; ${least}`;
  }

  get #shortageOfInodes(): string | null {
    const { freeInodes } = this.#space;
    if (freeInodes >= FREE_INODES_MIN) return null;
    return `the disk has ${counted(freeInodes, 'inode')} free; ${FREE_INODES_MIN} must stay free`;
  }

  /** True if even the empty disk is too small. */
  get #isTooSmall(): boolean {
    return this.#space.sizeBytes <= this.#options.budget.minFreeBytes;
  }

  #refuseFor(shortage: string | null): void {
    if (shortage === null) return;
    const hint = this.#isTooSmall ? 'lower it, or give the state directory a larger disk' : undefined;
    throw noRoom(shortage, hint);
  }
}
