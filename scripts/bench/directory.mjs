/** The directory on a real disk in which a run keeps the state of its servers. */
import { statfsSync } from 'node:fs';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { endChildren } from './children.mjs';

const TMPFS = 0x01021994;

/**
 * Calls `work` with a new directory, in BENCH_DIR if that is set, and removes it afterwards. No process that uses it
 * is left then.
 * @param {string} name
 * @param {(base: string) => Promise<void>} work
 */
export async function inDirectory(name, work) {
  const disk = process.env.BENCH_DIR ?? tmpdir();
  if (statfsSync(disk).type === TMPFS)
    throw new Error(`${disk} is in memory: name a directory on a disk with BENCH_DIR`);
  const base = await mkdtemp(join(disk, `fieldpost-${name}-`));
  // Postfix gives up its rights, and must still reach its files.
  await chmod(base, 0o711);
  try {
    await work(base);
  } finally {
    endChildren();
    await rm(base, { recursive: true, force: true });
  }
}
