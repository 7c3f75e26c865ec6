/** strace makes the first reads after a start fail: no message is lost, and each is sent once. */
import { join } from 'node:path';
import t from 'tap';
import { fakeRelay } from '../support/relay.js';
import { MAIL, sharedDirectory, skipWithout, startFieldpost } from './peers.js';

const skip = skipWithout('/usr/bin/strace');

/** Runs a program whose first reads of this file fail. One disk thread lets strace count them all; -D makes strace the child. */
const failing = (path: string) => [
  ...'/usr/bin/env UV_THREADPOOL_SIZE=1 /usr/bin/strace -D -f -qq -o /dev/null'.split(' '),
  ...['-P', path, '-e', 'trace=pread64', '-e', 'inject=pread64:error=EIO:when=1..8', '--'],
];

for (const name of ['store.json', 'journal/00000001.log']) {
  t.test(`${name} cannot be read for a moment`, { skip }, async (t) => {
    const state = join(sharedDirectory(t), 'state');
    await using relay = await fakeRelay();
    const before = await startFieldpost(t, { FIELDPOST_STATE_DIR: state });
    for (let n = 0; n < 2; n++) await before.post(MAIL);
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

t.test('a lock whose inode the kernel cannot load', { skip }, async (t) => {
  const state = join(sharedDirectory(t), 'state');
  for (const code of ['EBADMSG', 'EUCLEAN']) {
    const before = await startFieldpost(t, { FIELDPOST_STATE_DIR: state });
    await before.end('SIGKILL');
    const inject = ['-e', 'trace=connect', '-e', `inject=connect:error=${code}:when=1..2`, '--'];
    const strace = '/usr/bin/env /usr/bin/strace -D -f -qq -o /dev/null'.split(' ');
    const after = await startFieldpost(t, { FIELDPOST_STATE_DIR: state }, [...strace, ...inject]);
    t.equal(await after.end('SIGKILL'), null, code);
  }
});
