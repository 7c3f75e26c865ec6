/**
 * The built program on a state directory that was damaged while it was off: it starts without anybody's help, tells of
 * what is missing, keeps a copy of it, and has everything else.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { EMAIL, MESSAGES } from '../support/api.js';
import { type DaemonProcess, isBuilt, MAIN, startDaemon } from '../support/daemon.js';
import { BOUNDARY, bodyOf } from '../support/form.js';

const options = { skip: isBuilt ? false : 'the program is not built' };
const BLOCK_BYTES = 4096;

interface Listed {
  readonly id: string;
  readonly status: string;
  readonly lastReply: string | null;
}

async function run(t: Test, directory: string): Promise<DaemonProcess> {
  const daemon = await startDaemon({ FIELDPOST_STATE_DIR: directory });
  t.teardown(() => daemon.child.kill('SIGKILL'));
  return daemon;
}

async function post({ port }: DaemonProcess, subject: string, plain = ''): Promise<string> {
  const answer = await fetch(`http://127.0.0.1:${port}${MESSAGES}`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify([{ ...EMAIL, subject, plain }]),
  });
  t.equal(answer.status, 202);
  return ((await answer.json()) as [{ id: string }])[0].id;
}

async function get<T>({ port }: DaemonProcess, path: string): Promise<T> {
  return (await (await fetch(`http://127.0.0.1:${port}${path}`)).json()) as T;
}

const list = async (daemon: DaemonProcess) =>
  (await get<{ messages: Listed[] }>(daemon, `${MESSAGES}?limit=1000`)).messages;

/** The segment written last: the others are zeros from their first record on, or full. */
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

for (const [mails, plain] of [
  [5, ''],
  [12, 'x'.repeat(500)],
] as const) {
  t.test(`a bad block at the head of the newest segment, which has ${mails} mails`, options, async (t) => {
    const directory = join(t.testdir(), 'state');
    const before = await run(t, directory);
    const ids: string[] = [];
    for (let n = 0; n < mails; n++) ids.push(await post(before, `mail ${n}`, plain));
    const path = newestSegment(directory);
    // How far it is synced stands in a second place within a second.
    const endBytes = readFileSync(path).lastIndexOf('\n') + 1;
    while (syncedBytes(directory) < endBytes) await pause(20);
    await before.end('SIGKILL');
    const bytes = readFileSync(path);
    const isAllLost = bytes.lastIndexOf('accepted') < BLOCK_BYTES;
    t.equal(isAllLost, plain === '');
    bytes.fill(0xa5, 0, BLOCK_BYTES);
    writeFileSync(path, bytes);

    const after = await run(t, directory);
    const { storage } = await get<{ storage: { damaged: number } }>(after, '/api/internal/state');
    t.ok(storage.damaged > 0, 'it is counted');
    t.ok(
      after.lines.some((line) => /store damaged .*copies=/.test(line)),
      'it is told',
    );
    const block = bytes.subarray(0, BLOCK_BYTES);
    const copies = readdirSync(join(directory, 'damaged'));
    t.ok(
      copies.some((name) => readFileSync(join(directory, 'damaged', name)).includes(block)),
      'what could not be read is kept',
    );
    const status = spawnSync(MAIN, ['status'], {
      env: { PATH: process.env.PATH, FIELDPOST_LISTEN: `127.0.0.1:${after.port}` },
      encoding: 'utf8',
      timeout: 60_000,
    });
    t.match(status.stdout, /damaged/);
    if (!isAllLost) t.equal((await list(after)).at(0)?.id, ids.at(-1), 'what lies behind the block is there');
    const id = await post(after, 'one more');
    await after.end('SIGKILL');
    const again = await run(t, directory);
    t.ok(
      (await list(again)).some((message) => message.id === id),
      'what is accepted afterwards lasts',
    );
    t.equal(await again.end('SIGTERM'), 0);
  });
}

t.test('strange things in the place of its files', options, async (t) => {
  const directory = join(t.testdir(), 'state');
  const before = await run(t, directory);
  const id = await post(before, 'mail');
  await before.end('SIGKILL');
  mkdirSync(join(directory, 'store.json', 'inside'), { recursive: true });
  execFileSync('mkfifo', [join(directory, 'journal', '00000099.log')]);
  writeFileSync(join(directory, 'journal', '00000098.log'), '');
  truncateSync(join(directory, 'journal', '00000098.log'), 3 * 2 ** 30);
  mkdirSync(join(directory, 'damaged'), { recursive: true });
  symlinkSync('/nowhere/at/all', join(directory, 'damaged', 'link'));

  const after = await run(t, directory);
  t.match(await list(after), [{ id, status: 'queued' }]);
  t.ok(
    after.lines.some((line) => line.includes('put aside')),
    'it says what it has put aside',
  );
  t.equal(await after.end('SIGTERM'), 0);
  const again = await run(t, directory);
  t.match(await list(again), [{ id, status: 'queued' }], 'the next start has a snapshot again');
  t.equal(await again.end('SIGTERM'), 0);
});

t.test('pages while forms and JSON are posted at the same time', options, async (t) => {
  const daemon = await run(t, join(t.testdir(), 'state'));
  const url = `http://127.0.0.1:${daemon.port}${MESSAGES}`;
  const form = () =>
    fetch(url, {
      method: 'POST',
      headers: { 'Content-Type': `multipart/form-data; boundary=${BOUNDARY}` },
      body: bodyOf([
        { name: 'destination', content: 'john@example.com' },
        { name: 'subject', content: 'form' },
        { name: 'file', filename: 'a.bin', content: 'x'.repeat(5000) },
      ]),
    });
  const posted: string[] = [];
  const worker = async (send: () => Promise<unknown>) => {
    for (let n = 0; n < 25; n++) await send();
  };
  const take = async (answer: Promise<Response>) => {
    for (const { id } of (await (await answer).json()) as { id: string }[]) posted.push(id);
  };
  const json = async () => void posted.push(await post(daemon, 'json'));
  await Promise.all([json, json, json].map(worker).concat([1, 2, 3].map(() => worker(() => take(form())))));
  const seen: string[] = [];
  let next: string | null = null;
  do {
    const page: { messages: Listed[]; next: string | null } = await get(
      daemon,
      `${MESSAGES}?limit=3${next === null ? '' : `&after=${next}`}`,
    );
    seen.push(...page.messages.map(({ id }) => id));
    next = page.next;
  } while (next !== null);
  t.equal(posted.length, 150);
  t.same([...seen].sort(), [...posted].sort(), 'each is listed once');
  t.equal(await daemon.end('SIGTERM'), 0);
});
