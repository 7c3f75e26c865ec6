/** The lock of a state directory: held by one, left behind by none. */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { systemLock } from '../../src/system/lock.js';

t.test('one at a time', async (t) => {
  const path = join(t.testdir(), 'lock');
  const lock = await systemLock(path);
  await t.rejects(systemLock(path), { code: 'already-running' });
  await lock.release();
  t.notOk(existsSync(path), 'nothing is left');
  await (await systemLock(path)).release();
});

t.test('of two that come at once one gets it', async (t) => {
  const path = join(t.testdir(), 'lock');
  const first = await systemLock(path);
  const others = await Promise.allSettled([systemLock(path), systemLock(path)]);
  t.same(
    others.map(({ status }) => status),
    ['rejected', 'rejected'],
  );
  await first.release();
});

t.test('a path of any length', async (t) => {
  const directory = join(t.testdir(), ...Array.from({ length: 6 }, () => 'a'.repeat(40)));
  mkdirSync(directory, { recursive: true });
  const path = join(directory, 'lock');
  const lock = await systemLock(path);
  await t.rejects(systemLock(path), { code: 'already-running' });
  await lock.release();
});

t.test('a killed process leaves it to the next', async (t) => {
  const path = join(t.testdir(), 'lock');
  const holder = execFile(
    process.execPath,
    [
      '-e',
      `require('net').createServer().listen(${JSON.stringify(`/proc/self/cwd/lock`)}, () => console.log('held'))`,
    ],
    { cwd: join(path, '..') },
  );
  await once(holder.stdout as NonNullable<typeof holder.stdout>, 'data');
  await t.rejects(systemLock(path), { code: 'already-running' });
  holder.kill('SIGKILL');
  await once(holder, 'exit');
  t.ok(existsSync(path), 'its socket is still there');
  await (await systemLock(path)).release();
});

t.test('without a directory there is no lock', async (t) => {
  await t.rejects(systemLock(join(t.testdir(), 'no', 'lock')), { code: 'ENOENT' });
});
