/**
 * The file system, as little of it as the store needs, so that a faulty one can be faked honestly. Nothing is on stable
 * storage before the sync that its comment names.
 */
import {
  close,
  constants,
  fdatasync,
  fstat,
  fstatSync,
  fsync,
  open,
  read,
  readdirSync,
  readFileSync,
  type Stats,
  statSync,
  write,
} from 'node:fs';
import { access, lstat, mkdir, readdir, rename, stat, statfs, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { systemCodeOf } from '../errors.js';
import { randomBytes } from './random.js';

/** What stands at a path. Only a `file`, a regular one, is ever opened. */
export interface Found {
  readonly kind: 'file' | 'directory' | 'other';
  readonly bytes: number;
  /** A link to a directory of this user, which no other user may write. */
  readonly isOwnElsewhere?: true;
}

/** The calls of a file system. They reject with the system's error and its `code`. */
export interface Disk {
  /**
   * Opens a file: `update` for reading and writing; `create` for both, a new one whose name is kept once its directory
   * is synced; `durable` for writes that resolve when their own bytes are on stable storage (O_DSYNC). Rejects what is
   * no regular file: EISDIR for a directory, else ENOTSUP.
   */
  open(path: string, how: 'read' | 'update' | 'create' | 'durable'): Promise<DiskFile>;
  /** What stands at the path; null if nothing does. */
  look(path: string): Promise<Found | null>;
  /** The whole file, or null if there is none. */
  readWhole(path: string): Promise<Buffer | null>;
  /** The names in a directory, sorted; none if there is no such directory. */
  list(directory: string): Promise<string[]>;
  /** Makes the directory (mode 0700) and its parents if missing. Kept once its parent is synced. */
  makeDirectory(path: string): Promise<void>;
  /** Replaces `to`, if it is there. Kept once the directory is synced. */
  rename(from: string, to: string): Promise<void>;
  /** Removes the file if it is there. Kept once the directory is synced. */
  remove(path: string): Promise<void>;
  /** Makes durable all names that were created, renamed or removed in this directory before the call. */
  syncDirectory(path: string): Promise<void>;
  /** What an ordinary user may still write on the file system that holds this directory. */
  space(directory: string): Promise<Space>;
}

/** An open file. */
export interface DiskFile {
  /** Reads `length` bytes from `offset`; fewer if the file ends before. */
  read(offset: number, length: number): Promise<Buffer>;
  /** Writes all of `bytes` at `offset`. After a rejection any part of them may have been written. */
  write(bytes: Buffer, offset: number): Promise<void>;
  /** fdatasync: puts what was written before the call on stable storage. Never call it again after it failed. */
  sync(): Promise<void>;
  size(): Promise<number>;
  close(): Promise<void>;
}

/** Room on a file system. */
export interface Space {
  freeBytes: number;
  /** What would be free if it were empty. */
  sizeBytes: number;
  /** Infinity if the file system does not count them. */
  freeInodes: number;
}

const FLAGS = {
  // Without O_NONBLOCK the open of a fifo waits until its other end is open. For files it changes nothing.
  read: constants.O_RDONLY | constants.O_NONBLOCK,
  update: constants.O_RDWR | constants.O_NONBLOCK,
  create: constants.O_RDWR | constants.O_CREAT | constants.O_EXCL,
  durable: constants.O_RDWR | constants.O_DSYNC | constants.O_NONBLOCK,
} as const;

/** The real file system. Files are made with mode 0600. */
export function systemDisk(): Disk {
  return {
    async open(path, how) {
      const fd = await called<number>((done) => open(path, FLAGS[how], 0o600, done));
      const file = new OpenFile(fd);
      if (how !== 'create') await file.mustBeRegular(path);
      return file;
    },
    async look(path) {
      const found = await unlessMissing(lstat(path));
      if (found === null) return null;
      const kind = found.isFile() ? 'file' : found.isDirectory() ? 'directory' : 'other';
      const isOwnElsewhere = found.isSymbolicLink() && (await isOwnDirectory(path));
      return { kind, bytes: found.size, ...(isOwnElsewhere && { isOwnElsewhere }) };
    },
    async readWhole(path) {
      const file = await unlessMissing(this.open(path, 'read'));
      if (file === null) return null;
      try {
        return await file.read(0, await file.size());
      } finally {
        await file.close();
      }
    },
    list: async (directory) => (await unlessMissing(readdir(directory)))?.sort() ?? [],
    async makeDirectory(path) {
      if ((await makeWithParents(path)) === 'found') await access(path, constants.W_OK);
    },
    rename,
    // rm() looks twice before it unlinks.
    async remove(path) {
      await unlessMissing(unlink(path));
    },
    async syncDirectory(path) {
      const fd = await called<number>((done) => open(path, constants.O_RDONLY | constants.O_DIRECTORY, done));
      try {
        await called<void>((done) => fsync(fd, done));
      } finally {
        await called<void>((done) => close(fd, done));
      }
    },
    async space(directory) {
      // With the dot the system looks into it, and refuses what is no directory.
      const found = await statfs(`${directory}/.`);
      return {
        freeBytes: found.bavail * found.bsize,
        sizeBytes: (found.blocks - found.bfree + found.bavail) * found.bsize,
        // btrfs and some overlays count no inodes and say 0 of 0.
        freeInodes: found.files === 0 ? Number.POSITIVE_INFINITY : found.ffree,
      };
    },
  };
}

/** The result of a call; null if there is no such file. */
async function unlessMissing<T>(call: Promise<T>): Promise<T | null> {
  try {
    return await call;
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return null;
    throw error;
  }
}

/** The `sizeBytes` of the file system of `path`, which may not exist yet; Infinity if that is not known. */
export async function fileSystemBytes(disk: Pick<Disk, 'space'>, path: string): Promise<number> {
  try {
    return (await disk.space(path)).sizeBytes;
  } catch (error) {
    const parent = dirname(path);
    const isToBeMade = systemCodeOf(error) === 'ENOENT' && parent !== path;
    return isToBeMade ? await fileSystemBytes(disk, parent) : Number.POSITIVE_INFINITY;
  }
}

/** Node's own `recursive` never ends if a file system such as /proc denies that an existing parent exists. */
async function makeWithParents(path: string): Promise<'made' | 'found'> {
  try {
    return await makeOne(path);
  } catch (error) {
    const parent = dirname(path);
    if (systemCodeOf(error) !== 'ENOENT' || parent === path) throw error;
    await makeWithParents(parent);
    return await makeOne(path);
  }
}

async function makeOne(path: string): Promise<'made' | 'found'> {
  try {
    await mkdir(path, { mode: 0o700 });
    return 'made';
  } catch (error) {
    if (systemCodeOf(error) !== 'EEXIST' || !(await stat(path)).isDirectory()) throw error;
    return 'found';
  }
}

/** True for a directory of this user, links followed, that no other user may write. */
async function isOwnDirectory(path: string): Promise<boolean> {
  const [found, own] = await Promise.all([path, '/proc/self'].map((one) => stat(one).catch(() => null)));
  return found?.isDirectory() === true && found.uid === own?.uid && (found.mode & 0o022) === 0;
}

/**
 * A file by its descriptor, which costs half of a FileHandle under load. Close waits for the calls under way, because
 * another file may get the same descriptor.
 */
class OpenFile implements DiskFile {
  readonly #fd: number;
  readonly #underWay = new Set<Promise<unknown>>();
  #isClosed = false;

  constructor(fd: number) {
    this.#fd = fd;
  }

  async read(offset: number, length: number): Promise<Buffer> {
    const bytes = Buffer.allocUnsafe(length);
    let filled = 0;
    while (filled < length) {
      const count = await this.#call<number>((fd, done) =>
        read(fd, bytes, filled, length - filled, offset + filled, done),
      );
      if (count === 0) break;
      filled += count;
    }
    return bytes.subarray(0, filled);
  }

  async write(bytes: Buffer, offset: number): Promise<void> {
    let written = 0;
    while (written < bytes.length) {
      written += await this.#call<number>((fd, done) =>
        write(fd, bytes, written, bytes.length - written, offset + written, done),
      );
    }
  }

  sync(): Promise<void> {
    return this.#call(fdatasync);
  }

  async size(): Promise<number> {
    return (await this.#call<Stats>((fd, done) => fstat(fd, done))).size;
  }

  /** Closes what is no regular file, and throws. */
  async mustBeRegular(path: string): Promise<void> {
    const found = await this.#call<Stats>((fd, done) => fstat(fd, done));
    if (found.isFile()) return;
    await this.close();
    const code = found.isDirectory() ? 'EISDIR' : 'ENOTSUP';
    throw Object.assign(new Error(`${code}: ${path} is not a regular file`), { code });
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await Promise.allSettled(this.#underWay);
    await called((done) => close(this.#fd, done));
  }

  #call<T>(call: (fd: number, done: Done<T>) => void): Promise<T> {
    if (this.#isClosed)
      return Promise.reject(Object.assign(new Error('EBADF: the file is closed'), { code: 'EBADF' }));
    const promise = called<T>((done) => call(this.#fd, done));
    this.#underWay.add(promise);
    const over = () => this.#underWay.delete(promise);
    promise.then(over, over);
    return promise;
  }
}

type Done<T> = (error: Error | null, result?: T) => void;

/** A call of node:fs with a callback, as a promise. */
function called<T>(call: (done: Done<T>) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    call((error, result) => {
      if (error) reject(error);
      else resolve(result as T);
    });
  });
}

/** Makes a file that only its user can read. Rejects with EEXIST if something is there; a file that cannot be written whole is removed again. */
export async function writeNew(
  disk: Pick<Disk, 'open' | 'remove'>,
  path: string,
  text: string,
): Promise<void> {
  const file = await disk.open(path, 'create');
  try {
    await file.write(Buffer.from(text), 0);
    await file.sync();
  } catch (error) {
    await disk.remove(path).catch(() => undefined);
    throw error;
  } finally {
    await file.close();
  }
}

/** A file without a name in this directory, readable by this user only. It is gone once it is closed. */
export async function openScratch(disk: Pick<Disk, 'open' | 'remove'>, directory: string): Promise<DiskFile> {
  const path = join(directory, `fieldpost-${randomBytes(16).toString('hex')}`);
  const file = await disk.open(path, 'create');
  try {
    await disk.remove(path);
  } catch (error) {
    await file.close();
    throw error;
  }
  return file;
}

/** Reads a small text file at the start. Throws what node:fs throws. */
export function readText(path: string | URL): string {
  return readFileSync(path, 'utf8');
}

/** What stands at a path, links followed; null if that is not known. */
export function statOf(path: string): Stats | null {
  try {
    return statSync(path);
  } catch {
    return null;
  }
}

/** The names in a directory, at once. */
export function listNames(directory: string): string[] {
  return readdirSync(directory);
}

/** What standard input is: piped in, a socket, or nothing to be read unasked (terminal, /dev/null). */
export function stdinKind(): 'piped' | 'socket' | 'none' {
  try {
    const stat = fstatSync(0);
    return stat.isFIFO() || stat.isFile() ? 'piped' : stat.isSocket() ? 'socket' : 'none';
  } catch {
    // It may be closed.
    return 'none';
  }
}
