/**
 * The journal's files, `journal/00000007.log`. A segment is filled ahead of use, so that an append changes no
 * file size and its fdatasync is one data write: the first ones with zeros, later ones by giving a segment that
 * nothing needs any more a new number. The journal writes them, recovery and the ledger read them.
 */
import { join } from 'node:path';
import { OUTCOME_RESERVE_BYTES, SEGMENT_BYTES, SEGMENT_BYTES_MAX } from '../limits.js';
import type { Disk, DiskFile } from '../system/disk.js';
import type { Aside } from './aside.js';
import { overwriteAt } from './overwrite.js';
import { type Pieces, readInPieces } from './pieces.js';
import { SegmentReader } from './segment-reader.js';

const NAME = /^(\d{8})\.log$/;
/** One that a newer version wrote. */
const NEWER_NAME = /^(\d{8})\.log\.newer\d*$/;
const ZEROS = Buffer.alloc(SEGMENT_BYTES / 4);

/** A segment without a record of its number that is, with its name, on stable storage. */
export interface Prepared {
  readonly number: number;
  readonly file: DiskFile;
  readonly bytes: number;
}

// How many files a start looks at together.
const MEASURED_AT_ONCE = 16;

/** So many that were begun in vain may wait to be removed. */
const VAIN_MAX = 2;

/** All segments in the directory: prepares, reads and lets go of them. It never looks into them. */
export class Segments {
  readonly #disk: Disk;
  readonly #directory: string;
  readonly #sizes = new Map<number, number>();
  /** Prepared by an earlier run and never written to, so that restarts do not wear the flash. */
  #untouched: number | null = null;
  /** Done with, to be used again under a new number. */
  #spare: number | null = null;
  #next: Promise<Prepared> | null = null;
  readonly #reader: SegmentReader;
  /** Begun in vain, and so far not removed. */
  readonly #vain = new Set<number>();
  #above = 0;
  readonly #keptWhole = new Set<number>();
  /** The numbers of those that a newer version wrote. They stay taken. */
  readonly newer = new Set<number>();

  constructor(disk: Disk, directory: string) {
    this.#disk = disk;
    this.#directory = directory;
    this.#reader = new SegmentReader(disk, (segment) => this.path(segment));
  }

  /** Makes the directory where it is missing, and learns what is in it. What is no segment is put aside. */
  async open(aside: Aside): Promise<void> {
    await aside.makeDirectory(this.#directory);
    const names = await this.#disk.list(this.#directory);
    for (const name of names) {
      const number = NEWER_NAME.exec(name)?.[1];
      if (number === undefined) continue;
      aside.newer.add(name);
      this.#leaveToNewer(Number.parseInt(number, 10));
    }
    const numbers = names.flatMap((name) => {
      const number = NAME.exec(name)?.[1];
      return number === undefined ? [] : [Number.parseInt(number, 10)];
    });
    for (let i = 0; i < numbers.length; i += MEASURED_AT_ONCE) {
      await Promise.all(numbers.slice(i, i + MEASURED_AT_ONCE).map((number) => this.#measure(number, aside)));
    }
  }

  /** Puts one aside that a newer version wrote. It keeps its number, also where it cannot be renamed. */
  async putAsideNewer(segment: number, aside: Aside): Promise<void> {
    await this.#reader.leave(segment);
    await aside.move(this.path(segment), 'newer');
    this.#sizes.delete(segment);
    this.#leaveToNewer(segment);
  }

  #leaveToNewer(segment: number): void {
    this.newer.add(segment);
    this.startAbove(segment);
  }

  async #measure(number: number, aside: Aside): Promise<void> {
    let bytes = await aside.find(this.path(number));
    if (Number(bytes) > SEGMENT_BYTES_MAX) bytes = await aside.move(this.path(number), 'aside');
    if (typeof bytes === 'number') this.#sizes.set(number, bytes);
    else if (bytes === 'unusable') this.startAbove(number);
  }

  /** The numbers of all segments there are, lowest first, but for one that is done with. */
  get numbers(): number[] {
    return [...this.#sizes.keys()].filter((number) => number !== this.#spare).sort((a, b) => a - b);
  }

  /** Says that new segments must have higher numbers than this, also where the one with it is gone. */
  startAbove(segment: number): void {
    this.#above = Math.max(this.#above, segment);
  }

  /** Bytes on disk, the prepared segment included. */
  get bytes(): number {
    let sum = 0;
    for (const bytes of this.#sizes.values()) sum += bytes;
    return sum;
  }

  sizeOf(segment: number): number {
    return this.#sizes.get(segment) ?? 0;
  }

  path(segment: number): string {
    return join(this.#directory, `${String(segment).padStart(8, '0')}.log`);
  }

  /** Says that a segment holds no record and may be used as it is; one that is not whole is removed. */
  async reuse(segment: number): Promise<void> {
    if (this.#untouched === null && this.sizeOf(segment) === SEGMENT_BYTES) this.#untouched = segment;
    else await this.remove(segment);
  }

  /** A segment with room for `neededBytes` and the reserve for outcomes. It is the caller's to close. */
  async take(neededBytes: number): Promise<Prepared> {
    const bytes = Math.max(SEGMENT_BYTES, neededBytes + OUTCOME_RESERVE_BYTES);
    const ready = await this.#prepare(bytes);
    this.#next = null;
    if (ready.bytes >= bytes) return ready;
    await ready.file.close();
    await this.retire(ready.number);
    return await this.#fill(bytes);
  }

  /** Prepares the next segment off the hot path. Whoever takes it hears of a failure, by trying again. */
  prepareAhead(): void {
    this.#prepare(SEGMENT_BYTES).catch(() => undefined);
  }

  /** Says that a segment holds damage of which there is no copy: it is never removed, only renamed. */
  keepWhole(segment: number): void {
    this.#keptWhole.add(segment);
  }

  /** Lets go of a segment that nothing needs any more; one that is just being read stays for another time. */
  async retire(segment: number): Promise<void> {
    if (this.#reader.isBusyWith(segment)) return;
    if (this.#keptWhole.has(segment)) {
      await this.#disk.rename(this.path(segment), `${this.path(segment)}.damaged`);
      this.#sizes.delete(segment);
    } else if (this.#spare === null && this.sizeOf(segment) === SEGMENT_BYTES) this.#spare = segment;
    else await this.remove(segment);
  }

  /** Overwrites a segment that nothing needs any more, and lets go of it; damage without a copy stays. */
  async purge(segment: number): Promise<void> {
    if (!this.#keptWhole.has(segment)) await overwriteAt(this.#disk, this.path(segment));
    await this.retire(segment);
  }

  /** Overwrites what the next segments are made of. Nobody may take one meanwhile. */
  async purgeAhead(): Promise<void> {
    const next = await this.#next?.catch(() => null);
    this.#next = null;
    await next?.file.close();
    if (next) this.#untouched = next.number;
    for (const segment of [this.#untouched, this.#spare]) {
      if (segment !== null) await overwriteAt(this.#disk, this.path(segment));
    }
  }

  async remove(segment: number): Promise<void> {
    await this.#reader.leave(segment);
    await this.#disk.remove(this.path(segment));
    this.#sizes.delete(segment);
    this.#vain.delete(segment);
  }

  /** Removes a segment of which nothing was promised. What the disk does not let go of now goes before the next is filled. */
  async abandon(segment: number): Promise<void> {
    this.#vain.add(segment);
    await this.remove(segment).catch(() => undefined);
  }

  /** Throws while there are too many of which the disk does not let go: each try would leave one more. */
  async #removeVain(): Promise<void> {
    for (const segment of this.#vain) {
      await this.remove(segment).catch((error) => {
        if (this.#vain.size >= VAIN_MAX) throw error;
      });
    }
  }

  /** Reads a byte range; shorter where the file ends. */
  async read(segment: number, offset: number, length: number): Promise<Buffer> {
    return await this.#reader.read(segment, offset, length);
  }

  /** Reads all of a segment; what the disk does not give back any more is zeros, and said. */
  async readAll(segment: number): Promise<Pieces> {
    return await readInPieces(this.sizeOf(segment), (at, length) => this.read(segment, at, length));
  }

  async close(): Promise<void> {
    await this.#reader.close();
    const next = await this.#next?.catch(() => null);
    await next?.file.close();
    this.#next = null;
  }

  #prepare(bytes: number): Promise<Prepared> {
    this.#next ??= this.#fill(bytes).catch((error) => {
      this.#next = null;
      throw error;
    });
    return this.#next;
  }

  async #fill(bytes: number): Promise<Prepared> {
    await this.#removeVain();
    const untouched = this.#untouched;
    this.#untouched = null;
    if (untouched !== null && bytes === SEGMENT_BYTES) return await this.#settle(untouched, bytes, 'update');
    // Segments are used in the order of their numbers, so a smaller one could not follow this.
    if (untouched !== null) await this.remove(untouched);
    const spare = this.#spare;
    if (spare !== null && bytes === SEGMENT_BYTES) {
      this.#spare = null;
      const number = await this.#renumber(spare);
      if (number !== null) return await this.#settle(number, bytes, 'update');
    }
    return await this.#settle(this.#newNumber(bytes), bytes, 'create');
  }

  #newNumber(bytes: number): number {
    const number = Math.max(this.#above, ...this.#sizes.keys()) + 1;
    this.#sizes.set(number, bytes);
    return number;
  }

  /** Uses a segment again: its old records are none under the new number (record.ts). Gives that, or null where it cannot be renamed. */
  async #renumber(spare: number): Promise<number | null> {
    const number = this.#newNumber(this.sizeOf(spare));
    try {
      await this.#reader.leave(spare);
      await this.#disk.rename(this.path(spare), this.path(number));
      this.#sizes.delete(spare);
      return number;
    } catch {
      // Nobody knows which of the names it has.
      for (const name of [spare, number]) await this.abandon(name);
      return null;
    }
  }

  /** Both syncs, before anyone writes to it: an append must find size and name already on the device. */
  async #settle(number: number, bytes: number, how: 'create' | 'update'): Promise<Prepared> {
    let file: DiskFile | null = null;
    try {
      file = await this.#disk.open(this.path(number), how);
      for (let at = 0; how === 'create' && at < bytes; at += ZEROS.length) {
        await file.write(ZEROS.subarray(0, Math.min(ZEROS.length, bytes - at)), at);
      }
      await file.sync();
      await this.#disk.syncDirectory(this.#directory);
      return { number, file, bytes };
    } catch (error) {
      await file?.close().catch(() => undefined);
      // Its name may never reach the device.
      await this.abandon(number);
      throw error;
    }
  }
}
