/** Restarts on a real ext4 without a free block: no mail is sent twice because its outcome found no room. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { MIB } from '../../src/limits.js';
import { type DaemonProcess, startIn } from '../support/daemon.js';
import { fakeRelay } from '../support/relay.js';
import { fill, partition } from './partition.js';
import { skipWithout } from './peers.js';

const MAILS = 5;
const skip = skipWithout('/usr/sbin/mkfs.ext4');

async function call(daemon: DaemonProcess, path: string, body: unknown): Promise<void> {
  const { status, text } = await daemon.api(path, body);
  if (status !== 202) throw new Error(`${path}: ${text}`);
}

async function until(daemon: DaemonProcess, words: RegExp): Promise<void> {
  while (!daemon.lines.some((line) => words.test(line))) await daemon.nextLine();
}

t.test('restarts on a full disk send each mail once', { skip }, async (t) => {
  const state = partition(t, 'ext4', 32 * MIB);
  await using relay = await fakeRelay();
  const env = {
    FIELDPOST_STATE_DIR: state,
    FIELDPOST_RELAY: relay.url,
    FIELDPOST_MIN_FREE: '4MiB',
  };
  const first = await startIn(t, env);
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
  // The prepared segment has room for one start: it releases the mails and is killed.
  const second = await startIn(t, env);
  const released = call(second, 'queue/release', {});
  await Promise.race([released, relay.arrived(1)]);
  await second.end('SIGKILL');
  await released.catch(() => undefined);
  for (let start = 0; start < 5; start++) {
    const daemon = await startIn(t, env);
    await until(daemon, /sending waits/);
    await daemon.end('SIGKILL');
  }
  rmSync(filler, { recursive: true });
  const last = await startIn(t, env);
  await relay.arrived(MAILS);
  await last.end('SIGTERM');
  const subjects = relay.mails.map(({ content }) => /^Subject: (\S+)/m.exec(String(content))?.[1]);
  // The mail under way at the kill may arrive twice.
  t.same(
    [...new Set(subjects)].sort(),
    mails.map(({ subject }) => subject),
  );
  t.ok(subjects.length <= MAILS + 1, subjects.join(' '));
});
