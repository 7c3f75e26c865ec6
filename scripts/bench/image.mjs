/** A loop-mounted ext4 image whose written sectors are counted; used by bytes.mjs. Needs root. */
import { execFileSync } from 'node:child_process';
import { mkdir, readFile, truncate, writeFile } from 'node:fs/promises';

const SECTOR_BYTES = 512;
const IMAGE_BYTES = 512 * 2 ** 20;

/** Resolves with the bytes that reach the image's block device while `work(mount)` runs, the file system's journal included. */
export async function writtenOnImage(directory, work) {
  const image = `${directory}/image`;
  const mount = `${directory}/mount`;
  await writeFile(image, '');
  await truncate(image, IMAGE_BYTES);
  await mkdir(mount);
  // Nothing is left for the kernel to initialise while we count.
  execFileSync('mkfs.ext4', ['-q', '-E', 'lazy_itable_init=0,lazy_journal_init=0', image]);
  execFileSync('mount', ['-o', 'loop', image, mount]);
  try {
    const device = execFileSync('findmnt', ['-no', 'SOURCE', mount], { encoding: 'latin1' }).trim();
    const written = async () => {
      execFileSync('sync', ['-f', mount]);
      const fields = (await readFile(`/sys/block/${device.slice('/dev/'.length)}/stat`, 'latin1')).trim();
      return Number(fields.split(/\s+/)[6]) * SECTOR_BYTES;
    };
    const before = await written();
    await work(mount);
    return (await written()) - before;
  } finally {
    // The children of Postfix may end a moment after their master. The image goes with the last of them.
    execFileSync('umount', ['--lazy', mount]);
  }
}
