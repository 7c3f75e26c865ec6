/** nullmailer from Debian's package, unpacked beside the state of the run; used by bytes.mjs. It is never installed. */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, readdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { remembered } from './children.mjs';

const MAIL = `From: bench@example.com\nTo: john@example.com\nSubject: Load\n\n${'x'.repeat(1024)}\n`;

/** Downloads and unpacks the package into `directory`; resolves with {programs, version}, or {why} where that fails. */
export async function unpackNullmailer(directory) {
  const programs = join(directory, 'nullmailer');
  await mkdir(programs, { recursive: true });
  const run = (/** @type {string} */ program, /** @type {string[]} */ ...args) =>
    execFileSync(program, args, { cwd: programs, stdio: 'pipe' });
  try {
    run(
      'apt-get',
      '-qq',
      '-o',
      'DPkg::Lock::Timeout=300',
      '-o',
      'APT::Sandbox::User=root',
      'download',
      'nullmailer',
    );
    const archive = (await readdir(programs)).find((name) => name.endsWith('.deb'));
    if (!archive) throw new Error('nothing was downloaded');
    run('dpkg-deb', '-x', archive, '.');
    // With the set-user-id bit it would use the queue of the machine.
    await chmod(join(programs, 'usr/sbin/nullmailer-queue'), 0o755);
    return { programs, version: String(run('dpkg-deb', '-f', archive, 'Version')).trim() };
  } catch {
    return { why: 'its package cannot be downloaded' };
  }
}

/** Starts nullmailer-send with its queue in `directory`. `post` hands one mail to nullmailer-inject. */
export async function startNullmailer(programs, directory, relayPort) {
  const path = (name) => join(directory, name);
  for (const name of ['conf', 'queue/queue', 'queue/tmp', 'queue/failed'])
    await mkdir(path(name), { recursive: true });
  for (const [name, target] of /** @type {const} */ ([
    ['bin', 'usr/bin'],
    ['sbin', 'usr/sbin'],
    ['protocols', 'usr/lib/nullmailer'],
  ]))
    await symlink(join(programs, target), path(name));
  execFileSync('mkfifo', [path('queue/trigger')]);
  await writeFile(path('mailname'), 'bench.example\n');
  await writeFile(path('conf/remotes'), `127.0.0.1 smtp port=${relayPort}\n`);
  const env = { ...process.env, NULLMAILER_TEST_PREFIX: directory };
  const sender = remembered(
    spawn(path('sbin/nullmailer-send'), { env, stdio: ['ignore', 'pipe', 'ignore'] }),
  );
  const ended = once(sender, 'close');
  // Its first line: it listens to its trigger.
  await once(sender.stdout, 'data');
  sender.stdout.resume();
  return {
    pid: sender.pid,
    post: async () => {
      const inject = spawn(path('bin/nullmailer-inject'), { env, stdio: ['pipe', 'ignore', 'ignore'] });
      inject.stdin.end(MAIL);
      const [code] = await once(inject, 'exit');
      if (code !== 0) throw new Error(`nullmailer-inject ended with ${code}`);
    },
    end: async () => {
      sender.kill();
      await ended;
    },
  };
}
