/**
 * `spool/`: one file for each attachment, named by its id. Its content is on the device once it is synced, its name once
 * `keepNames` resolves. The record that promises both is written after that. The ledger removes a file only when no record
 * on the device needs it any more.
 */
import { join } from 'node:path';
import { crc32 } from '../../base/crc.js';
import { assert, FieldpostError } from '../../base/errors.js';
import { BLOCK_BYTES, KIB } from '../../base/limits.js';
import type { Disk, DiskFile } from '../../base/system/disk.js';
import { Turns } from '../../base/turns.js';
import type { Attachment } from '../message/message.js';
import { asDiskError, asUnreadable } from './disk-error.js';
import type { RandomBytes } from './ids.js';
import type { Quarantine } from './quarantine.js';
import type { Reservation } from './quota.js';
import { FILE_NAME as NAME } from './shapes.js';
import { blocksOf, fileBytes } from './state.js';

/** One read of an attachment that is being sent. */
export const SPOOL_READ_BYTES = 64 * KIB;

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
  open(quarantine: Quarantine): Promise<void> {
    return quarantine.makeDirectory(this.#directory, NAME);
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
    this.#bytes += fileBytes(size) - (before === undefined ? 0 : fileBytes(before));
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
        if (size !== undefined) this.#bytes -= fileBytes(size);
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

/** A file of the spool that is gone or has changed. */
function changed(): FieldpostError {
  return new FieldpostError('storage-damaged', 'a stored attachment is not what was accepted');
}

/** What a request does with its upload. */
export type Upload = Pick<SpoolUpload, 'begin' | 'drop' | 'discard'>;
/** What a client says of a file. */
export type NamedFile = Pick<Attachment, 'name' | 'type' | 'cid'>;
/** A file on its way into the spool. */
export type IncomingFile = Pick<SpoolFile, 'write' | 'finish'>;

interface UploadOptions {
  readonly spool: Spool;
  readonly reserved: Reservation;
  /** Whole blocks; a file goes to the disk in pieces of so many bytes. */
  readonly writeBytes: number;
  /** See Reclaimer. */
  readonly reclaimer: {
    makeFile(reserved: Reservation): Promise<void>;
    grow(reserved: Reservation, bytes: number): Promise<void>;
    keepWithin(): Promise<void>;
  };
  readonly onOver: () => void;
}

/**
 * The files of one request on their way into the spool (Q0, Q1). They are not promised yet. It ends when an acceptance takes
 * its files, or when it is discarded.
 */
export class SpoolUpload {
  readonly #options: UploadOptions;
  readonly #coming = new Set<SpoolFile>();
  /** Whole files that no acceptance took yet. */
  readonly #whole = new Set<string>();
  #isOver = false;

  constructor(options: UploadOptions) {
    this.#options = options;
  }

  /** Begins a file. Rejects with queue-full, storage-full, storage-failed, busy. */
  async begin({ name, type, cid }: NamedFile): Promise<IncomingFile> {
    const { spool, reserved, writeBytes, reclaimer } = this.#options;
    await reclaimer.makeFile(reserved);
    this.#mustGoOn();
    const named = { name, type, ...(cid !== undefined && { cid }) };
    const created = { ...(await spool.create()), named };
    const file: SpoolFile = new SpoolFile(created, writeBytes, {
      reserve: (bytes) => this.#grow(created.id, bytes),
      onWhole: () => {
        this.#mustGoOn();
        this.#coming.delete(file);
        this.#whole.add(created.id);
      },
    });
    this.#coming.add(file);
    if (this.#isOver) await this.discard();
    this.#mustGoOn();
    reserved.spend(BLOCK_BYTES);
    return file;
  }

  /** Reserves and counts the next bytes of a file. */
  async #grow(id: string, bytes: number): Promise<void> {
    const { spool, reserved, reclaimer } = this.#options;
    this.#mustGoOn();
    // Only a file's last piece is no multiple of a block.
    const blockBytes = blocksOf(bytes);
    await reclaimer.grow(reserved, blockBytes);
    await reclaimer.keepWithin();
    // In one step, so that no other upload gets these bytes.
    reserved.spend(blockBytes);
    spool.grow(id, bytes);
  }

  /** Two buffers of `writeBytes`: one is filled while the other is written. */
  get memoryBytes(): number {
    return 2 * this.#options.writeBytes;
  }

  /** True if this upload has the file, and no acceptance took it. */
  has(id: string): boolean {
    return this.#whole.has(id);
  }

  /** An acceptance takes the files, and removes them if it fails. */
  take(ids: readonly string[]): void {
    for (const id of ids) assert(this.#whole.delete(id), 'an attachment is taken once');
    this.#end();
  }

  /** Removes a whole file that another one has replaced. */
  async drop({ id }: Attachment): Promise<void> {
    assert(this.#whole.delete(id), 'a whole file that nobody has taken');
    await this.#options.spool.remove([id]);
  }

  /** Ends the upload: removes every file that no acceptance took, and frees what is reserved. Never rejects. */
  async discard(): Promise<void> {
    this.#end();
    const coming = [...this.#coming];
    const ids = [...this.#whole, ...coming.map(({ id }) => id)];
    this.#coming.clear();
    this.#whole.clear();
    await Promise.all(coming.map((file) => file.close()));
    await this.#options.spool.remove(ids);
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#options.reserved.end();
    this.#options.onOver();
  }

  #mustGoOn(): void {
    if (this.#isOver) throw new FieldpostError('malformed-request', 'the upload was given up');
  }
}

interface CreatedFile extends Pick<Attachment, 'id'> {
  readonly named: NamedFile;
  readonly file: DiskFile;
}

/**
 * One file on its way into the spool (Q0). Gathers small chunks into large writes, at the pace of the disk, and computes the
 * checksum. The end of its upload removes an unfinished file.
 */
class SpoolFile {
  readonly #created: CreatedFile;
  /** `reserve`: before bytes are written. `onWhole` throws if the upload was given up. */
  readonly #owner: { reserve(bytes: number): Promise<void>; onWhole(): void };
  /** Two buffers: one is filled while the other is written. */
  #buffer: Buffer;
  #other: Buffer | null = null;
  #filled = 0;
  #writing: Promise<void> = Promise.resolve();
  #size = 0;
  #crc = 0;

  constructor(
    created: CreatedFile,
    writeBytes: number,
    owner: { reserve(bytes: number): Promise<void>; onWhole(): void },
  ) {
    this.#created = created;
    this.#owner = owner;
    this.#buffer = Buffer.allocUnsafeSlow(writeBytes);
  }

  get id(): string {
    return this.#created.id;
  }

  /**
   * Copies the next octets. Gives a promise only if the disk must catch up first; until it resolves, do not change them.
   * Throws queue-full, storage-full, storage-failed.
   */
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
    await this.#owner.reserve(bytes.length);
    await this.#writing;
    this.#writing = this.#created.file.write(bytes, this.#size).catch(refused);
    // The next flush, or finish(), throws it.
    this.#writing.catch(() => undefined);
    this.#size += bytes.length;
    const other = this.#other ?? Buffer.allocUnsafeSlow(this.#buffer.length);
    this.#other = this.#buffer;
    this.#buffer = other;
    this.#filled = 0;
  }

  /** Resolves when the octets are synced, the file's name not yet. Throws like `write`. */
  async finish(): Promise<Attachment> {
    if (this.#filled > 0) await this.#flush();
    await this.#writing;
    await this.#created.file.sync().catch(refused);
    await this.close();
    this.#owner.onWhole();
    const { id, named } = this.#created;
    return { id, size: this.#size, crc: this.#crc, ...named };
  }

  /** Never rejects. */
  async close(): Promise<void> {
    await this.#created.file.close().catch(() => undefined);
  }
}

function refused(error: unknown): never {
  throw asDiskError(error);
}
