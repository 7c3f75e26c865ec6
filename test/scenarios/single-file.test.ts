/** The program is one file with the four packages in it, and works in a directory without any other. */
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import PostalMime from 'postal-mime';
import t from 'tap';
import { MAIN, startIn } from '../support/daemon.js';
import { fakeRelay } from '../support/relay.js';

// Outside of the tree, where no node_modules is found.
const directory = mkdtempSync(`${tmpdir()}/fieldpost-single-`);
t.teardown(() => rmSync(directory, { recursive: true, force: true }));
const program = `${directory}/fieldpost.cjs`;
copyFileSync(MAIN, program);

t.test('the single file accepts a mail with an attachment and delivers it', async (t) => {
  await using relay = await fakeRelay();
  const env = {
    FIELDPOST_STATE_DIR: `${directory}/state`,
    FIELDPOST_RELAY: relay.url,
  };
  const daemon = await startIn(t, env, ['run'], [], program);
  const form = new FormData();
  form.set('destination', 'john@example.com');
  form.set('subject', 'Hello');
  form.set('file', new Blob(['some content']), 'a.txt');
  const messages = `http://127.0.0.1:${daemon.port}/api/internal/messages`;
  t.equal((await fetch(messages, { method: 'POST', body: form })).status, 202);
  await relay.arrived(1);
  const mail = await PostalMime.parse(relay.mails[0]?.content ?? '');
  t.equal(mail.subject, 'Hello');
  t.equal(new TextDecoder().decode(mail.attachments[0]?.content as ArrayBuffer), 'some content');
  const described = await fetch(`http://127.0.0.1:${daemon.port}/openapi.json`);
  t.equal(described.status, 200, 'it holds what the daemon loads late, too');
  t.equal(await daemon.end('SIGTERM'), 0);
});
