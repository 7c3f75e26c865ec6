/** The built daemon and cloud log wrong tokens and keys once an hour, and the rest when they stop. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { ask } from '../support/ask.js';
import { needsProgram, startIn } from '../support/daemon.js';

for (const [command, key, text, path, event] of [
  ['run', 'FIELDPOST_API_TOKEN_FILE', 'right', '/api/internal/messages', 'wrong tokens'],
  [
    'cloud',
    'FIELDPOST_CLOUD_SERVER_KEYS_FILE',
    'pump-3 right\n',
    '/devices/pump-3/destinations',
    'wrong keys',
  ],
] as const)
  t.test(`fieldpost ${command}: 30 guesses make two lines`, needsProgram, async (t) => {
    const directory = t.testdir();
    const file = join(directory, 'secret');
    writeFileSync(file, text);
    const daemon = await startIn(t, { FIELDPOST_STATE_DIR: join(directory, 'state'), [key]: file }, [
      command,
    ]);
    const url = `http://127.0.0.1:${daemon.port}${path}`;
    for (let n = 0; n < 30; n++)
      t.equal(
        (await ask(url, 'GET', { headers: { Authorization: `Bearer not-that-one-${n}` } })).status,
        401,
      );
    t.equal(await daemon.end('SIGTERM'), 0);
    const lines = daemon.lines.filter((line) => /wrong (?:tokens|keys)/.test(line));
    t.match(lines, [
      `${event} count=1 peer=127.0.0.1 path=${path}`,
      `${event} count=29 peer=127.0.0.1 path=${path}`,
    ]);
    t.notMatch(daemon.lines.join(), /not-that-one/);
  });
