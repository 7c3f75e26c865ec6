/**
 * `damaged/`: copies of what recovery could not read, for whoever wants to look into it later. The same piece
 * found again at the next start is copied once. Beyond a limit pieces are only counted.
 */
import { join } from 'node:path';
import { DAMAGED_BYTES_MAX } from '../limits.js';
import type { Disk } from '../system/disk.js';
import { crc32, hex8 } from './crc.js';

/** The directory of copies, with its count. */
export class Damaged {
  readonly #disk: Disk;
  readonly #directory: string;
  readonly #names = new Set<string>();
  #bytes = 0;

  constructor(disk: Disk, directory: string) {
    this.#disk = disk;
    this.#directory = directory;
  }

  /** Pieces kept or counted. */
  get count(): number {
    return this.#names.size;
  }

  /** Bytes kept. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Counts what former starts have kept. */
  async open(): Promise<void> {
    for (const name of await this.#disk.list(this.#directory)) {
      this.#names.add(name);
      this.#bytes += (await this.#disk.readWhole(join(this.#directory, name)))?.length ?? 0;
    }
  }

  /** Keeps a copy under a name that tells where it was found. True if this piece is new. */
  async keep(where: string, bytes: Buffer): Promise<boolean> {
    const name = `${where}.${hex8(crc32(bytes))}`;
    if (this.#names.has(name)) return false;
    this.#names.add(name);
    // A disk that does not take the copy must not keep the daemon from starting: then it is only counted.
    if (this.#bytes + bytes.length <= DAMAGED_BYTES_MAX) await this.#copy(name, bytes).catch(() => undefined);
    return true;
  }

  async #copy(name: string, bytes: Buffer): Promise<void> {
    await this.#disk.makeDirectory(this.#directory);
    const file = await this.#disk.open(join(this.#directory, name), 'create');
    try {
      await file.write(bytes, 0);
      await file.sync();
    } finally {
      await file.close();
    }
    await this.#disk.syncDirectory(this.#directory);
    this.#bytes += bytes.length;
  }
}
