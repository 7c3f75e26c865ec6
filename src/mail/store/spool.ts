/**
 * `spool/`: one file for each attachment, named by its id. Its content is on the device once it is synced, its name once
 * `keepNames` resolves. The record that promises both is written after that. The ledger removes a file only when no record
 * on the device needs it any more.
 */
import { join } from 'node:path';
import { crc32 } from '../../base/crc.js';
import { FieldpostError } from '../../base/errors.js';
import { BLOCK_BYTES, SPOOL_READ_BYTES } from '../../base/limits.js';
import type { Disk, DiskFile } from '../../base/system/disk.js';
import { Turns } from '../../base/turns.js';
import type { Attachment } from '../message/message.js';
import type { Aside } from './aside.js';
import { asDiskError, asUnreadable } from './disk-error.js';
import type { RandomBytes } from './ids.js';
import { FILE_NAME as NAME } from './shapes.js';

const unreadable = (error: unknown): never => {
  throw asUnreadable('a stored attachment', error);
};

const ID_BYTES = 10;

/** How durable a file's name is. `lost`: a sync failed, and a later one proves nothing. */
type Standing = 'opening' | 'unsynced' | 'lost';

/** All files in the directory, their bytes, and how durable their names are. */
export class Spool {
  readonly #disk: Disk;
  readonly #directory: string;
  readonly #randomBytes: RandomBytes;
  readonly #sizes = new Map<string, number>();
  #bytes = 0;
  /** The names that are not known to be on the device. */
  readonly #names = new Map<string, Standing>();
  readonly #syncs = new Turns();
  #nextSync: Promise<void> | null = null;
  readonly #removals = new Turns();
  /** Files that could not be removed. The next removal tries them again. */
  readonly #stuck = new Set<string>();

  constructor(disk: Disk, directory: string, randomBytes: RandomBytes) {
    this.#disk = disk;
    this.#directory = directory;
    this.#randomBytes = randomBytes;
  }

  /** Bytes on the disk, files under way included. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Makes the directory if it is missing. The caller syncs its name. */
  open(aside: Aside): Promise<void> {
    return aside.makeDirectory(this.#directory, NAME);
  }

  /** Lists the files. `needed`: the files that messages need, with their sizes. Returns the others. */
  async learn(needed: ReadonlyMap<string, number>): Promise<string[]> {
    const names = (await this.#disk.list(this.#directory)).filter((name) => NAME.test(name));
    for (const name of names) this.grow(name, needed.get(name) ?? (await this.#sizeOf(name)));
    return names.filter((name) => !needed.has(name));
  }

  /** A stray file that cannot be read must not keep the daemon from starting. */
  async #sizeOf(name: string): Promise<number> {
    const found = await this.#disk.look(this.#path(name)).catch(() => null);
    return found?.kind === 'file' ? found.bytes : 0;
  }

  /** A new, empty file (Q0). Throws storage-full, busy and storage-failed. */
  async create(): Promise<{ id: string; file: DiskFile }> {
    let id: string;
    do id = Buffer.from(this.#randomBytes(ID_BYTES)).toString('hex');
    while (this.#sizes.has(id));
    this.grow(id, 0);
    this.#names.set(id, 'opening');
    try {
      const file = await this.#disk.open(this.#path(id), 'create');
      if (this.#names.get(id) === 'opening') this.#names.set(id, 'unsynced');
      return { id, file };
    } catch (error) {
      await this.remove([id]);
      throw asDiskError(error);
    }
  }

  /** Counts bytes of a file. */
  grow(id: string, bytes: number): void {
    const before = this.#sizes.get(id);
    const size = (before ?? 0) + bytes;
    this.#sizes.set(id, size);
    this.#bytes += diskBytes(size) - (before === undefined ? 0 : diskBytes(before));
  }

  /** Resolves once the names of these files are on the device (Q1). Calls at the same time share a sync. */
  async keepNames(ids: readonly string[]): Promise<void> {
    if (ids.every((id) => !this.#names.has(id))) return;
    await this.#syncNames();
    if (ids.some((id) => this.#names.has(id)))
      throw asDiskError(new Error('the name of a file may have been lost'));
  }

  #syncNames(): Promise<void> {
    this.#nextSync ??= this.#syncs.do(async () => {
      this.#nextSync = null;
      const covered = [...this.#names].filter(([, standing]) => standing === 'unsynced');
      try {
        await this.#disk.syncDirectory(this.#directory);
      } catch (error) {
        const trouble = asDiskError(error);
        // The kernel may have marked the directory clean: a later sync proves nothing about these names.
        if (trouble.code !== 'busy') for (const id of this.#names.keys()) this.#names.set(id, 'lost');
        throw trouble;
      }
      for (const [id] of covered) if (this.#names.get(id) === 'unsynced') this.#names.delete(id);
    });
    return this.#nextSync;
  }

  /** Removes these files. Never rejects: see retryRemovals. */
  remove(ids: readonly string[]): Promise<void> {
    for (const id of ids) this.#stuck.add(id);
    return this.retryRemovals();
  }

  /** Resolves when no removal is under way. */
  get idle(): Promise<void> {
    return this.#removals.idle();
  }

  /** Removes the files whose removal has failed. Never rejects. */
  retryRemovals(): Promise<void> {
    return this.#removals.do(async () => {
      for (const id of this.#stuck) {
        try {
          await this.#disk.remove(this.#path(id));
        } catch {
          continue;
        }
        this.#stuck.delete(id);
        this.#names.delete(id);
        const size = this.#sizes.get(id);
        if (size !== undefined) this.#bytes -= diskBytes(size);
        this.#sizes.delete(id);
      }
    });
  }

  /**
   * Reads an attachment, one chunk ahead. If the file is gone or has changed, it throws storage-damaged before the last
   * chunk; storage-failed if a retry may help.
   */
  async *read(attachment: Attachment): AsyncGenerator<Buffer, void, void> {
    const { id, size, crc } = attachment;
    const file = await this.#disk.open(this.#path(id), 'read').catch(unreadable);
    const read = (at: number) => file.read(at, Math.min(SPOOL_READ_BYTES, size - at)).catch(unreadable);
    let ahead: Promise<Buffer> | null = null;
    try {
      if ((await file.size().catch(unreadable)) !== size) throw changed();
      let found = 0;
      for (let at = 0; at < size; ) {
        const chunk: Buffer = await (ahead ?? read(at));
        at += chunk.length;
        found = crc32(chunk, found);
        if (chunk.length === 0) throw changed();
        if (at === size && found !== crc) throw await this.#secondLook(attachment, read);
        ahead = at < size ? read(at) : null;
        yield chunk;
      }
      if (size === 0 && crc !== 0) throw changed();
    } finally {
      await ahead?.catch(() => undefined);
      await file.close().catch(() => undefined);
    }
  }

  /** Only a file with a wrong checksum twice is damaged; else the message is retried. */
  async #secondLook(
    { size, crc }: Attachment,
    read: (at: number) => Promise<Buffer>,
  ): Promise<FieldpostError> {
    let found = 0;
    for (let at = 0; at < size; ) {
      const chunk = await read(at);
      if (chunk.length === 0) return changed();
      at += chunk.length;
      found = crc32(chunk, found);
    }
    if (found !== crc) return changed();
    return new FieldpostError('storage-failed', 'a stored attachment was read wrongly');
  }

  #path(id: string): string {
    return join(this.#directory, id);
  }
}

/** Whole blocks, and one more for inode and name. */
function diskBytes(size: number): number {
  return (Math.ceil(size / BLOCK_BYTES) + 1) * BLOCK_BYTES;
}

function changed(): FieldpostError {
  return new FieldpostError('storage-damaged', 'a stored attachment is not what was accepted');
}
