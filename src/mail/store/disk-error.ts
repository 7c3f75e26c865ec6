/**
 * When the disk fails: what that means for the request that needed it, and how a start waits for the disk.
 */
import { busyOf, DISK_FULL, FieldpostError, isDiskFull, systemCodeOf, wordsOf } from '../../base/errors.js';
import { SECOND_MS } from '../../base/limits.js';
import type { Clock } from '../../base/system/clock.js';
import type { Disk } from '../../base/system/disk.js';
import type { Log } from '../../base/system/log.js';

/** A start that cannot read a file retries after each pause, for this long in all. */
const START_READ_PAUSE_MS = SECOND_MS / 4;
export const START_READS_MS_MAX = 10 * SECOND_MS;

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

interface PatientDiskOptions {
  readonly disk: Disk;
  readonly clock: Clock;
  readonly log: Log;
}

/**
 * A disk that retries failed reads (EIO), for START_READS_MS_MAX in total. A worn card or a loose connector may fail to read
 * for a moment: a start reads again before it takes that for damage. Once the store is open, each reader retries by itself.
 */
export function patientDisk({ disk, clock, log }: PatientDiskOptions): Disk & { endPatience(): void } {
  /** On the boot's clock; null before the first read that fails. */
  let patientUntilMs: number | null = null;

  const isPatient = (error: unknown) => {
    if (patientUntilMs === null) {
      patientUntilMs = clock.bootMs() + START_READS_MS_MAX;
      log.warn('read failed', { reason: wordsOf(error) });
    }
    return clock.bootMs() < patientUntilMs;
  };

  async function patiently<T>(read: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await read();
      } catch (error) {
        if (systemCodeOf(error) !== 'EIO' || !isPatient(error)) throw error;
        await new Promise<void>((resolve) => void clock.after(START_READ_PAUSE_MS, resolve));
      }
    }
  }

  return {
    endPatience() {
      patientUntilMs = Number.NEGATIVE_INFINITY;
    },
    async open(path, how) {
      if (how !== 'read') return await disk.open(path, how);
      const file = await patiently(() => disk.open(path, how));
      return {
        read: (offset, length) => patiently(() => file.read(offset, length)),
        size: () => patiently(() => file.size()),
        write: (bytes, offset) => file.write(bytes, offset),
        sync: () => file.sync(),
        close: () => file.close(),
      };
    },
    look: (path) => patiently(() => disk.look(path)),
    readWhole: (path) => patiently(() => disk.readWhole(path)),
    list: (directory) => patiently(() => disk.list(directory)),
    makeDirectory: (path) => disk.makeDirectory(path),
    rename: (from, to) => disk.rename(from, to),
    remove: (path) => disk.remove(path),
    syncDirectory: (path) => disk.syncDirectory(path),
    space: (path) => disk.space(path),
  };
}
