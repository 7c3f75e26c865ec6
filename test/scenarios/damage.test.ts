/**
 * The built program on a damaged state directory: it starts, reports the damage, keeps a copy of the damaged files, and
 * has every other message.
 */
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { crc32, hex8 } from '../../src/base/crc.js';
import { EMAIL } from '../support/api.js';
import { type DaemonProcess, needsProgram, startIn } from '../support/daemon.js';
import { fakeRelay } from '../support/relay.js';

const BLOCK_BYTES = 4096;

const run = (t: Test, directory: string) => startIn(t, { FIELDPOST_STATE_DIR: directory });

async function post({ api }: DaemonProcess, subject: string, plain = ''): Promise<string> {
  const { status, json } = await api('messages', [{ ...EMAIL, subject, plain }]);
  t.equal(status, 202);
  return json[0].id;
}

/** The ids of all messages, the newest first. */
async function list({ api }: DaemonProcess): Promise<string[]> {
  const { messages } = (await api('messages?limit=1000')).json;
  return messages.map(({ id }: { id: string }) => id);
}

/** The segment written last. */
function newestSegment(directory: string): string {
  const journal = join(directory, 'journal');
  const written = readdirSync(journal)
    .sort()
    .filter((name) => readFileSync(join(journal, name)).includes('accepted'));
  return join(journal, written.at(-1) as string);
}

function syncedBytes(directory: string): number {
  const path = join(directory, 'synced');
  return existsSync(path) ? Number(/"synced":(\d+)/.exec(readFileSync(path, 'latin1'))?.[1] ?? 0) : 0;
}

t.test('a bad block in the journal, a directory and a pipe instead of files', needsProgram, async (t) => {
  const directory = join(t.testdir(), 'state');
  const before = await run(t, directory);
  const ids: string[] = [];
  for (let n = 0; n < 12; n++) ids.push(await post(before, `mail ${n}`, 'x'.repeat(500)));
  const path = newestSegment(directory);
  // The file `synced` has the journal's synced length within a second.
  const endBytes = readFileSync(path).lastIndexOf('\n') + 1;
  while (syncedBytes(directory) < endBytes) await pause(20);
  await before.end('SIGKILL');
  const bytes = readFileSync(path);
  bytes.fill(0xa5, 0, BLOCK_BYTES);
  writeFileSync(path, bytes);
  mkdirSync(join(directory, 'store.json', 'inside'), { recursive: true });
  execFileSync('mkfifo', [join(directory, 'journal', '00000099.log')]);

  const after = await run(t, directory);
  t.ok((await after.api('state')).json.storage.damaged > 0, 'the state counts the damage');
  t.match(after.lines.join('\n'), /store damaged .*copies=/, 'the log reports it');
  t.match(after.lines.join('\n'), /put aside/);
  const block = bytes.subarray(0, BLOCK_BYTES);
  const copies = readdirSync(join(directory, 'damaged'));
  t.ok(
    copies.some((name) => readFileSync(join(directory, 'damaged', name)).includes(block)),
    'a copy of the unreadable block is kept',
  );
  t.match(after.run('status').stdout, /damaged/);
  t.equal((await list(after))[0], ids.at(-1), 'a message behind the block is there');
  const id = await post(after, 'one more');
  await after.end('SIGKILL');
  const again = await run(t, directory);
  t.ok((await list(again)).includes(id), 'a message accepted after the damage lasts');
  t.equal(await again.end('SIGTERM'), 0);
});

t.test('a link in the place of the spool', needsProgram, async (t) => {
  const root = t.testdir({ elsewhere: {}, 'a.txt': 'text', state: {} });
  const [directory, elsewhere] = [join(root, 'state'), join(root, 'elsewhere')];
  const send = (daemon: DaemonProcess) =>
    daemon.run(
      'send',
      '--to',
      'john@example.com',
      '--subject',
      'x',
      '--attach',
      join(root, 'a.txt'),
      '--json',
    );
  chmodSync(elsewhere, 0o777);
  symlinkSync(elsewhere, join(directory, 'spool'));
  const before = await run(t, directory);
  t.match(before.lines.join('\n'), ' warn  put aside name=spool as=spool.aside');
  const sent = send(before);
  t.equal(sent.status, 0, sent.stderr);
  await before.end('SIGKILL');
  t.same(readdirSync(elsewhere), [], 'nothing is written there');

  // A person moves the spool of a device on which a mail waits.
  renameSync(join(directory, 'spool'), join(root, 'larger'));
  symlinkSync(join(root, 'larger'), join(directory, 'spool'));
  await using relay = await fakeRelay();
  const after = await startIn(t, {
    FIELDPOST_STATE_DIR: directory,
    FIELDPOST_RELAY: `smtp://127.0.0.1:${relay.port}?tls=never`,
  });
  t.match(after.lines.join('\n'), ' warn  link followed name=spool');
  const [{ id }] = JSON.parse(sent.stdout);
  t.equal((await after.api(`messages/${id}?wait=30`)).json.status, 'sent', 'its mail is not lost');
  await after.end('SIGTERM');
  t.same(readdirSync(join(root, 'larger')), [], 'the queue is drained');
  const later = await run(t, directory);
  t.match(later.lines.join('\n'), ' warn  link followed name=spool', 'the spool stays on the larger disk');
});

/** Rewrites the records of the newest segment: each payload keeps its length, and its checksum is right. */
function forgeRecords(directory: string, change: (payload: string) => string | null): void {
  const path = newestSegment(directory);
  const bytes = readFileSync(path);
  for (let from = 0; bytes[from] !== 0; ) {
    const end = bytes.indexOf(0x0a, from);
    const payload = bytes.subarray(from + 9, end);
    const forged = change(payload.toString());
    if (forged !== null) {
      payload.fill(forged.padEnd(payload.length));
      bytes.write(hex8(crc32(payload, Number.parseInt(basename(path), 10))), from);
    }
    from = end + 1;
  }
  writeFileSync(path, bytes);
}

/** Rewrites the newest snapshot, with a right checksum. */
function forgeSnapshot(directory: string, change: (text: string) => string): void {
  const path = join(directory, 'store.json');
  const text = readFileSync(path, 'utf8');
  const summed = change(text).slice('{"crc":"xxxxxxxx",'.length);
  if (summed === text.slice('{"crc":"xxxxxxxx",'.length)) throw new Error('nothing is forged');
  writeFileSync(path, `{"crc":"${hex8(crc32(Buffer.from(summed)))}",${summed}`);
}

const RECORDS: Readonly<Record<string, string>> = {
  'no object': '7',
  'events that are no list': '{"synced":0,"events":null}',
  'an event without its members': '{"synced":0,"events":[{"e":"accepted"}]}',
  'a message that is none': '{"contents":[{}],"synced":0,"events":[{"e":"accepted","messages":[{"a":1}]}]}',
};

for (const [what, forged] of Object.entries(RECORDS)) {
  t.test(`a record with a right checksum and another shape: ${what}`, needsProgram, async (t) => {
    const directory = join(t.testdir(), 'state');
    const before = await run(t, directory);
    const ids: string[] = [];
    for (const name of ['one', 'two', 'three']) ids.push(await post(before, name));
    await before.end('SIGKILL');
    forgeRecords(directory, (payload) => (payload.includes(ids[1] as string) ? forged : null));
    const after = await run(t, directory);
    t.equal((await after.api('state')).json.storage.damaged, 1, 'the state counts it');
    t.match(after.lines.join('\n'), /store damaged pieces=1 .*copies=/, 'the log reports it');
    const copies = readdirSync(join(directory, 'damaged'));
    t.ok(
      copies.some((name) => readFileSync(join(directory, 'damaged', name), 'utf8').includes(` ${forged} `)),
      'a copy is kept',
    );
    t.same(await list(after), [ids[2], ids[0]], 'the others are there');
    t.equal(await after.end('SIGTERM'), 0);
  });
}

const SNAPSHOTS: Readonly<Record<string, (text: string) => string>> = {
  'without its address book': (text) => text.replace(/"book":\{.*?"attempted":\[\]\},/, ''),
  'with an address book of another shape': (text) => text.replace('"nextId":2', '"nextId":"2"'),
  'with a message that is none': (text) => text.replace(/\[("[0-9A-Z]{15}",[^\]]*"two"[^\]]*)\]/, '{"a":1}'),
  'with a message that stands twice': (text) =>
    text.replace(/\[("[0-9A-Z]{15}",[^\]]*"two"[^\]]*)\]/, '[$1],[$1]'),
  'with a key that is none': (text) => text.replace('"keys":[', '"keys":[{},'),
};

for (const [what, change] of Object.entries(SNAPSHOTS)) {
  t.test(`a snapshot ${what}, with a right checksum`, needsProgram, async (t) => {
    const directory = join(t.testdir(), 'state');
    const before = await run(t, directory);
    const destination = { type: 1, destination: 'a@example.com', lang: 'en', name: 'A' };
    t.equal((await before.api('offline_notification_destinations', destination)).status, 201);
    const names = ['one', 'two', 'three'];
    for (const name of names) await post(before, name, `the text of ${name}`);
    t.equal(await before.end('SIGTERM'), 0);
    forgeSnapshot(directory, change);
    await using relay = await fakeRelay();
    const arrived = relay.arrived(names.length);
    const settings = {
      FIELDPOST_STATE_DIR: directory,
      FIELDPOST_RELAY: `smtp://127.0.0.1:${relay.port}?tls=never`,
    };
    const after = await startIn(t, settings);
    t.equal((await after.api('state')).json.storage.damaged, 1, 'the state counts it');
    t.match(after.lines.join('\n'), /store damaged pieces=1 /, 'the log reports it');
    t.match(
      (await after.api('offline_notification_destinations')).json,
      [destination],
      'the address book is there',
    );
    await arrived;
    await after.end('SIGTERM');
    const again = await startIn(t, settings);
    t.match((await again.api('state')).json.queue, { queued: 0, deferred: 0, failed: 0 });
    await again.end('SIGTERM');
    const texts = relay.mails.map(({ content }) => /^the text of (\w+)/m.exec(String(content))?.[1]);
    t.same(texts.sort(), [...names].sort(), 'each mail arrives once');
  });
}

for (const [how, cut] of Object.entries({
  'zeros in their place': (bytes: Buffer, at: number) => bytes.fill(0, at),
  'the file ends before them': (bytes: Buffer, at: number) => bytes.subarray(0, at),
})) {
  t.test(`the outcomes at the end of the journal are gone: ${how}`, needsProgram, async (t) => {
    const directory = join(t.testdir(), 'state');
    const before = await run(t, directory);
    for (let n = 0; n < 30; n++) await post(before, `mail ${n}`);
    await before.end('SIGKILL');
    const path = newestSegment(directory);
    const accepted = readFileSync(path).lastIndexOf('\n') + 1;
    await using relay = await fakeRelay();
    const settings = { FIELDPOST_STATE_DIR: directory, FIELDPOST_RELAY: relay.url };
    const sending = await startIn(t, settings);
    await relay.arrived(30);
    while ((await sending.api('messages?status=sent&limit=100')).json.messages.length < 30) await pause(20);
    while (syncedBytes(directory) <= accepted) await pause(20);
    await sending.end('SIGKILL');
    writeFileSync(path, cut(readFileSync(path), accepted));

    const after = await startIn(t, settings);
    t.match(after.lines.join('\n'), /store damaged pieces=1 heldBack=(?:29|30) /);
    const { messages } = (await after.api('messages?limit=1000')).json;
    t.ok(messages.every(({ status }: { status: string }) => ['failed', 'sent'].includes(status)));
    t.equal(messages[0].lastReply, 'outcome unknown after storage damage');
    const id = await post(after, 'a new one');
    t.equal((await after.api(`messages/${id}?wait=30`)).json.status, 'sent');
    t.equal(relay.mails.length, 31, 'none of the thirty arrives twice');
    t.equal(after.run('queue', 'retry', messages[0].id).status, 0);
    t.equal(
      (await after.api(`messages/${messages[0].id}?wait=30`)).json.status,
      'sent',
      'a person may decide',
    );
    await after.end('SIGTERM');
  });
}

for (const [what, make] of Object.entries({
  'a directory': (path: string) => mkdirSync(path),
  'a pipe': (path: string) => execFileSync('mkfifo', [path]),
  'a link to itself': (path: string) => symlinkSync(path, path),
})) {
  t.test(`${what} in the place of a file in the spool`, needsProgram, async (t) => {
    const root = t.testdir({ 'a.txt': 'text' });
    const directory = join(root, 'state');
    const before = await run(t, directory);
    const sent = before.run(
      'send',
      '--to',
      'a@example.com',
      '--subject',
      'x',
      '--attach',
      join(root, 'a.txt'),
      '--json',
    );
    const [{ id }] = JSON.parse(sent.stdout);
    await before.end('SIGKILL');
    for (const name of readdirSync(join(directory, 'spool'))) {
      renameSync(join(directory, 'spool', name), join(root, 'moved'));
      make(join(directory, 'spool', name));
    }
    await using relay = await fakeRelay();
    const after = await startIn(t, { FIELDPOST_STATE_DIR: directory, FIELDPOST_RELAY: relay.url });
    t.match((await after.api(`messages/${id}?wait=30`)).json, {
      status: 'failed',
      lastReply: 'storage damaged',
    });
    await after.end('SIGTERM');
  });
}

t.test('a segment that is damaged while the daemon runs', needsProgram, async (t) => {
  const directory = join(t.testdir(), 'state');
  await using relay = await fakeRelay();
  const daemon = await startIn(t, { FIELDPOST_STATE_DIR: directory, FIELDPOST_RELAY: relay.url });
  await daemon.api('queue/hold', {});
  const ids = [await post(daemon, 'one', 'the first text'), await post(daemon, 'two', 'the second text')];
  const path = newestSegment(directory);
  const bytes = readFileSync(path);
  bytes.write('???', bytes.indexOf('the second text'));
  writeFileSync(path, bytes);
  await daemon.api('queue/release', {});
  const states = [];
  for (const id of ids) states.push((await daemon.api(`messages/${id}?wait=30`)).json);
  t.match(states, [{ status: 'sent' }, { status: 'failed', lastReply: 'storage damaged' }]);
  t.equal((await daemon.api('state')).json.storage.damaged, 1, 'the state counts it');
  t.match(daemon.lines.join('\n'), / error store damaged pieces=1 /, 'the log reports it');
  const copies = readdirSync(join(directory, 'damaged'));
  t.match(
    copies.map((name) => readFileSync(join(directory, 'damaged', name), 'utf8')).join(),
    '??? second text',
  );
  await daemon.end('SIGTERM');
});
