/** A mail is posted, delivered and purged: then no file of the state directory tells what it said. */
import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { isBuilt, MAIN, startDaemon } from '../support/daemon.js';
import { fakeRelay } from '../support/relay.js';

const SECRET = 'the code of the gate is 4711';
const KEPT = 'this one waits';

/** The files that hold the words. */
async function filesWith(directory: string, words: string): Promise<string[]> {
  const found: string[] = [];
  for (const entry of await readdir(directory, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    if ((await readFile(path)).includes(words)) found.push(path);
  }
  return found;
}

t.test('purge', { skip: isBuilt ? false : 'the program is not built' }, async (t) => {
  await using relay = await fakeRelay();
  const directory = t.testdir();
  const env = {
    FIELDPOST_STATE_DIR: directory,
    FIELDPOST_RELAY: `smtp://127.0.0.1:${relay.port}?tls=never`,
  };
  let daemon = await startDaemon(env);
  t.teardown(() => daemon.child.kill('SIGKILL'));
  const call = async (path: string, body?: object) => {
    const json = { headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) };
    const url = `http://127.0.0.1:${daemon.port}/api/internal/${path}`;
    return (await fetch(url, { method: 'POST', ...(body && json) })).status;
  };
  const mail = (subject: string) => [{ type: 1, destination: 'john@example.com', subject, plain: subject }];
  t.equal(await call('messages', mail(SECRET)), 202);
  await relay.arrived(1);
  t.equal(await call('queue/hold'), 202);
  t.equal(await call('messages', mail(KEPT)), 202);
  t.not((await filesWith(directory, SECRET)).length, 0, 'what was sent is still there');

  const purge = () =>
    promisify(execFile)(MAIN, ['purge'], {
      env: { PATH: process.env.PATH, FIELDPOST_LISTEN: `127.0.0.1:${daemon.port}` },
    });
  // The relay has the mail a moment before the daemon knows it.
  for (;;) {
    const state = await fetch(`http://127.0.0.1:${daemon.port}/api/internal/messages?status=sent`);
    if (((await state.json()) as { messages: unknown[] }).messages.length === 1) break;
  }
  t.match(await purge(), { stdout: /overwritten/ });
  t.same(await filesWith(directory, SECRET), [], 'and now is not');
  t.not((await filesWith(directory, KEPT)).length, 0);
  t.ok(daemon.lines.some((line) => /purged .*by="?uid \d+/.test(line)));

  await daemon.end('SIGKILL');
  daemon = await startDaemon(env);
  t.equal(await call('queue/release'), 202);
  await relay.arrived(2);
  t.match(String(relay.mails[1]?.content), KEPT, 'what waited is delivered');
  t.equal(await daemon.end('SIGTERM'), 0);
  t.same(await filesWith(directory, SECRET), []);
});
