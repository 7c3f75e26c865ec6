/**
 * What a failed call to the disk means for the request that needed it.
 */
import { busyOf, DISK_FULL, FieldpostError, isDiskFull, systemCodeOf, wordsOf } from '../../base/errors.js';
import type { Disk } from '../../base/system/disk.js';

/** `storage-full` without room, `busy` without a descriptor, else `storage-failed`. A FieldpostError stays as it is. */
export function asDiskError(error: unknown): FieldpostError {
  if (error instanceof FieldpostError) return error;
  const busy = busyOf(error);
  if (busy !== null) return busy;
  return isDiskFull(error) ? noRoom(DISK_FULL, undefined, error) : asStorageFailed(error);
}

/** `storage-full`, with a hint. */
export function noRoom(words: string, hint = 'free some space on the disk', cause?: unknown): FieldpostError {
  return new FieldpostError('storage-full', words, { hint, cause });
}

/** `storage-failed`, whatever the reason: the next start may find a part of what was written. */
export function asStorageFailed(error: unknown): FieldpostError {
  return new FieldpostError('storage-failed', `the disk refuses to keep data: ${wordsOf(error)}`, {
    cause: error,
  });
}

/** The directory belongs to another user, or its file system keeps no changes (squashfs and erofs say EINVAL). */
const NOTHING_TO_SYNC: readonly string[] = ['EACCES', 'EPERM', 'EINVAL', 'EROFS'];

/** Syncs the directory above ours, so that our name in it is durable. If it refuses changes, it has no new name. */
export async function syncAbove(disk: Disk, path: string): Promise<void> {
  await disk.syncDirectory(path).catch((error) => {
    if (!NOTHING_TO_SYNC.includes(systemCodeOf(error))) throw error;
  });
}

/** There is no such file, or something else has its name: a directory, a socket, a fifo, links that lead nowhere. */
const LOST: readonly string[] = ['ENOENT', 'EISDIR', 'ENXIO', 'ELOOP', 'ENOTSUP'];

/**
 * A failed read of content: storage-damaged if the file is gone, else storage-failed, because a retry may work. `what` names
 * the content.
 */
export function asUnreadable(what: string, error: unknown): FieldpostError {
  const isLost = LOST.includes(systemCodeOf(error));
  const reason = `${what} cannot be read: ${wordsOf(error)}`;
  return new FieldpostError(isLost ? 'storage-damaged' : 'storage-failed', reason, { cause: error });
}
