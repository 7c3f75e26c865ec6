/** The lock of a state directory: held by one, left behind by none. */
import { type ChildProcess, execFile } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { systemLock } from '../../src/base/system/lock.js';
import { shortDirectory } from '../support/short-directory.js';

t.test('one at a time', async (t) => {
  const path = join(t.testdir(), 'lock');
  const lock = await systemLock(path);
  await t.rejects(systemLock(path), { code: 'already-running' });
  t.equal(statSync(path).mode & 0o777, 0o600, 'nobody else calls it');
  await lock.release();
  t.notOk(existsSync(path), 'nothing is left');
  await (await systemLock(path)).release();
});

t.test('one of two processes that find a stale lock gets it', async (t) => {
  const directory = shortDirectory(t);
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

/** Leaves a socket on which nobody listens. */
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

t.test('a killed process leaves the lock to the next', async (t) => {
  const path = join(t.testdir(), 'lock');
  const script = `
    process.chdir(process.argv[1]);
    require('net').createServer().listen('lock', () => console.log('held'));
  `;
  const holder = await inAnother(t, script, join(path, '..'));
  await t.rejects(systemLock(path), { code: 'already-running' });
  holder.kill('SIGKILL');
  await once(holder, 'exit');
  t.ok(existsSync(path), 'its socket is still there');
  await (await systemLock(path)).release();
});

t.test('without a directory there is no lock', async (t) => {
  await t.rejects(systemLock(join(t.testdir(), 'no', 'lock')), { code: 'ENOENT' });
});

/** Runs a script in another process until it prints; its directory is the first argument. */
async function inAnother(t: Test, script: string, directory: string): Promise<ChildProcess> {
  const child = execFile(process.execPath, ['-e', script, directory]);
  t.teardown(() => child.kill('SIGKILL'));
  await once(child.stdout as NonNullable<typeof child.stdout>, 'data');
  return child;
}

/** Holds only the name that needs no room on the disk; with the directory open, or not. */
const holding = (opens: boolean) => `
  const { fstatSync, openSync, statSync } = require('fs');
  const path = process.argv[1];
  ${opens ? "openSync(path, 'r');" : ''}
  const { dev, ino } = statSync(path, { bigint: true });
  require('net').createServer().listen('\\0fieldpost/' + dev + '-' + ino + '/' + process.pid, () => console.log('held'));
`;

t.test('without room for a file the lock holds, and says that it is weaker', async (t) => {
  // No file can be made in there.
  const path = `/proc/${process.pid}/lock`;
  const lock = await systemLock(path);
  t.type(lock.weakness, 'string');
  await t.rejects(systemLock(path), { code: 'already-running' });
  await lock.release();
  const again = await systemLock(path);
  await again.release();
});

t.test('a lock that another process holds without a file is seen', async (t) => {
  const path = join(t.testdir(), 'lock');
  const holder = await inAnother(t, holding(true), join(path, '..'));
  await t.rejects(systemLock(path), { code: 'already-running' });
  t.notOk(existsSync(path), 'nothing is left');
  holder.kill('SIGKILL');
  await once(holder, 'exit');
  await (await systemLock(path)).release();
});

t.test('a name does not count if its process has not opened the directory', async (t) => {
  const path = join(t.testdir(), 'lock');
  await inAnother(t, holding(false), join(path, '..'));
  const lock = await systemLock(path);
  t.equal(lock.weakness, undefined);
  await lock.release();
});

t.test('the rest of a killed take-over is removed; a lock that it had moved holds', async (t) => {
  const directory = shortDirectory(t);
  const path = join(directory, 'lock');
  await leaveStale(`${path}.0123abcd`);
  const lock = await systemLock(path);
  t.same(readdirSync(join(path, '..')), ['lock']);
  renameSync(path, `${path}.4567cdef`);
  await t.rejects(systemLock(path), { code: 'already-running' });
  renameSync(`${path}.4567cdef`, path);
  await lock.release();
  t.same(readdirSync(join(path, '..')), []);
});

t.test('a file or directory in the place of the lock is put aside', async (t) => {
  for (const make of [mkdirSync, (path: string) => writeFileSync(path, 'text')]) {
    const directory = t.testdir();
    make(join(directory, 'lock'));
    const lock = await systemLock(join(directory, 'lock'));
    t.same(readdirSync(directory).sort(), ['lock', lock.putAside]);
    await lock.release();
    t.same(readdirSync(directory), [lock.putAside], 'and stays there');
    await (await systemLock(join(directory, 'lock'))).release();
  }
});
