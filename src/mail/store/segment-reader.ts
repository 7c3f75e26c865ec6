/**
 * Reads ranges of segments, and keeps the last file open for the next range.
 */
import type { Disk, DiskFile } from '../../base/system/disk.js';

interface Reader {
  readonly segment: number;
  readonly file: Promise<DiskFile>;
  users: number;
}

/** The open files of the journal's readers. */
export class SegmentReader {
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
