/**
 * What a failed call to the disk means for whoever wanted something kept. Used where the store writes, and by the reference cloud.
 */
import { busyOf, FieldpostError, systemCodeOf, wordsOf } from '../errors.js';
import type { Disk } from '../system/disk.js';

/**
 * `storage-full` where there is no room, `busy` where there is no descriptor, else `storage-failed`; what is an answer
 * already is left as it is.
 */
export function asDiskError(error: unknown): FieldpostError {
  if (error instanceof FieldpostError) return error;
  const busy = busyOf(error);
  if (busy !== null) return busy;
  const code = systemCodeOf(error);
  return code === 'ENOSPC' || code === 'EDQUOT'
    ? noRoom('the disk is full', undefined, error)
    : asStorageFailed(error);
}

/** `storage-full`, and what to do about it. */
export function noRoom(words: string, hint = 'free some space on the disk', cause?: unknown): FieldpostError {
  return new FieldpostError('storage-full', words, { hint, cause });
}

/** `storage-failed`, whatever the reason: nobody knows how much of it will be found. */
export function asStorageFailed(error: unknown): FieldpostError {
  return new FieldpostError('storage-failed', `the disk refuses to keep data: ${wordsOf(error)}`, {
    cause: error,
  });
}

/** What says that a directory is not ours to sync, or that its file system keeps no changes. */
const NOTHING_TO_SYNC: readonly string[] = ['EACCES', 'EPERM', 'EINVAL', 'EROFS'];

/**
 * Syncs a directory above the one we were given, so that the name we made there lasts. Where that directory belongs
 * to somebody else, or lies on a read-only image (squashfs and erofs say EINVAL), we made no name in it.
 */
export async function syncAbove(disk: Disk, path: string): Promise<void> {
  await disk.syncDirectory(path).catch((error) => {
    if (!NOTHING_TO_SYNC.includes(systemCodeOf(error))) throw error;
  });
}
