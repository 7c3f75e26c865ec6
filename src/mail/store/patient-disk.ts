/**
 * The disk during a start. A worn card or a loose connector may fail to read for a moment: the start waits and reads again
 * before it takes that for damage. Once the store is open, each reader retries by itself.
 */
import { systemCodeOf, wordsOf } from '../../base/errors.js';
import { START_READ_PAUSE_MS, START_READS_MS_MAX } from '../../base/limits.js';
import type { Clock } from '../../base/system/clock.js';
import type { Disk } from '../../base/system/disk.js';
import type { Log } from '../../base/system/log.js';

interface PatientDiskOptions {
  readonly disk: Disk;
  readonly clock: Clock;
  readonly log: Log;
}

/** A disk that retries failed reads (EIO), for START_READS_MS_MAX in total. */
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
