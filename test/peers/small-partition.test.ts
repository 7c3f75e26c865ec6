/** A partition smaller than what must stay free on it by default: it is told wherever somebody may look, and how to mend it. */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { EMAIL, MESSAGES } from '../support/api.js';
import { type DaemonProcess, MAIN, startDaemon } from '../support/daemon.js';
import { sharedDirectory, skipWithout } from '../support/peers.js';

const skip = skipWithout('/usr/sbin/mkfs.ext4');

function run(program: string, ...args: readonly string[]): void {
  execFileSync(program, args, { stdio: ['ignore', 'ignore', 'inherit'] });
}

const post = ({ port }: DaemonProcess) =>
  fetch(`http://127.0.0.1:${port}${MESSAGES}`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify([EMAIL]),
  });

t.test('an ext4 of 16 MiB', { skip }, async (t) => {
  const scratch = sharedDirectory(t);
  const [image, disk] = [join(scratch, 'image'), join(scratch, 'disk')];
  mkdirSync(disk);
  writeFileSync(image, '');
  truncateSync(image, 16 * 2 ** 20);
  run('mkfs.ext4', '-q', '-m', '0', image);
  run('mount', '-o', 'loop', image, disk);
  t.teardown(() => run('umount', '--lazy', disk));
  const env = {
    PATH: process.env.PATH,
    FIELDPOST_STATE_DIR: join(disk, 'state'),
    FIELDPOST_FROM: 'device@field.example',
    FIELDPOST_RELAY: 'smtp://127.0.0.1:1?tls=never',
  };
  const warning = /1\d MiB in all, but 16 MiB must stay free .*: lower FIELDPOST_MIN_FREE/;
  const check = (more = {}) =>
    spawnSync(MAIN, ['check'], { env: { ...env, ...more }, encoding: 'utf8', timeout: 60_000 });
  t.match(check(), { status: 0, stderr: warning }, 'before the state directory is there');
  const refusing = await startDaemon(env as Record<string, string>);
  t.teardown(() => refusing.child.kill('SIGKILL'));
  t.match(
    refusing.lines.filter((line) => / warn +configuration /.test(line)),
    [warning],
  );
  t.equal((await post(refusing)).status, 507);
  const state = await fetch(`http://127.0.0.1:${refusing.port}/api/internal/state`);
  t.match(await state.json(), {
    storage: {
      state: 'full',
      reason: /1\d MiB in all, and 16 MiB must stay free \(FIELDPOST_MIN_FREE\)/,
    },
  });
  t.equal(await refusing.end('SIGTERM'), 0);

  const lower = { FIELDPOST_MIN_FREE: '4MiB' };
  t.match(check(lower), { status: 0, stderr: '' });
  const accepting = await startDaemon({ ...(env as Record<string, string>), ...lower });
  t.teardown(() => accepting.child.kill('SIGKILL'));
  t.equal((await post(accepting)).status, 202);
  t.notOk(accepting.lines.some((line) => line.includes(' configuration ')));
  t.equal(await accepting.end('SIGTERM'), 0);
});
