/**
 * Overwrites files with zeros. Flash writes zeros to other blocks, so the old bytes may stay on the chip.
 */
import { KIB } from '../../base/limits.js';
import type { Disk, DiskFile } from '../../base/system/disk.js';

const ZEROS = Buffer.alloc(256 * KIB);

/** Writes zeros from the file's beginning. */
export async function writeZeros(file: Pick<DiskFile, 'write'>, bytes: number): Promise<void> {
  for (let at = 0; at < bytes; at += ZEROS.length) {
    await file.write(ZEROS.subarray(0, Math.min(ZEROS.length, bytes - at)), at);
  }
}

/** Resolves once the file on the device is all zeros. Rejects with the disk's error. */
export async function overwrite(file: DiskFile): Promise<void> {
  await writeZeros(file, await file.size());
  await file.sync();
}

/** The same for a path. */
export async function overwriteAt(disk: Disk, path: string): Promise<void> {
  const file = await disk.open(path, 'update');
  try {
    await overwrite(file);
  } finally {
    await file.close();
  }
}
