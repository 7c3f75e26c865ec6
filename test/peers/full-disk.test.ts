/** A start on a full disk still sends the queued mails, each once. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { MIB } from '../../src/limits.js';
import { fakeRelay } from '../support/relay.js';
import { fill, partition } from './partition.js';
import { MAIL, skipWithout, startFieldpost } from './peers.js';

const skip = skipWithout('/usr/sbin/mkfs.xfs');

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
    const subjects = relay.mails.map(({ content }) => /^Subject: (.*)\r$/m.exec(content.toString())?.[1]);
    t.same(subjects.sort(), ['first', 'second']);
  });
}
