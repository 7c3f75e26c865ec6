/** The state directory of a firmware image: a writable file system, mounted in a read-only one. */
import { mkdirSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { mount, run } from './partition.js';
import { sharedDirectory, skipWithout, startFieldpost } from './peers.js';

const skip = skipWithout('/usr/bin/mksquashfs', '/usr/bin/mkfs.erofs', '/usr/sbin/mkfs.ext4');

/** Makes a tree with an empty directory `data`, where the state is mounted. */
function tree(scratch: string): string {
  mkdirSync(join(scratch, 'tree', 'data'), { recursive: true });
  return join(scratch, 'tree');
}

const ROOTS: Readonly<Record<string, (t: Test, scratch: string, root: string) => void>> = {
  squashfs(t, scratch, root) {
    run('mksquashfs', tree(scratch), join(scratch, 'image'), '-quiet', '-no-progress');
    mount(t, root, '-t', 'squashfs', '-o', 'loop,ro', join(scratch, 'image'));
  },
  erofs(t, scratch, root) {
    run('mkfs.erofs', join(scratch, 'image'), tree(scratch));
    mount(t, root, '-t', 'erofs', '-o', 'loop,ro', join(scratch, 'image'));
  },
  'ext4, read-only'(t, scratch, root) {
    writeFileSync(join(scratch, 'image'), '');
    truncateSync(join(scratch, 'image'), 2 ** 22);
    run('mkfs.ext4', '-q', '-d', tree(scratch), join(scratch, 'image'));
    mount(t, root, '-t', 'ext4', '-o', 'loop,ro,noload', join(scratch, 'image'));
  },
  'overlayfs without an upper layer'(t, scratch, root) {
    const lower = join(scratch, 'lower');
    mkdirSync(join(scratch, 'empty'));
    ROOTS.squashfs?.(t, scratch, lower);
    mount(t, root, '-t', 'overlay', '-o', `lowerdir=${join(scratch, 'empty')}:${lower}`, 'overlay');
  },
  'overlayfs with an upper layer'(t, scratch, root) {
    const [lower, upper] = [join(scratch, 'lower'), join(scratch, 'upper')];
    ROOTS.squashfs?.(t, scratch, lower);
    mount(t, upper, '-t', 'tmpfs', 'tmpfs');
    for (const name of ['layer', 'work']) mkdirSync(join(upper, name));
    const layers = `lowerdir=${lower},upperdir=${join(upper, 'layer')},workdir=${join(upper, 'work')}`;
    mount(t, root, '-t', 'overlay', '-o', layers, 'overlay');
  },
};

for (const [name, mountRoot] of Object.entries(ROOTS)) {
  t.test(`a state directory mounted on ${name}`, { skip }, async (t) => {
    const scratch = sharedDirectory(t);
    const root = join(scratch, 'root');
    mountRoot(t, scratch, root);
    const state = join(root, 'data');
    mount(t, state, '-t', 'tmpfs', '-o', 'size=16m', 'tmpfs');
    for (const messages of [1, 2]) {
      const daemon = await startFieldpost(t, { FIELDPOST_STATE_DIR: state, FIELDPOST_MIN_FREE: '4MiB' });
      await daemon.post({ destination: 'john@example.com', subject: 'It starts', plain: 'It does.' });
      t.equal((await daemon.state()).queue.queued, messages, 'messages of the last run are there');
      t.equal(await daemon.stop(), 0);
    }
  });
}
