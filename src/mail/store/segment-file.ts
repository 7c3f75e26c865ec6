/**
 * The file of a segment, open for writing. An append is either in the page cache when it resolves, or on the device.
 */
import type { Disk, DiskFile } from '../../base/system/disk.js';

/** One file by two descriptors, because the kernel ties O_DSYNC to a descriptor. */
export class SegmentFile {
  readonly #cached: DiskFile;
  readonly #durable: DiskFile;

  private constructor(cached: DiskFile, durable: DiskFile) {
    this.#cached = cached;
    this.#durable = durable;
  }

  /** Opens a file, or makes a new one; see Disk.open. */
  static async open(disk: Disk, path: string, how: 'create' | 'update'): Promise<SegmentFile> {
    const cached = await disk.open(path, how);
    try {
      return new SegmentFile(cached, await disk.open(path, 'durable'));
    } catch (error) {
      await cached.close().catch(() => undefined);
      throw error;
    }
  }

  /** See DiskFile.write: a sync must follow. */
  write(bytes: Buffer, offset: number): Promise<void> {
    return this.#cached.write(bytes, offset);
  }

  /**
   * Resolves when these bytes are on the device. It is one trip to the kernel in place of two. Bytes written by `write`
   * may not be on the device then.
   */
  writeDurably(bytes: Buffer, offset: number): Promise<void> {
    return this.#durable.write(bytes, offset);
  }

  /** See DiskFile.sync. */
  sync(): Promise<void> {
    return this.#cached.sync();
  }

  async close(): Promise<void> {
    await Promise.all([this.#cached.close(), this.#durable.close()]);
  }
}
