/**
 * What must stay free on the disk for everybody else: bytes and inodes. It looks at the disk, but never writes. Used by
 * budget.ts.
 */
import { FieldpostError } from '../errors.js';
import { FREE_INODES_MIN, SPACE_FRESH_MS } from '../limits.js';
import type { Clock } from '../system/clock.js';
import type { Disk, Space } from '../system/disk.js';
import type { Log } from '../system/log.js';
import { inMib } from './room.js';
import { asTrouble } from './trouble.js';

/** The disk that is looked at. */
export interface FreeSpaceOptions {
  readonly disk: Pick<Disk, 'space'>;
  readonly clock: Pick<Clock, 'bootMs'>;
  readonly log: Pick<Log, 'info' | 'warn'>;
  /** Of the file system in question. */
  readonly directory: string;
  readonly limits: { readonly minFreeBytes: number };
}

const UNKNOWN: Space = {
  freeBytes: Number.POSITIVE_INFINITY,
  sizeBytes: Number.POSITIVE_INFINITY,
  freeInodes: Number.POSITIVE_INFINITY,
};

/** The free space as of the last look, less what was written since. */
export class FreeSpace {
  readonly #options: FreeSpaceOptions;
  #space: Space = { ...UNKNOWN };
  #lookedMs = Number.NEGATIVE_INFINITY;

  constructor(options: FreeSpaceOptions) {
    this.#options = options;
  }

  get freeBytes(): number {
    return this.#space.freeBytes;
  }

  /** True if what is known of the free space is too old to decide by. */
  get stale(): boolean {
    return this.#options.clock.bootMs() - this.#lookedMs >= SPACE_FRESH_MS;
  }

  /** Looks at the disk. Logs when the space has run out, and when there is room again. Throws storage-failed. */
  async look(): Promise<void> {
    const { disk, clock, log, directory } = this.#options;
    const before = this.shortage;
    this.#space = await disk.space(directory).catch((error) => {
      throw asTrouble(error);
    });
    this.#lookedMs = clock.bootMs();
    const { shortage } = this;
    if (shortage && !before) log.warn('storage full', { reason: shortage });
    if (!shortage && before) log.info('storage no longer full');
  }

  /** Why the disk takes nothing more, as a sentence, or null. */
  get shortage(): string | null {
    return this.#shortageOfBytes(0) ?? this.#shortageOfInodes;
  }

  /** By how many bytes so many more would be too many; what is not positive fits. */
  excess(askedBytes: number): number {
    return this.#options.limits.minFreeBytes + askedBytes - this.#space.freeBytes;
  }

  /** Throws storage-full unless the disk takes so many bytes, once `givingBytes` have gone. */
  checkBytes(askedBytes: number, givingBytes = 0): void {
    if (this.excess(askedBytes) > givingBytes) refuseFor(this.#shortageOfBytes(askedBytes));
  }

  /** Throws storage-full if there are too few inodes. */
  checkInodes(): void {
    refuseFor(this.#shortageOfInodes);
  }

  /** Throws storage-full if the disk is below its reserve. */
  check(): void {
    refuseFor(this.shortage);
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
    const { minFreeBytes } = this.#options.limits;
    const least = `${inMib(minFreeBytes)} must stay free (FIELDPOST_MIN_FREE)`;
    if (sizeBytes <= minFreeBytes) return `the disk has ${inMib(sizeBytes)} in all, and ${least}`;
    const asked = askedBytes > 0 ? `, and ${inMib(askedBytes)} are asked for` : '';
    return `the disk has ${inMib(freeBytes)} free${asked}; ${least}`;
  }

  get #shortageOfInodes(): string | null {
    const { freeInodes } = this.#space;
    if (freeInodes >= FREE_INODES_MIN) return null;
    return `the disk has ${freeInodes} inodes free; ${FREE_INODES_MIN} must stay free`;
  }
}

function refuseFor(shortage: string | null): void {
  if (shortage) throw new FieldpostError('storage-full', shortage, { hint: 'free some space on the disk' });
}
