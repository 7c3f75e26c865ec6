/**
 * The journal's files, `journal/00000007.log`. A segment is filled before it is used, so that an append changes no file
 * size and its fdatasync is one data write. New files are filled with zeros; a free segment only gets a new number.
 */
import { join } from 'node:path';
import { isUnreadable } from '../../base/errors.js';
import { KIB, MIB, OUTCOME_RESERVE_BYTES, PAGE_BYTES, SEGMENT_BYTES } from '../../base/limits.js';
import type { Disk, DiskFile } from '../../base/system/disk.js';
import type { Quarantine } from './quarantine.js';

/** A larger file in the journal is foreign: FIELDPOST_MAX_BODY is at most 16 MiB, so no record is this long. */
const SEGMENT_BYTES_MAX = 64 * MIB;

const NAME = /^\d{8}\.log$/;
const NEWER_NAME = /^\d{8}\.log\.newer\d*$/;

/** A segment with no record of its number. The file and its name are on the device. */
export interface Prepared {
  readonly number: number;
  readonly bytes: number;
  /** A sync must follow its writes. */
  readonly file: DiskFile;
  /**
   * A write resolves when its bytes are on the device: one trip to the kernel in place of two. Bytes written to `file` may
   * not be on the device then.
   */
  readonly durable: DiskFile;
  close(): Promise<void>;
}

/** The bytes, with zeros in place of unreadable ones. */
export interface Pieces {
  readonly bytes: Buffer;
  readonly unreadable: { offset: number; end: number }[];
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
  async open(quarantine: Quarantine): Promise<void> {
    await quarantine.makeDirectory(this.#directory, NAME);
    const numbers: number[] = [];
    for (const name of await this.#disk.list(this.#directory)) {
      if (NAME.test(name)) numbers.push(Number.parseInt(name, 10));
      if (!NEWER_NAME.test(name)) continue;
      quarantine.newer.add(name);
      this.#leaveToNewer(Number.parseInt(name, 10));
    }
    for (let i = 0; i < numbers.length; i += MEASURED_AT_ONCE) {
      await Promise.all(
        numbers.slice(i, i + MEASURED_AT_ONCE).map((number) => this.#measure(number, quarantine)),
      );
    }
  }

  /** Its number is not used again, even if it cannot be renamed. */
  async putAsideNewer(segment: number, quarantine: Quarantine): Promise<void> {
    await this.#reader.leave(segment);
    await quarantine.move(this.path(segment), 'newer');
    this.#sizes.delete(segment);
    this.#leaveToNewer(segment);
  }

  #leaveToNewer(segment: number): void {
    this.newer.add(segment);
    this.startAbove(segment);
  }

  async #measure(number: number, quarantine: Quarantine): Promise<void> {
    let bytes = await quarantine.find(this.path(number));
    if (Number(bytes) > SEGMENT_BYTES_MAX) bytes = await quarantine.move(this.path(number), 'aside');
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
    return join(this.#directory, fileOf(segment));
  }

  /** A segment with room for `neededBytes` and the reserve for outcomes. The caller closes its file. */
  async take(neededBytes: number): Promise<Prepared> {
    const bytes = Math.max(SEGMENT_BYTES, neededBytes + OUTCOME_RESERVE_BYTES);
    const ready = await this.#prepare(bytes);
    this.#next = null;
    if (ready.bytes >= bytes) return ready;
    await ready.close();
    await this.free(ready.number);
    return await this.#fill(bytes);
  }

  /** A segment that was written before, open for more. The caller closes its file. */
  async reopen(number: number): Promise<Prepared> {
    return {
      number,
      bytes: this.sizeOf(number),
      ...(await openTwice(this.#disk, this.path(number), 'update')),
    };
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
      await this.#reader.leave(segment);
      await this.#disk.rename(this.path(segment), `${this.path(segment)}.damaged`);
      this.#sizes.delete(segment);
      return;
    }
    const waiting = this.#free.size + (this.#next ? 1 : 0);
    if (waiting < FREE_MAX && this.sizeOf(segment) === SEGMENT_BYTES && this.#fits(0))
      this.#free.add(segment);
    else await this.#remove(segment);
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
    await next?.close();
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

  async #remove(segment: number): Promise<void> {
    await this.#reader.leave(segment);
    await this.#disk.remove(this.path(segment));
    this.#sizes.delete(segment);
    this.#vain.delete(segment);
  }

  /** Removes a segment that holds no promised record. A failure is retried before the next segment is filled. */
  async abandon(segment: number): Promise<void> {
    this.#vain.add(segment);
    await this.#remove(segment).catch(() => undefined);
  }

  /** Throws if too many cannot be removed, because each further failure would leave one more. */
  async #removeVain(): Promise<void> {
    for (const segment of this.#vain) {
      await this.#remove(segment).catch((error) => {
        if (this.#vain.size >= VAIN_MAX) throw error;
      });
    }
  }

  /** Gives fewer bytes at the end of the file. Rejects with the disk's error. */
  read(segment: number, offset: number, length: number): Promise<Buffer> {
    return this.#reader.read(segment, offset, length);
  }

  /** Reads the whole segment; after EIO page by page. */
  async readAll(segment: number): Promise<Pieces> {
    const unreadable: Pieces['unreadable'] = [];
    const readFrom = async (offset: number, length: number): Promise<Buffer> => {
      try {
        return await this.read(segment, offset, length);
      } catch (error) {
        if (!isUnreadable(error)) throw error;
        if (length > PAGE_BYTES) return Buffer.concat(await pagesOf(offset, length));
        unreadable.push({ offset, end: offset + length });
        return Buffer.alloc(length);
      }
    };
    const pagesOf = async (from: number, length: number): Promise<Buffer[]> => {
      const pages: Buffer[] = [];
      for (let at = from; at < from + length; at += PAGE_BYTES)
        pages.push(await readFrom(at, Math.min(PAGE_BYTES, from + length - at)));
      return pages;
    };
    return { bytes: await readFrom(0, this.sizeOf(segment)), unreadable };
  }

  async close(): Promise<void> {
    await this.#reader.close();
    const next = await this.#next?.catch(() => null);
    await next?.close();
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
    const [free] = bytes === SEGMENT_BYTES ? this.#free : [];
    const number = free === undefined ? null : await this.#takeFree(free);
    if (number !== null) return await this.#open(number, bytes, 'update');
    await this.#removeFree(bytes);
    return await this.#open(this.#newNumber(bytes), bytes, 'create');
  }

  #newNumber(bytes: number): number {
    const number = Math.max(this.#above, ...this.#sizes.keys()) + 1;
    this.#sizes.set(number, bytes);
    return number;
  }

  /**
   * Gives a free segment the highest number, under which its old records are void. The last run may have been told that the
   * old name is not on the device, and then no later sync of the directory puts it there. Null if the file cannot be renamed.
   */
  async #takeFree(free: number): Promise<number | null> {
    this.#free.delete(free);
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
    let opened: Prepared | null = null;
    try {
      opened = { number, bytes, ...(await openTwice(this.#disk, this.path(number), how)) };
      if (how === 'create') await writeZeros(opened.file, bytes);
      await opened.file.sync();
      await this.#disk.syncDirectory(this.#directory);
      return opened;
    } catch (error) {
      await opened?.close().catch(() => undefined);
      // Its name may not be on the device.
      await this.abandon(number);
      throw error;
    }
  }
}

/** One file by two descriptors, because the kernel ties O_DSYNC to a descriptor. */
async function openTwice(
  disk: Disk,
  path: string,
  how: 'create' | 'update',
): Promise<Pick<Prepared, 'file' | 'durable' | 'close'>> {
  const file = await disk.open(path, how);
  const durable = await disk.open(path, 'durable').catch(async (error) => {
    await file.close().catch(() => undefined);
    throw error;
  });
  const close = async () => void (await Promise.all([file.close(), durable.close()]));
  return { file, durable, close };
}

const ZEROS = Buffer.alloc(256 * KIB);

/** Writes zeros from the file's beginning. */
async function writeZeros(file: Pick<DiskFile, 'write'>, bytes: number): Promise<void> {
  for (let at = 0; at < bytes; at += ZEROS.length) {
    await file.write(ZEROS.subarray(0, Math.min(ZEROS.length, bytes - at)), at);
  }
}

/**
 * Resolves once the file on the device is all zeros. Flash writes them to other blocks, so the old bytes may stay on the chip.
 * Rejects with the disk's error.
 */
export async function overwrite(file: DiskFile): Promise<void> {
  await writeZeros(file, await file.size());
  await file.sync();
}

/** The same for a path. */
export async function overwriteAt(disk: Disk, path: string): Promise<void> {
  const file = await disk.open(path, 'update');
  try {
    await overwrite(file);
  } finally {
    await file.close();
  }
}

interface Reader {
  readonly segment: number;
  readonly file: Promise<DiskFile>;
  users: number;
}

/**
 * Reads ranges of segments, and keeps the last file open for the next range: a mail that goes out as it comes in is read alone,
 * and to open the file for it took a sixth of its CPU.
 */
class SegmentReader {
  readonly #disk: Disk;
  readonly #pathOf: (segment: number) => string;
  #last: Reader | null = null;
  readonly #busy = new Set<Reader>();

  constructor(disk: Disk, pathOf: (segment: number) => string) {
    this.#disk = disk;
    this.#pathOf = pathOf;
  }

  isBusyWith(segment: number): boolean {
    for (const reader of this.#busy) if (reader.segment === segment) return true;
    return false;
  }

  /** Gives fewer bytes at the end of the file. Rejects with the disk's error. */
  async read(segment: number, offset: number, length: number): Promise<Buffer> {
    const reader = this.#readerOf(segment);
    reader.users++;
    this.#busy.add(reader);
    try {
      const file = await reader.file.catch((error) => {
        // The next read opens the file again.
        if (reader === this.#last) this.#last = null;
        throw error;
      });
      return await file.read(offset, length);
    } finally {
      reader.users--;
      if (reader.users === 0) this.#busy.delete(reader);
      if (reader !== this.#last) await closeUnused(reader);
    }
  }

  /** To be called before the file is renamed or removed. */
  async leave(segment: number): Promise<void> {
    if (this.#last?.segment === segment) await this.close();
  }

  /** Resolves once only files with a read under way are open. */
  async close(): Promise<void> {
    const reader = this.#last;
    this.#last = null;
    if (reader) await closeUnused(reader);
  }

  #readerOf(segment: number): Reader {
    if (this.#last?.segment !== segment) {
      void this.close();
      this.#last = { segment, file: this.#disk.open(this.#pathOf(segment), 'read'), users: 0 };
    }
    return this.#last as Reader;
  }
}

/** A file that could not be opened has rejected its read already. */
async function closeUnused(reader: Reader): Promise<void> {
  if (reader.users > 0) return;
  const file = await reader.file.catch(() => null);
  await file?.close().catch(() => undefined);
}

/** The name of a segment's file. */
export function fileOf(segment: number): string {
  return `${String(segment).padStart(8, '0')}.log`;
}
