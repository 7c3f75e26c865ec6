/** Small real file systems, and how to mount and fill one. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { sharedDirectory } from './peers.js';

const MAKE = {
  ext4: ['mkfs.ext4', '-q', '-m', '0'],
  xfs: ['mkfs.xfs', '-q'],
} as const;

/** Runs a program; throws if it fails. */
export function run(program: string, ...args: readonly string[]): void {
  execFileSync(program, args, { stdio: ['ignore', 'ignore', 'inherit'] });
}

/** Mounts at the path `at` until the test ends; `args` are those of mount(8). */
export function mount(t: Test, at: string, ...args: readonly string[]): void {
  mkdirSync(at, { recursive: true });
  run('mount', ...args, at);
  t.teardown(() => run('umount', '--lazy', at));
}

/** Mounts a new file system of this size until the test ends; gives its directory. `inodes` limits a tmpfs. */
export function partition(t: Test, type: keyof typeof MAKE | 'tmpfs', bytes: number, inodes = 0): string {
  const scratch = sharedDirectory(t);
  const [image, disk] = [join(scratch, 'image'), join(scratch, 'disk')];
  if (type === 'tmpfs') mount(t, disk, '-t', type, '-o', `size=${bytes},nr_inodes=${inodes}`, type);
  else {
    const [program, ...args] = MAKE[type];
    writeFileSync(image, '');
    truncateSync(image, bytes);
    run(program, ...args, image);
    mount(t, disk, '-t', type, '-o', 'loop', image);
  }
  return disk;
}

/** Writes to a file in this directory until no byte fits; with `inodes`, then makes files until no inode is left. */
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
