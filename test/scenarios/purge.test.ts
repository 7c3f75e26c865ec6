/** After a purge no file of the state directory holds the text of a delivered mail. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { needsProgram, startIn } from '../support/daemon.js';
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

t.test('a purge overwrites what was sent, and keeps what waits', needsProgram, async (t) => {
  await using relay = await fakeRelay();
  const directory = t.testdir();
  const env = {
    FIELDPOST_STATE_DIR: directory,
    FIELDPOST_RELAY: relay.url,
  };
  let daemon = await startIn(t, env);
  const post = async (path: string, body?: object) => (await daemon.api(path, body, 'POST')).status;
  const mail = (subject: string) => [{ type: 1, destination: 'john@example.com', subject, plain: subject }];
  t.equal(await post('messages', mail(SECRET)), 202);
  await relay.arrived(1);
  t.equal(await post('queue/hold'), 202);
  t.equal(await post('messages', mail(KEPT)), 202);
  t.not((await filesWith(directory, SECRET)).length, 0, 'before the purge the text is there');

  // The relay has the mail a moment before the daemon knows it.
  while ((await daemon.api('messages?status=sent')).json.messages.length < 1);
  t.match(daemon.run('purge'), { stdout: /overwritten/ });
  t.same(await filesWith(directory, SECRET), [], 'after it no file has the text');
  t.not((await filesWith(directory, KEPT)).length, 0);
  t.ok(daemon.lines.some((line) => /purged .*by="?uid \d+/.test(line)));

  await daemon.end('SIGKILL');
  daemon = await startIn(t, env);
  t.equal(await post('queue/release'), 202);
  await relay.arrived(2);
  t.match(String(relay.mails[1]?.content), KEPT, 'the waiting mail is delivered');
  t.equal(await daemon.end('SIGTERM'), 0);
  t.same(await filesWith(directory, SECRET), []);
});
