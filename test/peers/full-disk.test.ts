/** Starts on a full disk still send the queued mails. None is sent twice because its outcome found no room. */
import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { MIB } from '../../src/base/limits.js';
import { type FakeRelay, fakeRelay } from '../support/relay.js';
import { fill, partition } from './partition.js';
import { MAIL, skipWithout, startFieldpost } from './peers.js';

const skip = skipWithout('/usr/sbin/mkfs.xfs', '/usr/sbin/mkfs.ext4');

const subjectsOf = ({ mails }: FakeRelay) =>
  mails.map(({ content }) => /^Subject: (.*)\r$/m.exec(content.toString())?.[1]).sort();

const DISKS: Readonly<Record<string, (t: Test) => string>> = {
  'tmpfs without inodes': (t) => partition(t, 'tmpfs', 32 * MIB, 300),
  'xfs without blocks': (t) => partition(t, 'xfs', 320 * MIB),
};

for (const [name, mountDisk] of Object.entries(DISKS)) {
  t.test(name, { skip }, async (t) => {
    const disk = mountDisk(t);
    const state = join(disk, 'state');
    await using relay = await fakeRelay();
    const withoutRelay = { FIELDPOST_STATE_DIR: state, FIELDPOST_MIN_FREE: '4MiB' };
    const env = { ...withoutRelay, FIELDPOST_RELAY: relay.url };
    const before = await startFieldpost(t, withoutRelay);
    for (const subject of ['first', 'second']) await before.post({ ...MAIL, subject });
    t.equal(await before.stop(), 0);
    t.notOk(readdirSync(state).includes('lock'));
    fill(join(disk, 'junk'), true);
    const first = await startFieldpost(t, env);
    t.ok(
      first.lines.some((line) => line.includes('lock not on disk')),
      'the log says that the lock found no room',
    );
    await relay.arrived(2);
    t.equal(await first.stop(), 0);
    const second = await startFieldpost(t, env);
    const { queued, deferred } = (await second.state()).queue;
    t.same({ queued, deferred }, { queued: 0, deferred: 0 }, 'the outcomes were recorded');
    t.equal(await second.stop(), 0);
    t.same(subjectsOf(relay), ['first', 'second']);
  });
}

t.test('restarts on an ext4 without a free block send each mail once', { skip }, async (t) => {
  const state = partition(t, 'ext4', 32 * MIB);
  await using relay = await fakeRelay();
  const env = { FIELDPOST_STATE_DIR: state, FIELDPOST_RELAY: relay.url, FIELDPOST_MIN_FREE: '4MiB' };
  const subjects = ['a', 'b', 'c', 'd', 'e'];
  const first = await startFieldpost(t, env);
  await first.api('queue/hold', {});
  const ids = await first.post(...subjects.map((subject) => ({ ...MAIL, subject })));
  await first.end('SIGKILL');
  const filler = join(state, 'filler');
  fill(filler);
  // It releases the mails and is killed.
  const second = await startFieldpost(t, env);
  const released = second.api('queue/release', {});
  await Promise.race([released, relay.arrived(1)]);
  await second.end('SIGKILL');
  await released.catch(() => undefined);
  for (let start = 0; start < 5; start++) {
    // It goes on in the last segment, so it has room for outcomes.
    const daemon = await startFieldpost(t, env);
    for (const id of ids) t.equal((await daemon.api(`messages/${id}?wait=30`)).json.status, 'sent');
    await daemon.end('SIGKILL');
  }
  rmSync(filler, { recursive: true });
  const last = await startFieldpost(t, env);
  await relay.arrived(subjects.length);
  t.equal(await last.stop(), 0);
  const arrived = subjectsOf(relay);
  t.same([...new Set(arrived)], subjects);
  t.ok(arrived.length <= subjects.length + 1, 'only the mail in progress at the kill may arrive twice');
});
