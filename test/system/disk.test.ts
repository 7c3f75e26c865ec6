/** The real file system behind the `Disk` interface: the suite it shares with the fake, and what only it can show. */
import { constants, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { systemDisk } from '../../src/base/system/disk.js';
import { diskBehaviour } from '../support/disk-behaviour.js';

async function temporary(t: Test): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'fieldpost-disk-'));
  t.teardown(() => rm(directory, { recursive: true, force: true }));
  return directory;
}

t.test('the real disk behaves as the faulty disk without faults', (t) =>
  diskBehaviour(t, async (t) => ({ disk: systemDisk(), directory: await temporary(t) })),
);

t.test('only its user may read the files and directories that it makes', async (t) => {
  const directory = await temporary(t);
  const disk = systemDisk();
  const mask = process.umask(0o022);
  t.teardown(() => process.umask(mask));
  await disk.makeDirectory(join(directory, 'x/y'));
  await (await disk.open(join(directory, 'x/a'), 'create')).close();
  const modeOf = async (name: string) => (await stat(join(directory, name))).mode & 0o777;
  t.equal(await modeOf('x'), 0o700);
  t.equal(await modeOf('x/y'), 0o700);
  t.equal(await modeOf('x/a'), 0o600);
});

t.test('large reads and writes are whole', async (t) => {
  const path = join(await temporary(t), 'a');
  const bytes = Buffer.alloc(5_000_001, 'abcdefg');
  const file = await systemDisk().open(path, 'create');
  await file.write(bytes, 3);
  await file.sync();
  t.ok((await file.read(3, bytes.length + 10)).equals(bytes));
  await file.close();
});

t.test('a directory that cannot be made is an error, also in /proc', async (t) => {
  const disk = systemDisk();
  // The kernel says ENOENT there although the parent exists.
  await t.rejects(disk.makeDirectory('/proc/fieldpost/state'), { code: 'ENOENT' });
});

t.test('the kernel syncs each write to a durable file by itself', async (t) => {
  const path = join(await temporary(t), 'a');
  await writeFile(path, 'one');
  const file = await systemDisk().open(path, 'durable');
  const fds = readdirSync('/proc/self/fd').filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`) === path;
    } catch {
      return false;
    }
  });
  const flags = fds.map((fd) =>
    Number.parseInt(/^flags:\s+(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'latin1'))?.[1] ?? '', 8),
  );
  t.same(
    flags.map((flag) => flag & constants.O_DSYNC),
    [constants.O_DSYNC],
  );
  await file.close();
});
