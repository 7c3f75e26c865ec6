/**
 * Overwrites with zeros what nobody may read any more. Flash may keep the old blocks all the same, because it writes to
 * other ones. Used by purge.ts, segments.ts and damaged.ts.
 */
import { KIB } from '../limits.js';
import type { Disk, DiskFile } from '../system/disk.js';

const ZEROS = Buffer.alloc(256 * KIB);

/** Writes so many zeros to the file, from its beginning. */
export async function writeZeros(file: DiskFile, bytes: number): Promise<void> {
  for (let at = 0; at < bytes; at += ZEROS.length) {
    await file.write(ZEROS.subarray(0, Math.min(ZEROS.length, bytes - at)), at);
  }
}

/** Resolves once zeros stand in place of all that is in the file, on the device. Rejects with what the disk says. */
export async function overwrite(file: DiskFile): Promise<void> {
  await writeZeros(file, await file.size());
  await file.sync();
}

/** The same for the file at this path. */
export async function overwriteAt(disk: Disk, path: string): Promise<void> {
  const file = await disk.open(path, 'update');
  try {
    await overwrite(file);
  } finally {
    await file.close();
  }
}
