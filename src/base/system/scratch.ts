/**
 * A file without a name, for data that nobody needs after this process.
 */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import type { Disk, DiskFile } from './disk.js';

/** Makes one in this directory, readable by this user only; it is gone once it is closed. */
export async function openScratch(disk: Pick<Disk, 'open' | 'remove'>, directory: string): Promise<DiskFile> {
  const path = join(directory, `fieldpost-${randomUUID()}`);
  const file = await disk.open(path, 'create');
  try {
    await disk.remove(path);
  } catch (error) {
    await file.close();
    throw error;
  }
  return file;
}
