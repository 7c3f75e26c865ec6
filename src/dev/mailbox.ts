/**
 * The directory in which `fieldpost dev` keeps caught mails: `000001.eml`, `000002.eml`, …, each exactly as it
 * was received. A mail appears whole or not at all. The oldest are removed for new ones.
 */
import { join } from 'node:path';
import { replace } from '../base/durable-file.js';
import { MIB } from '../base/limits.js';
import type { Disk } from '../base/system/disk.js';

const KEPT_MAX = { count: 1000, bytes: 256 * MIB };

/** The mails that are kept, by number. */
export interface KeptMails {
  /** Writes the mail under the next number. Rejects with the system's error. */
  keep(raw: Buffer): Promise<{ readonly number: number; readonly path: string }>;
  /** Sizes by number, the oldest first. */
  readonly sizes: ReadonlyMap<number, number>;
  /** The mail, or its first `bytesMax` octets; null if it is gone. Rejects with the system's error. */
  read(number: number, bytesMax?: number): Promise<Buffer | null>;
  /** Removes the mail, if it is there. Rejects with the system's error. */
  remove(number: number): Promise<void>;
}

/**
 * Makes the directory if it is missing; numbers continue after the highest. It keeps as many of the newest mails as `max`
 * allows, and always the last one.
 */
export async function openMailbox(disk: Disk, directory: string, max = KEPT_MAX): Promise<KeptMails> {
  const pathOf = (number: number) => join(directory, `${String(number).padStart(6, '0')}.eml`);
  /** Sizes by number, the oldest first. */
  const kept = new Map<number, number>();
  let keptBytes = 0;
  const add = (number: number, bytes: number) => {
    kept.set(number, bytes);
    keptBytes += bytes;
  };
  const drop = (number: number) => {
    keptBytes -= kept.get(number) ?? 0;
    kept.delete(number);
  };
  const makeRoom = async () => {
    for (const number of kept.keys()) {
      if (kept.size <= 1 || (kept.size <= max.count && keptBytes <= max.bytes)) break;
      drop(number);
      // A failure must not refuse the new mail, which is kept already.
      await disk.remove(pathOf(number)).catch(() => undefined);
    }
  };

  await disk.makeDirectory(directory);
  const found = await numbersIn(disk, directory);
  let { last } = found;
  for (const number of found.whole) {
    const file = await disk.look(pathOf(number));
    if (file?.kind === 'file') add(number, file.bytes);
  }
  await makeRoom();

  return {
    async keep(raw) {
      const number = ++last;
      const path = pathOf(number);
      await replace(disk, path, raw);
      add(number, raw.length);
      await makeRoom();
      return { number, path };
    },
    sizes: kept,
    async read(number, bytesMax) {
      if (!kept.has(number)) return null;
      const raw = await readFrom(disk, pathOf(number), bytesMax);
      // Somebody has removed the file.
      if (raw === null) drop(number);
      return raw;
    },
    async remove(number) {
      if (!kept.has(number)) return;
      await disk.remove(pathOf(number));
      drop(number);
    },
  };
}

/** The numbers of whole mails, ascending, and the highest of all. Removes half-written mails. */
async function numbersIn(disk: Disk, directory: string) {
  const whole: number[] = [];
  let last = 0;
  for (const name of await disk.list(directory)) {
    const [, digits, half] = /^(\d{6,})\.eml(\.new)?$/.exec(name) ?? [];
    if (digits === undefined) continue;
    last = Math.max(last, Number(digits));
    if (half === undefined) whole.push(Number(digits));
    else await disk.remove(join(directory, name));
  }
  return { whole: whole.sort((a, b) => a - b), last };
}

/** The file, or its first `bytesMax` octets; null if there is none. */
async function readFrom(disk: Disk, path: string, bytesMax: number | undefined): Promise<Buffer | null> {
  if (bytesMax === undefined) return await disk.readWhole(path);
  if ((await disk.look(path)) === null) return null;
  const file = await disk.open(path, 'read');
  try {
    return await file.read(0, bytesMax);
  } finally {
    await file.close();
  }
}
