/**
 * A durable file by two calls.
 */
import { DurableFile } from '../../base/durable-file.js';
import type { Disk } from '../../base/system/disk.js';

/** Replaces the file, like `replace`. */
export async function writeSealed(disk: Disk, path: string, value: unknown): Promise<void> {
  await new DurableFile<unknown>({ disk, path, parse: () => null, onDamage: () => undefined }).write(value);
}

/** See DurableFile.read. */
export async function readSealed<T>(
  disk: Disk,
  path: string,
  parse: (value: unknown) => T | null,
  onDamage: (paths: { path: string; copy: string }) => void,
): Promise<T | null> {
  return await new DurableFile<T>({ disk, path, parse, onDamage }).read();
}
