/** The lock of a state directory: held by one, left behind by none. */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
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

t.test('two find a stale one', async (t) => {
  // Bound without the lock's own way round the length of a path.
  const directory = mkdtempSync(join(tmpdir(), 'lock-'));
  t.teardown(() => rmSync(directory, { recursive: true }));
  let most = 0;
  for (let round = 0; round < 60; round++) {
    const path = join(directory, `${round}`);
    await leaveStale(path);
    const taken = await Promise.allSettled(
      [0, 1].map(async (which) => {
        for (let turns = which * (round % 20); turns > 0; turns--) await new Promise(setImmediate);
        return await systemLock(path);
      }),
    );
    const locks = taken.flatMap((it) => (it.status === 'fulfilled' ? [it.value] : []));
    for (const it of taken) if (it.status === 'rejected') t.match(it.reason, { code: 'already-running' });
    if (locks.length === 0) t.fail('nobody got it');
    most = Math.max(most, locks.length);
    await t.rejects(systemLock(path), { code: 'already-running' });
    for (const lock of locks) await lock.release();
    if (readdirSync(directory).length > 0) t.fail(`left behind: ${readdirSync(directory)}`);
  }
  t.equal(most, 1);
});

/** A socket that nobody listens on any more. */
async function leaveStale(path: string): Promise<void> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(`${path}.l`, resolve));
  renameSync(`${path}.l`, path);
  await new Promise((resolve) => server.close(resolve));
}

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
