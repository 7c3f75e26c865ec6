/**
 * The directory in which `fieldpost dev` keeps caught mails: `000001.eml`, `000002.eml`, …, each exactly as it
 * came over the wire. A mail appears whole or not at all. Nothing is synced: these are for looking at.
 */
import { join } from 'node:path';
import type { Disk } from '../system/disk.js';

/** A directory of caught mails. */
export interface Mailbox {
  /** Writes the mail under the next number and gives the path. Rejects with the system's error. */
  keep(raw: Buffer): Promise<string>;
}

/** Opens the directory, which is made where it is missing; numbers go on after the highest there is. */
export async function openMailbox(disk: Disk, directory: string): Promise<Mailbox> {
  await disk.makeDirectory(directory);
  let last = 0;
  for (const name of await disk.list(directory)) {
    last = Math.max(last, Number(/^(\d+)\.(?:eml|part)$/.exec(name)?.[1] ?? 0));
  }
  return {
    async keep(raw) {
      const number = String(++last).padStart(6, '0');
      const path = join(directory, `${number}.eml`);
      const part = join(directory, `${number}.part`);
      try {
        await write(disk, part, raw);
      } catch (error) {
        await disk.remove(part);
        throw error;
      }
      await disk.rename(part, path);
      return path;
    },
  };
}

async function write(disk: Disk, path: string, raw: Buffer): Promise<void> {
  const file = await disk.open(path, 'create');
  try {
    await file.write(raw, 0);
  } finally {
    await file.close();
  }
}
