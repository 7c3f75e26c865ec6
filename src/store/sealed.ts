/**
 * Small files that are replaced as a whole and survive a power cut. Each is one line: eight hex digits of the CRC-32 of the
 * JSON, a blank, the JSON.
 */
import { parsed } from '../json.js';
import type { Disk } from '../system/disk.js';
import { crc32, hex8 } from './crc.js';
import { replace } from './replace.js';

/** Replaces the file, like `replace`. */
export async function writeSealed(disk: Disk, path: string, value: unknown): Promise<void> {
  const json = Buffer.from(JSON.stringify(value));
  await replace(disk, path, Buffer.concat([Buffer.from(`${hex8(crc32(json))} `), json, Buffer.from('\n')]));
}

/** The value in the file; null if there is none, or a damaged one, which is renamed. Rejects with the disk's error. */
export async function readSealed(
  disk: Disk,
  path: string,
  onDamage: (paths: { path: string; copy: string }) => void,
): Promise<unknown> {
  const bytes = await disk.readWhole(path);
  if (bytes === null) return null;
  const json = bytes.subarray(9, -1);
  const isWhole = bytes.toString('latin1', 0, 9) === `${hex8(crc32(json))} `;
  const value = isWhole ? parsed(json) : undefined;
  if (value !== undefined) return value;
  onDamage({ path, copy: `${path}.damaged` });
  await disk.rename(path, `${path}.damaged`);
  return null;
}
