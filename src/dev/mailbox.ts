/**
 * The directory in which `fieldpost dev` keeps caught mails: `000001.eml`, `000002.eml`, …, each exactly as it
 * was received. A mail appears whole or not at all. The oldest make room for new ones.
 */
import { join } from 'node:path';
import { MIB } from '../limits.js';
import { replace } from '../store/replace.js';
import type { Disk } from '../system/disk.js';

const KEPT_MAX = { count: 1000, bytes: 256 * MIB };

/** A directory of caught mails. */
export interface Mailbox {
  /** Writes the mail under the next number and gives the path. Rejects with the system's error. */
  keep(raw: Buffer): Promise<string>;
}

/**
 * Opens the directory, which is made where it is missing; numbers go on after the highest there is. It keeps the newest
 * mails, as many as `max` allows, and always the last.
 */
export async function openMailbox(disk: Disk, directory: string, max = KEPT_MAX): Promise<Mailbox> {
  const pathOf = (number: number) => join(directory, `${String(number).padStart(6, '0')}.eml`);
  /** Sizes by number, the oldest first. */
  const kept = new Map<number, number>();
  let keptBytes = 0;
  const add = (number: number, bytes: number) => {
    kept.set(number, bytes);
    keptBytes += bytes;
  };
  const makeRoom = async () => {
    for (const [number, bytes] of kept) {
      if (kept.size <= 1 || (kept.size <= max.count && keptBytes <= max.bytes)) break;
      kept.delete(number);
      keptBytes -= bytes;
      // One that cannot be removed stays: the mail that came is kept, and its sender must hear so.
      await disk.remove(pathOf(number)).catch(() => undefined);
    }
  };

  await disk.makeDirectory(directory);
  const found: number[] = [];
  let last = 0;
  for (const name of await disk.list(directory)) {
    const [, digits, half] = /^(\d{6,})\.eml(\.new)?$/.exec(name) ?? [];
    if (digits === undefined) continue;
    last = Math.max(last, Number(digits));
    if (half === undefined) found.push(Number(digits));
    else await disk.remove(join(directory, name));
  }
  for (const number of found.sort((a, b) => a - b))
    add(number, (await disk.look(pathOf(number)))?.bytes ?? 0);
  await makeRoom();

  return {
    async keep(raw) {
      const number = ++last;
      await replace(disk, pathOf(number), raw);
      add(number, raw.length);
      await makeRoom();
      return pathOf(number);
    },
  };
}
