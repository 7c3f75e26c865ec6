/** A start on a disk that fails to read for a moment, which strace plays: every message is there, and goes out once. */
import { join } from 'node:path';
import t from 'tap';
import { fakeRelay } from '../support/relay.js';
import { sharedDirectory, skipWithout, startFieldpost } from './peers.js';

const skip = skipWithout('/usr/bin/strace');

/** Runs a program whose first reads of this file fail. With one thread for the disk, strace counts them all; it is the child (-D). */
const failing = (path: string) => [
  ...[
    '/usr/bin/env',
    'UV_THREADPOOL_SIZE=1',
    '/usr/bin/strace',
    '-D',
    '-f',
    '-qq',
    '-o',
    '/dev/null',
    '-P',
    path,
  ],
  ...['-e', 'trace=pread64', '-e', 'inject=pread64:error=EIO:when=1..8', '--'],
];

for (const name of ['store.json', 'journal/00000001.log']) {
  t.test(name, { skip }, async (t) => {
    const state = join(sharedDirectory(t), 'state');
    await using relay = await fakeRelay();
    const before = await startFieldpost(t, { FIELDPOST_STATE_DIR: state });
    for (const subject of ['first', 'second']) {
      await before.post({ destination: 'john@example.com', subject, plain: 'It is queued.' });
    }
    t.equal(await before.stop(), 0);
    const env = {
      FIELDPOST_STATE_DIR: state,
      FIELDPOST_RELAY: relay.url,
    };
    const after = await startFieldpost(t, env, failing(join(state, name)));
    t.match(after.lines.join('\n'), /read failed reason="EIO/);
    t.notMatch(after.lines.join('\n'), /damaged/);
    await relay.arrived(2);
    t.equal((await after.state()).queue.failed, 0);
  });
}
