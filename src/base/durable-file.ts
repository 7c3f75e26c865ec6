/**
 * Files that are replaced as a whole, and survive a power cut at any point; and lowdb over such a file. lowdb's own file
 * adapter never syncs, and does not notice damage.
 *
 * A DurableFile is one line: eight hex digits of the CRC-32 of the JSON, a blank, the JSON.
 */
import { dirname } from 'node:path';
import { type Adapter, Low } from 'lowdb';
import { crc32, hex8 } from './crc.js';
import { jsonIn } from './json.js';
import type { Disk, DiskFile } from './system/disk.js';

export type { Adapter, Low } from 'lowdb';

/** lowdb over an adapter. Its `data` is `empty` until `read` has found something. */
export function openLow<T>(adapter: Adapter<T>, empty: T): Low<T> {
  return new Low(adapter, empty);
}

/** What it needs to know of its file. */
export interface DurableFileOptions<T> {
  readonly disk: Disk;
  readonly path: string;
  /** The data in the file's JSON value; null if it has another shape. */
  readonly parse: (value: unknown) => T | null;
  /** Called before a damaged file is renamed to `copy`. If it throws, the file stays as it is. */
  readonly onDamage: (paths: { path: string; copy: string }) => void;
}

/** The adapter of one small JSON file. */
export class DurableFile<T> implements Adapter<T> {
  readonly #options: DurableFileOptions<T>;

  constructor(options: DurableFileOptions<T>) {
    this.#options = options;
  }

  /** Null if there is no file. A damaged one, or one with data of another shape, is renamed. Rejects with the disk's error. */
  async read(): Promise<T | null> {
    const { disk, path, parse, onDamage } = this.#options;
    const bytes = await disk.readWhole(path);
    if (bytes === null) return null;
    const found = dataIn(bytes, parse);
    if (found !== null) return found;
    const copy = `${path}.damaged`;
    onDamage({ path, copy });
    await disk.rename(path, copy);
    return null;
  }

  /** Replaces the file with the data of this moment; see `replace`. */
  async write(data: T): Promise<void> {
    await replace(this.#options.disk, this.#options.path, lineOf(data));
  }
}

/** The line of a durable file. */
export function lineOf(data: unknown): Buffer {
  const json = Buffer.from(JSON.stringify(data));
  return Buffer.concat([Buffer.from(`${hex8(crc32(json))} `), json, Buffer.from('\n')]);
}

/** The data in such a line. Null: the bytes are damaged, or have another shape. */
export function dataIn<T>(bytes: Buffer, parse: (value: unknown) => T | null): T | null {
  const json = bytes.subarray(9, -1);
  return bytes.toString('latin1', 0, 9) === `${hex8(crc32(json))} ` ? parse(jsonIn(json)) : null;
}

/** Pieces of a file, each made on demand; at last, perhaps, bytes that replace some at their beginning. */
type FilePieces = Iterable<Buffer, { readonly bytes: Buffer; readonly at: number } | undefined>;

/**
 * Writes a file anew, and gives its size. When this resolves, its bytes are on the device; the caller syncs its name.
 * Others have their turn between two pieces. Rejects with the disk's first error, after removing the file.
 */
export async function writeNew(disk: Disk, path: string, pieces: FilePieces): Promise<number> {
  return await fillNew(disk, path, async (file) => {
    let at = 0;
    const made = pieces[Symbol.iterator]();
    let next = made.next();
    for (; !next.done; next = made.next()) {
      await file.write(next.value, at);
      at += next.value.length;
    }
    if (next.value) await file.write(next.value.bytes, next.value.at);
    return at;
  });
}

async function fillNew<T>(disk: Disk, path: string, fill: (file: DiskFile) => Promise<T>): Promise<T> {
  await disk.remove(path);
  const file = await disk.open(path, 'create');
  try {
    const filled = await fill(file);
    await file.sync();
    await file.close();
    return filled;
  } catch (error) {
    await file.close().catch(() => undefined);
    await disk.remove(path).catch(() => undefined);
    throw error;
  }
}

/**
 * Replaces the file at `path`. Resolves when the new file is durable. If it rejects, either the old or the new file is
 * there. A power cut may leave a part of the new one at `${path}.new`.
 */
export async function replace(disk: Disk, path: string, bytes: Buffer): Promise<void> {
  await replaceBy(disk, path, (file) => file.write(bytes, 0));
}

/** The same with what `fill` writes. */
export async function replaceBy<T>(
  disk: Disk,
  path: string,
  fill: (file: DiskFile) => Promise<T>,
): Promise<T> {
  const temporary = `${path}.new`;
  const filled = await fillNew(disk, temporary, fill);
  try {
    await disk.rename(temporary, path);
  } catch (error) {
    await disk.remove(temporary).catch(() => undefined);
    throw error;
  }
  await disk.syncDirectory(dirname(path));
  return filled;
}
