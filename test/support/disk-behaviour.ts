/**
 * The behaviour of every `Disk` without faults. The suite runs against the real file system and against the faulty disk, so
 * that a test on the fake says something about a device.
 */
import type { Test } from 'tap';
import type { Disk } from '../../src/base/system/disk.js';

/** Runs the suite; each part asks for a disk and an empty directory on it, an absolute path. */
export async function diskBehaviour(
  t: Test,
  fresh: (t: Test) => Promise<{ disk: Disk; directory: string }>,
): Promise<void> {
  const part = (name: string, run: (t: Test, disk: Disk, directory: string) => Promise<void>) =>
    t.test(name, async (t) => {
      const { disk, directory } = await fresh(t);
      await run(t, disk, directory);
    });

  const fill = async (disk: Disk, path: string, text: string) => {
    const file = await disk.open(path, 'create');
    await file.write(Buffer.from(text), 0);
    await file.close();
  };
  const textOf = async (disk: Disk, path: string) => (await disk.readWhole(path))?.toString() ?? null;

  await part(
    'open: create is for new files, read and update for those that are there',
    async (t, disk, d) => {
      await t.rejects(disk.open(`${d}/a`, 'read'), { code: 'ENOENT' });
      await t.rejects(disk.open(`${d}/a`, 'update'), { code: 'ENOENT' });
      await t.rejects(disk.open(`${d}/none/a`, 'create'), { code: 'ENOENT' });
      await fill(disk, `${d}/a`, 'one');
      await t.rejects(disk.open(`${d}/a`, 'create'), { code: 'EEXIST' });
      await t.rejects(disk.open(`${d}/a/b`, 'create'), { code: 'ENOTDIR' });
      t.equal(await textOf(disk, `${d}/a`), 'one', 'a refused create leaves the file alone');
      const file = await disk.open(`${d}/a`, 'update');
      await file.write(Buffer.from('T'), 1);
      await file.sync();
      await file.close();
      t.equal(await textOf(disk, `${d}/a`), 'oTe', 'update keeps what it does not write');
      const reader = await disk.open(`${d}/a`, 'read');
      await t.rejects(reader.write(Buffer.from('x'), 0), { code: 'EBADF' });
      await reader.close();
      await disk.makeDirectory(`${d}/inner`);
      await t.rejects(disk.open(`${d}/inner`, 'update'), { code: 'EISDIR' });
      await t.rejects(disk.open(`${d}/inner`, 'read'), { code: 'EISDIR' });
    },
  );

  await part('read and write at offsets, across sectors and beyond the end', async (t, disk, d) => {
    const file = await disk.open(`${d}/a`, 'create');
    t.equal(await file.size(), 0);
    t.equal((await file.read(0, 10)).length, 0, 'nothing in an empty file');
    await file.write(Buffer.alloc(0), 100);
    t.equal(await file.size(), 0, 'writing nothing changes nothing');
    await file.write(Buffer.from('x'.repeat(700)), 1500);
    t.equal(await file.size(), 2200, 'a gap counts');
    const expected = Buffer.concat([Buffer.alloc(1500), Buffer.from('x'.repeat(700))]);
    t.same(await file.read(0, 5000), expected, 'a gap reads as zeros, and a read ends at the end');
    t.same(await file.read(1490, 20), expected.subarray(1490, 1510));
    t.equal((await file.read(2200, 1)).length, 0, 'at the end');
    t.equal((await file.read(9000, 1)).length, 0, 'beyond the end');
    await file.write(Buffer.from('y'.repeat(1000)), 300);
    expected.fill('y', 300, 1300);
    await file.write(Buffer.from('z'), 2199);
    expected.fill('z', 2199);
    t.same(await disk.readWhole(`${d}/a`), expected);
    const bytes = Buffer.alloc(600, 'm');
    await file.write(bytes, 0);
    bytes.fill('?');
    t.same(await file.read(0, 600), Buffer.alloc(600, 'm'), 'the caller may use its buffer again');
    await file.close();
    await file.close();
    await t.rejects(file.read(0, 1), { code: 'EBADF' });
    await t.rejects(file.write(bytes, 0), { code: 'EBADF' });
    await t.rejects(file.sync(), { code: 'EBADF' });
    await t.rejects(file.size(), { code: 'EBADF' });
  });

  await part('durable: writes to a file that is there, and is read by others', async (t, disk, d) => {
    await t.rejects(disk.open(`${d}/a`, 'durable'), { code: 'ENOENT' });
    await fill(disk, `${d}/a`, 'one');
    const file = await disk.open(`${d}/a`, 'durable');
    await file.write(Buffer.alloc(0), 9);
    await file.write(Buffer.from('T'), 1);
    await file.write(Buffer.from('four'), 3);
    t.equal(await textOf(disk, `${d}/a`), 'oTefour');
    t.equal((await file.read(1, 2)).toString(), 'Te');
    await file.close();
    await t.rejects(file.write(Buffer.from('x'), 0), { code: 'EBADF' });
    await disk.makeDirectory(`${d}/inner`);
    await t.rejects(disk.open(`${d}/inner`, 'durable'), { code: 'EISDIR' });
  });

  await part('readWhole: null where there is no file', async (t, disk, d) => {
    t.equal(await disk.readWhole(`${d}/a`), null);
    t.equal(await disk.readWhole(`${d}/none/a`), null);
    await fill(disk, `${d}/a`, 'one');
    t.equal(await textOf(disk, `${d}/a`), 'one');
    await t.rejects(disk.readWhole(d), { code: 'EISDIR' });
  });

  await part('look: what stands there, without opening it', async (t, disk, d) => {
    t.equal(await disk.look(`${d}/a`), null);
    await fill(disk, `${d}/a`, 'one');
    t.same(await disk.look(`${d}/a`), { kind: 'file', bytes: 3 });
    t.equal((await disk.look(d))?.kind, 'directory');
  });

  await part('list: sorted names, none without the directory', async (t, disk, d) => {
    t.same(await disk.list(d), []);
    t.same(await disk.list(`${d}/none`), []);
    for (const name of ['b', 'a', 'B', '10', '9']) await fill(disk, `${d}/${name}`, name);
    await disk.makeDirectory(`${d}/inner`);
    t.same(await disk.list(d), ['10', '9', 'B', 'a', 'b', 'inner']);
    await t.rejects(disk.list(`${d}/a`), { code: 'ENOTDIR' });
  });

  await part('makeDirectory: with its parents, and again', async (t, disk, d) => {
    await disk.makeDirectory(`${d}/x/y/z`);
    await disk.makeDirectory(`${d}/x/y/z`);
    await disk.makeDirectory(`${d}/x/w`);
    t.same(await disk.list(`${d}/x`), ['w', 'y']);
    await fill(disk, `${d}/file`, '');
    await t.rejects(disk.makeDirectory(`${d}/file`), { code: 'EEXIST' });
    await t.rejects(disk.makeDirectory(`${d}/file/inner`), { code: 'ENOTDIR' });
  });

  await part('rename: replaces, and open handles keep their file', async (t, disk, d) => {
    await t.rejects(disk.rename(`${d}/a`, `${d}/b`), { code: 'ENOENT' });
    await fill(disk, `${d}/a`, 'new');
    await fill(disk, `${d}/b`, 'old');
    const old = await disk.open(`${d}/b`, 'update');
    const moved = await disk.open(`${d}/a`, 'update');
    await disk.rename(`${d}/a`, `${d}/b`);
    t.same(await disk.list(d), ['b']);
    await moved.write(Buffer.from('N'), 0);
    await old.write(Buffer.from('O'), 0);
    t.equal(await textOf(disk, `${d}/b`), 'New');
    t.equal((await old.read(0, 9)).toString(), 'Old', 'the replaced file lives while it is open');
    await disk.rename(`${d}/b`, `${d}/b`);
    t.equal(await textOf(disk, `${d}/b`), 'New', 'onto itself changes nothing');
    await disk.makeDirectory(`${d}/inner`);
    await t.rejects(disk.rename(`${d}/b`, `${d}/inner`), { code: 'EISDIR' });
    await t.rejects(disk.rename(`${d}/inner`, `${d}/b`), { code: 'ENOTDIR' });
    await Promise.all([old.close(), moved.close()]);
  });

  await part('remove: a missing file is no error, open handles keep theirs', async (t, disk, d) => {
    await disk.remove(`${d}/a`);
    await fill(disk, `${d}/a`, 'one');
    const file = await disk.open(`${d}/a`, 'update');
    await disk.remove(`${d}/a`);
    t.equal(await textOf(disk, `${d}/a`), null);
    t.equal((await file.read(0, 9)).toString(), 'one');
    await file.sync();
    await fill(disk, `${d}/a`, 'two');
    t.equal((await file.read(0, 9)).toString(), 'one', 'a new file of the same name is another');
    await file.close();
    await disk.makeDirectory(`${d}/inner`);
    await t.rejects(disk.remove(`${d}/inner`), { code: 'EISDIR' });
  });

  await part('syncDirectory and space', async (t, disk, d) => {
    await disk.syncDirectory(d);
    await t.rejects(disk.syncDirectory(`${d}/none`), { code: 'ENOENT' });
    await fill(disk, `${d}/a`, 'one');
    await t.rejects(disk.syncDirectory(`${d}/a`), { code: 'ENOTDIR' });
    const space = await disk.space(d);
    t.ok(space.freeBytes > 0 && space.freeInodes > 0);
    t.ok(space.sizeBytes >= space.freeBytes);
    await t.rejects(disk.space(`${d}/none`), { code: 'ENOENT' });
  });
}
