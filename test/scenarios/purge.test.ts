/** After a purge no file of the state directory holds the text of a delivered mail, and damage costs no more than before. */
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { needsProgram, startIn } from '../support/daemon.js';
import { fakeRelay } from '../support/relay.js';

const SECRET = 'the code of the gate is 4711';
const KEPT = 'this one waits';
const FILLER = 'All is well at the pump. '.repeat(40);

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

/** Changes one bit of a file where the words begin. */
async function flipBit(path: string, words: string): Promise<void> {
  const bytes = await readFile(path);
  const at = bytes.indexOf(words);
  bytes[at] = (bytes[at] as number) ^ 1;
  await writeFile(path, bytes);
}

/** A device with waiting mails that was purged a while ago, and killed. */
async function purgedAndKilled(t: Test, env: { readonly FIELDPOST_STATE_DIR: string }): Promise<string[]> {
  const directory = env.FIELDPOST_STATE_DIR;
  const daemon = await startIn(t, env);
  t.equal((await daemon.api('queue/hold', undefined, 'POST')).status, 202);
  const ids: string[] = [];
  for (let n = 0; n < 3; n++) {
    const mails = Array.from({ length: 100 }, (_, i) => ({
      ...{ type: 1, destination: 'john@example.com', subject: 'waiting', plain: `mail ${n}-${i}. ${FILLER}` },
    }));
    const { status, json } = await daemon.api('messages', mails);
    t.equal(status, 202);
    ids.push(...json.map(({ id }: { id: string }) => id));
  }
  t.match(daemon.run('purge'), { stdout: /overwritten/ });
  // The file `synced` names the new segment within a second.
  const newest = Math.max(
    ...(await filesWith(directory, '"relocated"')).map((path) => Number.parseInt(basename(path), 10)),
  );
  const synced = () => readFile(join(directory, 'synced'), 'latin1').catch(() => '');
  while (!(await synced()).includes(`"segment":${newest},`)) await pause(20);
  await daemon.end('SIGKILL');
  return ids;
}

t.test('after a purge one flipped bit costs one mail', needsProgram, async (t) => {
  await using relay = await fakeRelay();
  const directory = t.testdir();
  const env = { FIELDPOST_STATE_DIR: directory, FIELDPOST_RELAY: relay.url };
  const ids = await purgedAndKilled(t, env);
  const [path = ''] = await filesWith(directory, 'mail 1-50.');
  await flipBit(path, 'mail 1-50.');

  const daemon = await startIn(t, env);
  t.equal((await daemon.api('queue/release', undefined, 'POST')).status, 202);
  const waiting = async () => {
    const { queued, sending, deferred } = (await daemon.api('state')).json.queue;
    return queued + sending + deferred;
  };
  while ((await waiting()) > 0) await pause(20);
  const { messages } = (await daemon.api('messages?status=failed')).json;
  t.match(messages, [{ id: ids[150], lastReply: /storage damaged/ }]);
  t.equal(messages.length, 1);
  t.equal(relay.mails.length, ids.length - 1);
  t.equal(await daemon.end('SIGTERM'), 0);
});

t.test('after a purge both snapshots may be damaged', needsProgram, async (t) => {
  const directory = t.testdir();
  const env = { FIELDPOST_STATE_DIR: directory };
  const ids = await purgedAndKilled(t, env);
  for (const name of ['store.json', 'store.json.1']) await flipBit(join(directory, name), 'waiting');

  const daemon = await startIn(t, env);
  const counts: Record<string, number> = {};
  for (const id of ids) {
    const { status, json } = await daemon.api(`messages/${id}`);
    const what = status === 200 ? `${json.status}: ${json.lastReply}` : String(status);
    counts[what] = (counts[what] ?? 0) + 1;
  }
  t.same(counts, { 'failed: outcome unknown after storage damage': ids.length });
  t.equal(await daemon.end('SIGTERM'), 0);
});
