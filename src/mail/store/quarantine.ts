/**
 * What the store does not use, and keeps for people.
 *
 * Strange files under its names are never opened: a directory, a fifo, a dangling link, an inode that the kernel refuses. The
 * store renames such a file, or works without the name if that fails. It logs both.
 *
 * `damaged/` has numbered copies of what recovery could not read. They have a budget of their own: the oldest copies make
 * room for new ones. A piece is copied once, even if each start finds it.
 */
import { basename, dirname, join } from 'node:path';
import { crc32, hex8 } from '../../base/crc.js';
import { replace } from '../../base/durable-file.js';
import { systemCodeOf, wordsOf } from '../../base/errors.js';
import { MIB } from '../../base/limits.js';
import type { Disk } from '../../base/system/disk.js';
import type { Log } from '../../base/system/log.js';

/** Frees the store's names of strange files. */
export class Quarantine {
  readonly #disk: Disk;
  readonly #log: Log;
  /** The names of files that a newer version wrote. */
  readonly newer = new Set<string>();
  /** The names that can be neither read nor renamed. */
  readonly unusable = new Set<string>();

  constructor(disk: Disk, log: Log) {
    this.#disk = disk;
    this.#log = log;
  }

  /** The two lists, for the state endpoint. */
  get names(): { newer: string[]; unusable: string[] } {
    return { newer: [...this.newer].sort(), unusable: [...this.unusable].sort() };
  }

  /**
   * The size of the regular file at `path`; null without one. Renames a strange file; returns `unusable` if that fails.
   */
  async find(path: string): Promise<number | null | 'unusable'> {
    try {
      const found = await this.#disk.look(path);
      if (found === null) return null;
      if (found.kind === 'file') return found.bytes;
    } catch (error) {
      return this.#goOnWithout(path, error);
    }
    return await this.move(path, 'aside');
  }

  /** Renames the file at `path` to a free name that ends in `why`. Returns null, or `unusable` if that fails. */
  async move(path: string, why: 'aside' | 'damaged' | 'newer'): Promise<null | 'unusable'> {
    try {
      const taken = new Set(await this.#disk.list(dirname(path)));
      let as = `${basename(path)}.${why}`;
      for (let n = 2; taken.has(as); n++) as = `${basename(path)}.${why}${n}`;
      await this.#disk.rename(path, join(dirname(path), as));
      if (why === 'newer') this.newer.add(as);
      this.#log.warn('put aside', { name: basename(path), as });
      return null;
    } catch (error) {
      return this.#goOnWithout(path, error);
    }
  }

  /**
   * Copies the file of a newer version at `path` to a free name, unless an equal copy exists. When this resolves, the copy
   * is on the device. If the copy fails, the file itself is renamed.
   */
  async copyNewer(path: string): Promise<void> {
    const disk = this.#disk;
    const directory = dirname(path);
    try {
      const bytes = (await disk.readWhole(path)) ?? Buffer.alloc(0);
      const taken = new Set(await disk.list(directory));
      let as = `${basename(path)}.newer`;
      for (let n = 2; taken.has(as); n++) {
        if (await this.#holds(join(directory, as), bytes)) return;
        as = `${basename(path)}.newer${n}`;
      }
      await replace(disk, join(directory, as), bytes);
      this.newer.add(as);
      this.#log.warn('put aside', { name: basename(path), as });
    } catch {
      await this.move(path, 'newer');
    }
  }

  async #holds(path: string, bytes: Buffer): Promise<boolean> {
    const found = await this.#disk.look(path);
    if (found?.kind !== 'file' || found.bytes !== bytes.length) return false;
    return (await this.#disk.readWhole(path))?.equals(bytes) ?? false;
  }

  #goOnWithout(path: string, error: unknown): 'unusable' {
    this.unusable.add(basename(path));
    this.#log.warn('unusable', { name: basename(path), reason: wordsOf(error) });
    return 'unusable';
  }

  /**
   * Puts aside a link in the place of a directory: the store would write and remove files elsewhere. With `ours`, a link is
   * followed that leads to a directory of this user alone, or to one with files of the store, which have names like `ours`:
   * a person has moved it to a larger disk, where messages have their files or will have them.
   */
  async putLinkAside(path: string, ours: RegExp | null): Promise<void> {
    const found = await this.#disk.look(path).catch(() => null);
    if (found?.kind !== 'other') return;
    const names = ours === null ? [] : await this.#disk.list(path).catch(() => []);
    const isFollowed = ours !== null && (found.isOwnElsewhere || names.some((name) => ours.test(name)));
    if (isFollowed) this.#log.warn('link followed', { name: basename(path) });
    else await this.move(path, 'aside');
  }

  /** Makes the directory of `ours`, and puts aside another file with its name. Rejects with the disk's error. */
  async makeDirectory(path: string, ours: RegExp): Promise<void> {
    await this.putLinkAside(path, ours);
    try {
      await this.#disk.makeDirectory(path);
    } catch (error) {
      if (!['EEXIST', 'ENOTDIR', 'ENOENT'].includes(systemCodeOf(error))) throw error;
      if ((await this.move(path, 'aside')) === 'unusable') throw error;
      await this.#disk.makeDirectory(path);
    }
  }
}

/** Copies take at most this much, */
export const DAMAGED_BYTES_MAX = 8 * MIB;
/** and at most this part of FIELDPOST_MAX_SPOOL. */
const DAMAGED_SHARE = 1 / 4;

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
  async open(quarantine: Quarantine): Promise<void> {
    // Old copies are removed, whatever their names.
    await quarantine.putLinkAside(this.#directory, null);
    const names = await this.#disk.list(this.#directory).catch(async () => {
      await quarantine.move(this.#directory, 'aside');
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

  /** Removes all copies, each after `overwrite`, and starts the count again. Rejects with the disk's error. */
  async purge(overwrite: (path: string) => Promise<void>): Promise<void> {
    for (const copy of [...this.#copies]) {
      const path = join(this.#directory, copy.name);
      await overwrite(path);
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
