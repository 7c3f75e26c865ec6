/**
 * The journal's files, `journal/00000007.log`. A segment is filled before it is used, so that an append changes no file
 * size and its fdatasync is one data write. New files are filled with zeros; a free segment only gets a new number.
 */
import { join } from 'node:path';
import { OUTCOME_RESERVE_BYTES, SEGMENT_BYTES, SEGMENT_BYTES_MAX } from '../../base/limits.js';
import type { Disk } from '../../base/system/disk.js';
import type { Aside } from './aside.js';
import { overwriteAt, writeZeros } from './overwrite.js';
import { type Pieces, readInPieces } from './pieces.js';
import { SegmentFile } from './segment-file.js';
import { SegmentReader } from './segment-reader.js';

const NAME = /^\d{8}\.log$/;
const NEWER_NAME = /^\d{8}\.log\.newer\d*$/;

/** A segment with no record of its number. The file and its name are on the device. */
export interface Prepared {
  readonly number: number;
  readonly file: SegmentFile;
  readonly bytes: number;
}

/** A start looks at so many files together. */
const MEASURED_AT_ONCE = 16;
/** At most so many segments wait to be written, the prepared one included. */
const FREE_MAX = 2;
/** At most so many failed segments may wait to be removed. */
const VAIN_MAX = 2;

/** Prepares, reads and frees all segments in the directory. It does not know their content. */
export class Segments {
  readonly #disk: Disk;
  readonly #directory: string;
  /** True if so many bytes more on the disk are within the budget. Only segments ahead of need ask it. */
  readonly #fits: (bytes: number) => boolean;
  readonly #sizes = new Map<number, number>();
  /** Segments that nothing needs. They are used next, so that flash is not filled with zeros again. */
  readonly #free = new Set<number>();
  #next: Promise<Prepared> | null = null;
  readonly #reader: SegmentReader;
  /** Segments whose writes failed, and that could not be removed yet. */
  readonly #vain = new Set<number>();
  #above = 0;
  /**
   * Segments that the start found. The last run may have been told that the name of one is not on the device. Then no later
   * sync of the directory puts it there: only a new name does.
   */
  readonly #found = new Set<number>();
  readonly #keptWhole = new Set<number>();
  /** The numbers of segments that a newer version wrote. They are never used again. */
  readonly newer = new Set<number>();

  constructor(disk: Disk, directory: string, fits: (bytes: number) => boolean = () => true) {
    this.#disk = disk;
    this.#directory = directory;
    this.#fits = fits;
    this.#reader = new SegmentReader(disk, (segment) => this.path(segment));
  }

  /** Makes the directory if it is missing, and lists it. Puts aside what is not a regular file. */
  async open(aside: Aside): Promise<void> {
    await aside.makeDirectory(this.#directory, NAME);
    const numbers: number[] = [];
    for (const name of await this.#disk.list(this.#directory)) {
      if (NAME.test(name)) numbers.push(Number.parseInt(name, 10));
      if (!NEWER_NAME.test(name)) continue;
      aside.newer.add(name);
      this.#leaveToNewer(Number.parseInt(name, 10));
    }
    for (const number of numbers) this.#found.add(number);
    for (let i = 0; i < numbers.length; i += MEASURED_AT_ONCE) {
      await Promise.all(numbers.slice(i, i + MEASURED_AT_ONCE).map((number) => this.#measure(number, aside)));
    }
  }

  /** Its number is not used again, even if it cannot be renamed. */
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

  /** Segments that may hold records, lowest first. */
  get numbers(): number[] {
    return [...this.#sizes.keys()].filter((number) => !this.#free.has(number)).sort((a, b) => a - b);
  }

  /** New segments get higher numbers than this. */
  startAbove(segment: number): void {
    this.#above = Math.max(this.#above, segment);
  }

  /** Bytes on disk, the prepared segment included. */
  get bytes(): number {
    let sum = 0;
    for (const bytes of this.#sizes.values()) sum += bytes;
    return sum;
  }

  /** Bytes of the segments up to this one, without those that are free. */
  bytesUpTo(last: number): number {
    let sum = 0;
    for (const [number, bytes] of this.#sizes) if (number <= last && !this.#free.has(number)) sum += bytes;
    return sum;
  }

  sizeOf(segment: number): number {
    return this.#sizes.get(segment) ?? 0;
  }

  path(segment: number): string {
    return join(this.#directory, `${String(segment).padStart(8, '0')}.log`);
  }

  /** A segment with room for `neededBytes` and the reserve for outcomes. The caller closes its file. */
  async take(neededBytes: number): Promise<Prepared> {
    const bytes = Math.max(SEGMENT_BYTES, neededBytes + OUTCOME_RESERVE_BYTES);
    const ready = await this.#prepare(bytes);
    this.#next = null;
    if (ready.bytes >= bytes) return ready;
    await ready.file.close();
    await this.free(ready.number);
    return await this.#fill(bytes);
  }

  /** A segment that was written before, open for more. The caller closes its file. */
  async reopen(number: number): Promise<Prepared> {
    const file = await SegmentFile.open(this.#disk, this.path(number), 'update');
    return { number, file, bytes: this.sizeOf(number) };
  }

  /** Prepares the next segment before it is needed, if it fits. If that fails, `take` tries again, and rejects. */
  prepareAhead(): void {
    if (this.#free.size > 0 || this.#fits(SEGMENT_BYTES)) this.#prepare(SEGMENT_BYTES).catch(() => undefined);
  }

  /** This segment holds damage without a copy: it is never removed, only renamed. */
  keepWhole(segment: number): void {
    this.#keptWhole.add(segment);
  }

  /** Keeps a segment that nothing needs any more for later use, or removes it. One that is being read stays as it is. */
  async free(segment: number): Promise<void> {
    if (this.#reader.isBusyWith(segment)) return;
    if (this.#keptWhole.has(segment)) {
      await this.#disk.rename(this.path(segment), `${this.path(segment)}.damaged`);
      this.#sizes.delete(segment);
      return;
    }
    const waiting = this.#free.size + (this.#next ? 1 : 0);
    if (waiting < FREE_MAX && this.sizeOf(segment) === SEGMENT_BYTES && this.#fits(0))
      this.#free.add(segment);
    else await this.remove(segment);
  }

  /** Overwrites a segment that nothing needs any more, and frees it. Damage without a copy stays. */
  async purge(segment: number): Promise<void> {
    if (!this.#keptWhole.has(segment)) await overwriteAt(this.#disk, this.path(segment));
    await this.free(segment);
  }

  /** Overwrites the segments that are used next. Do not take one meanwhile. */
  async purgeAhead(): Promise<void> {
    await this.#freeNext();
    for (const segment of this.#free) await overwriteAt(this.#disk, this.path(segment));
  }

  /** True if so many bytes more do not fit, and a segment is prepared or kept for later. */
  isInTheWay(neededBytes: number): boolean {
    return !this.#fits(neededBytes) && (this.#next !== null || this.#free.size > 0);
  }

  /** Removes such segments until so many bytes more fit. Do not take one meanwhile. */
  async giveWay(neededBytes: number): Promise<void> {
    if (this.isInTheWay(neededBytes)) await this.#freeNext();
    await this.#removeFree(neededBytes);
  }

  async #freeNext(): Promise<void> {
    const next = await this.#next?.catch(() => null);
    this.#next = null;
    await next?.file.close();
    if (next) this.#free.add(next.number);
  }

  /** Removes free segments until so many bytes more fit. */
  async #removeFree(neededBytes: number): Promise<void> {
    for (const segment of this.#free) {
      if (this.#fits(neededBytes)) return;
      this.#free.delete(segment);
      await this.abandon(segment);
    }
  }

  async remove(segment: number): Promise<void> {
    await this.#reader.leave(segment);
    await this.#disk.remove(this.path(segment));
    this.#sizes.delete(segment);
    this.#vain.delete(segment);
  }

  /** Removes a segment that holds no promised record. A failure is retried before the next segment is filled. */
  async abandon(segment: number): Promise<void> {
    this.#vain.add(segment);
    await this.remove(segment).catch(() => undefined);
  }

  /** Throws if too many cannot be removed, because each further failure would leave one more. */
  async #removeVain(): Promise<void> {
    for (const segment of this.#vain) {
      await this.remove(segment).catch((error) => {
        if (this.#vain.size >= VAIN_MAX) throw error;
      });
    }
  }

  /** Gives fewer bytes at the end of the file. */
  read(segment: number, offset: number, length: number): Promise<Buffer> {
    return this.#reader.read(segment, offset, length);
  }

  /** Unreadable bytes are zeros, and listed. */
  readAll(segment: number): Promise<Pieces> {
    return readInPieces(this.sizeOf(segment), (at, length) => this.read(segment, at, length));
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
    const free = bytes === SEGMENT_BYTES && this.#free.size > 0 ? Math.max(...this.#free) : null;
    const number = free && (await this.#takeFree(free));
    if (number) return await this.#open(number, bytes, 'update');
    await this.#removeFree(bytes);
    return await this.#open(this.#newNumber(bytes), bytes, 'create');
  }

  get #highest(): number {
    return Math.max(this.#above, ...this.#sizes.keys());
  }

  #newNumber(bytes: number): number {
    const number = this.#highest + 1;
    this.#sizes.set(number, bytes);
    return number;
  }

  /**
   * Gives a free segment the highest number, under which its old records are void. Null if the file cannot be renamed.
   */
  async #takeFree(free: number): Promise<number | null> {
    this.#free.delete(free);
    // This run prepared the one with the highest number, and never wrote to it.
    if (free === this.#highest && !this.#found.has(free)) return free;
    const number = this.#newNumber(SEGMENT_BYTES);
    try {
      await this.#reader.leave(free);
      await this.#disk.rename(this.path(free), this.path(number));
      this.#sizes.delete(free);
      return number;
    } catch {
      // The file may have either name.
      for (const name of [free, number]) await this.abandon(name);
      return null;
    }
  }

  /** Syncs file and directory before the first record: an append relies on size and name. */
  async #open(number: number, bytes: number, how: 'create' | 'update'): Promise<Prepared> {
    let file: SegmentFile | null = null;
    try {
      file = await SegmentFile.open(this.#disk, this.path(number), how);
      if (how === 'create') await writeZeros(file, bytes);
      await file.sync();
      await this.#disk.syncDirectory(this.#directory);
      return { number, file, bytes };
    } catch (error) {
      await file?.close().catch(() => undefined);
      // Its name may not be on the device.
      await this.abandon(number);
      throw error;
    }
  }
}
