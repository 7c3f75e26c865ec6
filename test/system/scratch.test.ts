/** Files without a name, on the real file system. */
import { readdirSync } from 'node:fs';
import t from 'tap';
import { openScratch, systemDisk } from '../../src/base/system/disk.js';

t.test('it keeps what is written, and leaves nothing behind', async (t) => {
  const directory = t.testdir();
  const file = await openScratch(systemDisk(), directory);
  t.same(readdirSync(directory), []);
  await file.write(Buffer.from('hello'), 0);
  await file.write(Buffer.from('!'), 5);
  t.equal((await file.read(0, 100)).toString(), 'hello!');
  await file.close();
  t.same(readdirSync(directory), []);
});

t.test('two do not meet', async (t) => {
  const directory = t.testdir();
  const files = await Promise.all([1, 2].map(() => openScratch(systemDisk(), directory)));
  for (const [index, file] of files.entries()) await file.write(Buffer.from(`${index}`), 0);
  for (const [index, file] of files.entries()) t.equal((await file.read(0, 9)).toString(), `${index}`);
  for (const file of files) await file.close();
});

t.test('without such a directory, and if the name stays, it fails', async (t) => {
  const directory = t.testdir();
  await t.rejects(openScratch(systemDisk(), `${directory}/none`), { code: 'ENOENT' });
  const disk = { ...systemDisk(), remove: () => Promise.reject(new Error('EIO')) };
  await t.rejects(openScratch(disk, directory), /EIO/);
});
