/**
 * A new file that only its user can read.
 */
import { Buffer } from 'node:buffer';
import type { Disk } from './disk.js';

/** Makes it. Rejects with EEXIST if something is there; a file that cannot be written whole is removed again. */
export async function writeNew(
  disk: Pick<Disk, 'open' | 'remove'>,
  path: string,
  text: string,
): Promise<void> {
  const file = await disk.open(path, 'create');
  try {
    await file.write(Buffer.from(text), 0);
    await file.sync();
  } catch (error) {
    await disk.remove(path).catch(() => undefined);
    throw error;
  } finally {
    await file.close();
  }
}
