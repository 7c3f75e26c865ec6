/** Small file systems of the kernel's own, and how to fill one. Used by the tests of full disks in test/peers. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { sharedDirectory } from './peers.js';

const MAKE = {
  ext4: ['mkfs.ext4', '-q', '-m', '0'],
  xfs: ['mkfs.xfs', '-q'],
} as const;

function run(program: string, ...args: readonly string[]): void {
  execFileSync(program, args, { stdio: ['ignore', 'ignore', 'inherit'] });
}

/** Mounts a new one of so many bytes until the test ends; gives its directory. A tmpfs has so many inodes. */
export function partition(t: Test, type: keyof typeof MAKE | 'tmpfs', bytes: number, inodes = 0): string {
  const scratch = sharedDirectory(t);
  const [image, disk] = [join(scratch, 'image'), join(scratch, 'disk')];
  mkdirSync(disk);
  if (type === 'tmpfs') run('mount', '-t', type, '-o', `size=${bytes},nr_inodes=${inodes}`, type, disk);
  else {
    const [program, ...args] = MAKE[type];
    writeFileSync(image, '');
    truncateSync(image, bytes);
    run(program, ...args, image);
    run('mount', '-t', type, '-o', 'loop', image, disk);
  }
  t.teardown(() => run('umount', '--lazy', disk));
  return disk;
}

/** Writes to a file of this directory until no byte fits; with `inodes`, makes others until there is no inode either. */
export function fill(directory: string, inodes = false): void {
  mkdirSync(directory);
  for (const bytes of [2 ** 16, 2 ** 12, 512, 1])
    untilFull(() => writeFileSync(join(directory, 'large'), Buffer.alloc(bytes), { flag: 'a' }));
  if (inodes) untilFull((i) => writeFileSync(join(directory, `${i}`), ''));
}

function untilFull(write: (i: number) => void): void {
  try {
    for (let i = 0; ; i++) write(i);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
  }
}
