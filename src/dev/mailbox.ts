/**
 * The directory in which `fieldpost dev` keeps caught mails: `000001.eml`, `000002.eml`, …, each exactly as it
 * was received. A mail appears whole or not at all. The oldest are removed for new ones. Used by dev.ts.
 */
import { join } from 'node:path';
import { MIB } from '../limits.js';
import { replace } from '../store/replace.js';
import type { Disk } from '../system/disk.js';

const KEPT_MAX = { count: 1000, bytes: 256 * MIB };

/**
 * Makes the directory if it is missing; numbers continue after the highest. It keeps as many of the newest mails as `max`
 * allows, and always the last one.
 */
export async function openMailbox(disk: Disk, directory: string, max = KEPT_MAX) {
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
      // A failure must not refuse the new mail, which is kept already.
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
    /** Writes the mail under the next number and gives the path. Rejects with the system's error. */
    async keep(raw: Buffer): Promise<string> {
      const number = ++last;
      await replace(disk, pathOf(number), raw);
      add(number, raw.length);
      await makeRoom();
      return pathOf(number);
    },
  };
}
