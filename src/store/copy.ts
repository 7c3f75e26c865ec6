/**
 * A copy of what cannot be used, for people or a newer version. Used by aside.ts and damaged.ts.
 */
import { dirname } from 'node:path';
import type { Disk } from '../system/disk.js';

/** Writes a new file, which lasts once this resolves. Rejects with what the disk says; half a copy is removed. */
export async function writeCopy(disk: Disk, path: string, bytes: Buffer): Promise<void> {
  const file = await disk.open(path, 'create');
  try {
    await file.write(bytes, 0);
    await file.sync();
    await file.close();
  } catch (error) {
    await file.close().catch(() => undefined);
    await disk.remove(path).catch(() => undefined);
    throw error;
  }
  await disk.syncDirectory(dirname(path));
}
