/**
 * `damaged/`: numbered copies of what recovery could not read, for people. They have a budget of their own: the oldest
 * copies make room for new ones. A piece is copied once, even if each start finds it.
 */
import { join } from 'node:path';
import { crc32, hex8 } from '../../base/crc.js';
import { replace } from '../../base/durable-file.js';
import { DAMAGED_BYTES_MAX, DAMAGED_SHARE } from '../../base/limits.js';
import type { Disk } from '../../base/system/disk.js';
import type { Aside } from './aside.js';
import { overwriteAt } from './overwrite.js';

/** `12-00000007.log.4096.1a2b3c4d`: the copy's number, where the bytes were, and their CRC-32. */
const NAME = /^(?:(\d+)-)?(.+)$/;

/** A copy that a power cut has interrupted. */
const HALF_COPY = /\.new$/;

/** Suffix of the name of an unreadable piece. Its copy holds zeros. */
export const UNREADABLE = '.unreadable';
/** Finds the segment's number in the name of such a piece, or of a segment that was missing. */
const UNREAD = /^(\d{8})\.log\.(?:\d+\.unreadable|missing)\./;

interface Copy {
  readonly name: string;
  readonly number: number;
  readonly bytes: number;
}

/** The copies, and the count of pieces. */
export class Damaged {
  readonly #disk: Disk;
  readonly #directory: string;
  readonly #bytesMax: number;
  /** The names of the pieces, without the number of the copy. */
  readonly #pieces = new Set<string>();
  /** Oldest first. */
  #copies: Copy[] = [];

  /** The copies take at most DAMAGED_SHARE of `spoolBytesMax`, and at most DAMAGED_BYTES_MAX. */
  constructor(disk: Disk, directory: string, spoolBytesMax: number) {
    this.#disk = disk;
    this.#directory = directory;
    this.#bytesMax = Math.min(spoolBytesMax * DAMAGED_SHARE, DAMAGED_BYTES_MAX);
  }

  /** Pieces, copied or not. */
  get count(): number {
    return this.#pieces.size;
  }

  get #bytes(): number {
    return this.#copies.reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /**
   * Segments that this start or an earlier one could not read whole. These segments may hold bytes that no copy has.
   */
  get unreadSegments(): number[] {
    return [...this.#pieces].flatMap((piece) => {
      const number = UNREAD.exec(piece)?.[1];
      return number === undefined ? [] : [Number.parseInt(number, 10)];
    });
  }

  /** Counts the copies of earlier starts, without opening them. */
  async open(aside: Aside): Promise<void> {
    // Old copies are removed, whatever their names.
    await aside.putLinkAside(this.#directory, null);
    const names = await this.#disk.list(this.#directory).catch(async () => {
      await aside.move(this.#directory, 'aside');
      return [];
    });
    for (const name of names) {
      if (HALF_COPY.test(name)) {
        await this.#disk.remove(join(this.#directory, name)).catch(() => undefined);
        continue;
      }
      const found = await this.#disk.look(join(this.#directory, name)).catch(() => null);
      const [, number = '0', piece = name] = NAME.exec(name) ?? [];
      this.#pieces.add(piece);
      if (found?.kind === 'file') this.#copies.push({ name, number: Number(number), bytes: found.bytes });
    }
    this.#copies.sort((a, b) => a.number - b.number);
    await this.#makeRoom(0);
  }

  /**
   * Counts a piece found at `where`, and keeps a copy if it fits into the budget. Gives true if the copy is on the disk.
   */
  async keep(where: string, bytes: Buffer): Promise<boolean> {
    const piece = `${where}.${hex8(crc32(bytes))}`;
    this.#pieces.add(piece);
    if (this.#copies.some(({ name }) => name.endsWith(piece))) return true;
    if (bytes.length > this.#bytesMax) return false;
    // The daemon must start even if the disk refuses the copy: then the piece is only counted.
    return await this.#copy(piece, bytes).then(
      () => true,
      () => false,
    );
  }

  /** Overwrites and removes all copies, and starts the count again. Rejects with the disk's error. */
  async purge(): Promise<void> {
    for (const copy of [...this.#copies]) {
      const path = join(this.#directory, copy.name);
      await overwriteAt(this.#disk, path);
      await this.#disk.remove(path);
      this.#copies = this.#copies.filter((other) => other !== copy);
    }
    if (this.#pieces.size > 0) await this.#disk.syncDirectory(this.#directory);
    this.#pieces.clear();
  }

  async #makeRoom(neededBytes: number): Promise<void> {
    while (this.#copies.length > 0 && this.#bytes + neededBytes > this.#bytesMax) {
      const oldest = this.#copies.shift();
      if (oldest) await this.#disk.remove(join(this.#directory, oldest.name)).catch(() => undefined);
    }
  }

  async #copy(piece: string, bytes: Buffer): Promise<void> {
    await this.#makeRoom(bytes.length);
    await this.#disk.makeDirectory(this.#directory);
    const number = (this.#copies.at(-1)?.number ?? 0) + 1;
    const name = `${number}-${piece}`;
    await replace(this.#disk, join(this.#directory, name), bytes);
    this.#copies.push({ name, number, bytes: bytes.length });
  }
}
