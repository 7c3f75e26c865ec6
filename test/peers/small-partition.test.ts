/** A partition smaller than the default FIELDPOST_MIN_FREE: check, log and state say so, and name the setting. */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import t from 'tap';
import { MIB } from '../../src/base/limits.js';
import { EMAIL } from '../support/api.js';
import { type DaemonProcess, MAIN, startIn } from '../support/daemon.js';
import { partition } from './partition.js';
import { skipWithout } from './peers.js';

const skip = skipWithout('/usr/sbin/mkfs.ext4');

const post = ({ api }: DaemonProcess) => api('messages', [EMAIL]);

t.test('an ext4 of 16 MiB needs a lower FIELDPOST_MIN_FREE', { skip }, async (t) => {
  const disk = partition(t, 'ext4', 16 * MIB);
  const env = {
    PATH: process.env.PATH,
    FIELDPOST_STATE_DIR: join(disk, 'state'),
    FIELDPOST_FROM: 'device@field.example',
    FIELDPOST_RELAY: 'smtp://127.0.0.1:1?tls=never',
  };
  const warning = /1\d MiB in all, but 16 MiB must stay free .*: lower FIELDPOST_MIN_FREE/;
  const check = (more = {}) =>
    spawnSync(MAIN, ['check'], { env: { ...env, ...more }, encoding: 'utf8', timeout: 60_000 });
  t.match(check(), { status: 0, stderr: warning }, 'check warns before the state directory exists');
  const refusing = await startIn(t, env as Record<string, string>);
  t.match(
    refusing.lines.filter((line) => / warn +configuration /.test(line)),
    [warning],
  );
  t.equal((await post(refusing)).status, 507);
  t.match((await refusing.api('state')).json, {
    storage: {
      state: 'full',
      reason: /1\d MiB in all, and 16 MiB must stay free \(FIELDPOST_MIN_FREE\)/,
    },
  });
  t.equal(await refusing.end('SIGTERM'), 0);

  const lower = { FIELDPOST_MIN_FREE: '4MiB' };
  t.match(check(lower), { status: 0, stderr: '' });
  const accepting = await startIn(t, { ...(env as Record<string, string>), ...lower });
  t.equal((await post(accepting)).status, 202);
  t.notOk(accepting.lines.some((line) => line.includes(' configuration ')));
  t.equal(await accepting.end('SIGTERM'), 0);
});
