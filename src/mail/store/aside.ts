/**
 * Strange files under the store's names: a directory, a fifo, a dangling link, an inode that the kernel refuses. The
 * store never opens them. It renames such a file, or works without the name if that fails. It logs both.
 */
import { basename, dirname, join } from 'node:path';
import { replace } from '../../base/durable-file.js';
import { systemCodeOf, wordsOf } from '../../base/errors.js';
import type { Disk } from '../../base/system/disk.js';
import type { Lock, TakeLock } from '../../base/system/lock.js';
import type { Log } from '../../base/system/log.js';

/** Makes the state directory if it is missing, and takes its lock. Throws `already-running`. */
export async function lockDirectory(options: {
  readonly disk: Disk;
  readonly directory: string;
  readonly takeLock: TakeLock;
  readonly log: Log;
}): Promise<Lock> {
  const { disk, directory, takeLock, log } = options;
  await disk.makeDirectory(directory);
  const lock = await takeLock(join(directory, 'lock'));
  if (lock.weakness !== undefined) log.warn('lock not on disk', { reason: lock.weakness });
  if (lock.putAside !== undefined) log.warn('put aside', { name: 'lock', as: lock.putAside });
  return lock;
}

/** Frees the store's names of strange files. */
export class Aside {
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
