/**
 * Files that are written as a whole.
 */
import { dirname } from 'node:path';
import type { Disk } from '../../base/system/disk.js';

/** Pieces of a file, each made on demand; at last, perhaps, bytes that replace some at their beginning. */
export type FilePieces = Iterable<Buffer, { readonly bytes: Buffer; readonly at: number } | undefined>;

/**
 * Writes a file anew, and gives its size. When this resolves, its bytes are on the device; the caller syncs its name.
 * Others have their turn between two pieces. Rejects with the disk's first error, after removing the file.
 */
export async function writeNew(disk: Disk, path: string, pieces: FilePieces): Promise<number> {
  await disk.remove(path);
  const file = await disk.open(path, 'create');
  try {
    let at = 0;
    const made = pieces[Symbol.iterator]();
    let next = made.next();
    for (; !next.done; next = made.next()) {
      await file.write(next.value, at);
      at += next.value.length;
    }
    if (next.value) await file.write(next.value.bytes, next.value.at);
    await file.sync();
    await file.close();
    return at;
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
  const temporary = `${path}.new`;
  await writeNew(disk, temporary, [bytes]);
  try {
    await disk.rename(temporary, path);
  } catch (error) {
    await disk.remove(temporary).catch(() => undefined);
    throw error;
  }
  await disk.syncDirectory(dirname(path));
}
