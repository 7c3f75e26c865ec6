/** Restarts on a real ext4 without a free block: no mail is sent again because its outcome could not be kept. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { type DaemonProcess, startDaemon } from '../support/daemon.js';
import { sharedDirectory, skipWithout } from '../support/peers.js';
import { fakeRelay } from '../support/relay.js';

const MAILS = 5;
const skip = skipWithout('/usr/sbin/mkfs.ext4');

function run(program: string, ...args: readonly string[]): void {
  execFileSync(program, args, { stdio: ['ignore', 'ignore', 'inherit'] });
}

/** Writes until nothing more fits. */
function fill(file: string): void {
  for (const bytes of [2 ** 16, 2 ** 12, 1]) {
    try {
      for (;;) writeFileSync(file, Buffer.alloc(bytes), { flag: 'a' });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
    }
  }
}

async function call(daemon: DaemonProcess, path: string, body: unknown): Promise<void> {
  const answer = await fetch(`http://127.0.0.1:${daemon.port}/api/internal/${path}`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (answer.status !== 202) throw new Error(`${path}: ${await answer.text()}`);
}

async function until(daemon: DaemonProcess, words: RegExp): Promise<void> {
  while (!daemon.lines.some((line) => words.test(line))) await daemon.nextLine();
}

t.test('a mail is sent once, however often it starts', { skip }, async (t) => {
  const scratch = sharedDirectory(t);
  const state = join(scratch, 'state');
  mkdirSync(state);
  writeFileSync(join(scratch, 'image'), '');
  truncateSync(join(scratch, 'image'), 2 ** 25);
  run('mkfs.ext4', '-q', '-m', '0', join(scratch, 'image'));
  run('mount', '-o', 'loop', join(scratch, 'image'), state);
  t.teardown(() => run('umount', '--lazy', state));
  await using relay = await fakeRelay();
  const env = {
    FIELDPOST_STATE_DIR: state,
    FIELDPOST_RELAY: `smtp://127.0.0.1:${relay.port}?tls=never`,
    FIELDPOST_MIN_FREE: '4MiB',
  };
  const first = await startDaemon(env);
  t.teardown(() => first.child.kill('SIGKILL'));
  await call(first, 'queue/hold', {});
  const mails = Array.from({ length: MAILS }, (_, n) => ({
    type: 1,
    destination: 'john@example.com',
    subject: `m${n}`,
    plain: 'test',
  }));
  await call(first, 'messages', mails);
  await first.end('SIGKILL');
  const filler = join(state, 'filler');
  fill(filler);
  // The segment that was prepared serves one start, which releases the mails and dies.
  const second = await startDaemon(env);
  t.teardown(() => second.child.kill('SIGKILL'));
  const released = call(second, 'queue/release', {});
  await Promise.race([released, relay.arrived(1)]);
  await second.end('SIGKILL');
  await released.catch(() => undefined);
  for (let start = 0; start < 5; start++) {
    const daemon = await startDaemon(env);
    t.teardown(() => daemon.child.kill('SIGKILL'));
    await until(daemon, /sending waits/);
    await daemon.end('SIGKILL');
  }
  rmSync(filler);
  const last = await startDaemon(env);
  t.teardown(() => last.child.kill('SIGKILL'));
  await relay.arrived(MAILS);
  await last.end('SIGTERM');
  const subjects = relay.mails.map(({ content }) => /^Subject: (\S+)/m.exec(String(content))?.[1]);
  // The one that was on its way when the process was killed may go twice.
  t.same(
    [...new Set(subjects)].sort(),
    mails.map(({ subject }) => subject),
  );
  t.ok(subjects.length <= MAILS + 1, subjects.join(' '));
});
