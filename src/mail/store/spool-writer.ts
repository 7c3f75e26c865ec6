/**
 * One file on its way into the spool (Q0). Gathers small chunks into large writes, at the pace of the disk, and computes
 * the checksum.
 */

import { crc32 } from '../../base/crc.js';
import type { DiskFile } from '../../base/system/disk.js';
import { asDiskError } from './disk-error.js';

/** Reserves and counts bytes of a file before they are written. */
type Reserve = (id: string, bytes: number) => Promise<void>;

/** Writes one file of the spool. */
export class SpoolWriter {
  readonly id: string;
  readonly #file: DiskFile;
  readonly #reserve: Reserve;
  /** Two buffers: one is filled while the other is written. */
  #buffer: Buffer;
  #other: Buffer | null = null;
  #filled = 0;
  #writing: Promise<void> = Promise.resolve();
  #size = 0;
  #crc = 0;

  constructor({ id, file }: { id: string; file: DiskFile }, writeBytes: number, reserve: Reserve) {
    this.id = id;
    this.#file = file;
    this.#reserve = reserve;
    this.#buffer = Buffer.allocUnsafeSlow(writeBytes);
  }

  /** See IncomingFile. Rejects like `reserve`, or with storage-full or storage-failed. */
  write(bytes: Buffer): Promise<void> | void {
    const taken = bytes.copy(this.#buffer, this.#filled);
    this.#filled += taken;
    if (this.#filled === this.#buffer.length)
      return this.#flush().then(() => this.write(bytes.subarray(taken)));
  }

  /** Resolves when the other buffer is free. */
  async #flush(): Promise<void> {
    const bytes = this.#buffer.subarray(0, this.#filled);
    this.#crc = crc32(bytes, this.#crc);
    await this.#reserve(this.id, bytes.length);
    await this.#writing;
    this.#writing = this.#file.write(bytes, this.#size).catch(refused);
    // The next flush, or finish(), throws it.
    this.#writing.catch(() => undefined);
    this.#size += bytes.length;
    const other = this.#other ?? Buffer.allocUnsafeSlow(this.#buffer.length);
    this.#other = this.#buffer;
    this.#buffer = other;
    this.#filled = 0;
  }

  /** Syncs the content, not the file's name. */
  async finish(): Promise<{ id: string; size: number; crc: number }> {
    if (this.#filled > 0) await this.#flush();
    await this.#writing;
    await this.#file.sync().catch(refused);
    await this.close();
    return { id: this.id, size: this.#size, crc: this.#crc };
  }

  /** Never rejects. */
  async close(): Promise<void> {
    await this.#file.close().catch(() => undefined);
  }
}

function refused(error: unknown): never {
  throw asDiskError(error);
}
