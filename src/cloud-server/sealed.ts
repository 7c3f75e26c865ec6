/**
 * Small files that are replaced as a whole and are there after a kill and after a power cut: a line of eight hex
 * digits, the CRC-32 of the JSON behind the blank. Used by documents.ts and watch.ts.
 */
import { dirname } from 'node:path';
import { crc32, hex8 } from '../store/crc.js';
import type { Disk } from '../system/disk.js';
import type { Log } from '../system/log.js';

/** Replaces the file. Once it resolves, the new value lasts; if it rejects, the old one or the new one does. */
export async function writeSealed(disk: Disk, path: string, value: unknown): Promise<void> {
  const json = Buffer.from(JSON.stringify(value));
  const temporary = `${path}.new`;
  await disk.remove(temporary);
  const file = await disk.open(temporary, 'create');
  try {
    await file.write(Buffer.concat([Buffer.from(`${hex8(crc32(json))} `), json, Buffer.from('\n')]), 0);
    await file.sync();
  } finally {
    await file.close();
  }
  await disk.rename(temporary, path);
  await disk.syncDirectory(dirname(path));
}

/** The value in the file; null if there is none, or if it is damaged: then it is put aside and told. */
export async function readSealed(disk: Disk, path: string, log: Log): Promise<unknown> {
  const bytes = await disk.readWhole(path);
  if (bytes === null) return null;
  const json = bytes.subarray(9, -1);
  if (bytes.toString('latin1', 0, 9) === `${hex8(crc32(json))} `) return JSON.parse(json.toString());
  log.error('cloud file damaged', { path, copy: `${path}.damaged` });
  await disk.rename(path, `${path}.damaged`);
  return null;
}
