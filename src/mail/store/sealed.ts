/**
 * Small files that are replaced as a whole and survive a power cut. Each is one line: eight hex digits of the CRC-32 of the
 * JSON, a blank, the JSON.
 */
import { jsonIn } from '../../base/json.js';
import type { Disk } from '../../base/system/disk.js';
import { crc32, hex8 } from './crc.js';
import { replace } from './replace.js';

/** Replaces the file, like `replace`. */
export async function writeSealed(disk: Disk, path: string, value: unknown): Promise<void> {
  const json = Buffer.from(JSON.stringify(value));
  await replace(disk, path, Buffer.concat([Buffer.from(`${hex8(crc32(json))} `), json, Buffer.from('\n')]));
}

/**
 * The value in the file, as `parse` reads it; null if there is no file. One that is damaged, or for which `parse` returns
 * null, is renamed, and the result is null. Rejects with the disk's error.
 */
export async function readSealed<T>(
  disk: Disk,
  path: string,
  parse: (value: unknown) => T | null,
  onDamage: (paths: { path: string; copy: string }) => void,
): Promise<T | null> {
  const bytes = await disk.readWhole(path);
  if (bytes === null) return null;
  const json = bytes.subarray(9, -1);
  const isWhole = bytes.toString('latin1', 0, 9) === `${hex8(crc32(json))} `;
  const found = isWhole ? parse(jsonIn(json)) : null;
  if (found !== null) return found;
  onDamage({ path, copy: `${path}.damaged` });
  await disk.rename(path, `${path}.damaged`);
  return null;
}
