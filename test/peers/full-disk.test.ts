/** A start on a disk that is as full as can be: what is queued goes out all the same, and once. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { sharedDirectory, skipWithout, startFieldpost } from '../support/peers.js';
import { fakeRelay } from '../support/relay.js';

const skip = skipWithout('/usr/sbin/mkfs.xfs');

function run(program: string, ...args: readonly string[]): void {
  execFileSync(program, args, { stdio: ['ignore', 'ignore', 'inherit'] });
}

/** Mounts at a directory of its own until the test ends. */
function mount(t: Test, scratch: string, ...args: readonly string[]): string {
  const at = join(scratch, 'disk');
  mkdirSync(at);
  run('mount', ...args, at);
  t.teardown(() => run('umount', '--lazy', at));
  return at;
}

const DISKS: Readonly<Record<string, (t: Test, scratch: string) => string>> = {
  'tmpfs without inodes': (t, scratch) =>
    mount(t, scratch, '-t', 'tmpfs', '-o', 'size=32m,nr_inodes=300', 'tmpfs'),
  'xfs without blocks'(t, scratch) {
    const image = join(scratch, 'image');
    writeFileSync(image, '');
    truncateSync(image, 320 * 2 ** 20);
    run('mkfs.xfs', '-q', image);
    return mount(t, scratch, '-t', 'xfs', '-o', 'loop', image);
  },
};

/** Makes files, then adds to one, until there is neither an inode nor a block. */
function fill(disk: string): void {
  const [junk, block] = [join(disk, 'junk'), Buffer.alloc(2 ** 16)];
  mkdirSync(junk);
  const untilFull = (write: (i: number) => void) => {
    try {
      for (let i = 0; ; i++) write(i);
    } catch (error) {
      if ((error as { code: string }).code !== 'ENOSPC') throw error;
    }
  };
  for (const bytes of [block, block.subarray(0, 512)]) {
    untilFull(() => writeFileSync(join(junk, 'large'), bytes, { flag: 'a' }));
  }
  untilFull((i) => writeFileSync(join(junk, `${i}`), ''));
}

for (const [name, mountDisk] of Object.entries(DISKS)) {
  t.test(name, { skip }, async (t) => {
    const disk = mountDisk(t, sharedDirectory(t));
    const state = join(disk, 'state');
    await using relay = await fakeRelay();
    const withoutRelay = {
      FIELDPOST_STATE_DIR: state,
      FIELDPOST_MIN_FREE: '4MiB',
    };
    const env = { ...withoutRelay, FIELDPOST_RELAY: `smtp://127.0.0.1:${relay.port}?tls=never` };
    const before = await startFieldpost(t, withoutRelay);
    for (const subject of ['first', 'second']) {
      await before.post({ destination: 'john@example.com', subject, plain: 'It is queued.' });
    }
    t.equal(await before.stop(), 0);
    t.notOk(readdirSync(state).includes('lock'));
    fill(disk);
    const first = await startFieldpost(t, env);
    t.ok(
      first.lines.some((line) => line.includes('lock not on disk')),
      'it says that it has no room for the lock',
    );
    await relay.arrived(2);
    t.equal(await first.stop(), 0);
    const second = await startFieldpost(t, env);
    const { queued, deferred } = (await second.state()).queue;
    t.same({ queued, deferred }, { queued: 0, deferred: 0 }, 'the outcomes were recorded');
    t.equal(await second.stop(), 0);
    const subjects = relay.mails.map(({ content }) => /^Subject: (.*)\r$/m.exec(content.toString())?.[1]);
    t.same(subjects.sort(), ['first', 'second']);
  });
}
