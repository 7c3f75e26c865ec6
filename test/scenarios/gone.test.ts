/** The state directory, or a part of it, is gone under the built program: what refuses messages is what it tells. */
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { EMAIL } from '../support/api.js';
import { ask } from '../support/ask.js';
import { needsProgram, startIn } from '../support/daemon.js';

for (const [part, comesBack] of [
  ['', 'as it was'],
  ['journal', 'as it was'],
  ['spool', 'empty'],
] as const)
  t.test(`${part || 'all'} is gone, and comes back ${comesBack}`, needsProgram, async (t) => {
    const parent = t.testdir();
    const path = join(parent, 'state', part);
    const daemon = await startIn(t, { FIELDPOST_STATE_DIR: join(parent, 'state') });
    const get = (what: string) => ask(`http://127.0.0.1:${daemon.port}${what}`);
    const post = async () => (await daemon.api('messages', [EMAIL])).status;
    t.equal(await post(), 202);

    renameSync(path, join(parent, 'elsewhere'));
    // The daemon looks at its disk now; after that it refuses at once.
    t.match(await get('/healthz'), { status: 503, text: /ENOENT/ });
    for (let tries = 0; tries < 3; tries++) t.equal(await post(), 503);
    const { storage } = (await daemon.api('state')).json;
    t.match(storage, { state: 'failed', reason: /ENOENT/ });
    t.match(storage.reason, path.replace(/\/$/, ''));
    t.match((await get('/metrics')).text, /^fieldpost_storage_state{state="failed"} 1$/m);
    t.match(daemon.run('status'), {
      status: 75,
      stdout: /messages are refused: the storage is failed: .*ENOENT/,
    });

    if (part === 'spool') {
      writeFileSync(path, 'no directory');
      t.match(await get('/healthz'), { status: 503, text: /ENOTDIR/ });
      rmSync(path);
    }
    if (comesBack === 'empty') mkdirSync(path, { mode: 0o700 });
    else renameSync(join(parent, 'elsewhere'), path);
    t.equal((await get('/healthz')).status, 200);
    t.equal(await post(), 202);
    t.equal((await daemon.api('state')).json.storage.state, 'ok');
    t.equal(daemon.run('status').status, 0);
    t.equal(await daemon.end('SIGTERM'), 0);
    const told = daemon.lines.filter((line) => /storage (?:failed|ok)/.test(line));
    t.match(told, [/error storage failed reason=.*ENOENT/, /info {2}storage ok/], 'once each');
    t.equal(told.length, 2);
  });
