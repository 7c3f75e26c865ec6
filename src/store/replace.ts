/**
 * Files that are written as a whole.
 */
import { dirname } from 'node:path';
import type { Disk } from '../system/disk.js';

/**
 * Writes a file anew. When this resolves, its bytes are on the device; the caller syncs its name. Rejects with the disk's
 * first error, after removing the file.
 */
export async function writeNew(disk: Disk, path: string, pieces: readonly Buffer[]): Promise<void> {
  await disk.remove(path);
  const file = await disk.open(path, 'create');
  try {
    let at = 0;
    for (const piece of pieces) {
      await file.write(piece, at);
      at += piece.length;
    }
    await file.sync();
    await file.close();
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
