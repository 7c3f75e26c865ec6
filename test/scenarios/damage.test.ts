/**
 * The built program on a damaged state directory: it starts by itself, tells what is missing, keeps a copy of the damaged
 * files, and has everything else.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { EMAIL, MESSAGES } from '../support/api.js';
import { type DaemonProcess, isBuilt, MAIN, startIn } from '../support/daemon.js';

const options = { skip: isBuilt ? false : 'the program is not built' };
const BLOCK_BYTES = 4096;

interface Listed {
  readonly id: string;
  readonly status: string;
  readonly lastReply: string | null;
}

async function run(t: Test, directory: string): Promise<DaemonProcess> {
  const daemon = await startIn(t, { FIELDPOST_STATE_DIR: directory });
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

t.test('a bad block in the journal, and strange things in the place of files', options, async (t) => {
  const directory = join(t.testdir(), 'state');
  const before = await run(t, directory);
  const ids: string[] = [];
  for (let n = 0; n < 12; n++) ids.push(await post(before, `mail ${n}`, 'x'.repeat(500)));
  const path = newestSegment(directory);
  // How far it is synced stands in a second place within a second.
  const endBytes = readFileSync(path).lastIndexOf('\n') + 1;
  while (syncedBytes(directory) < endBytes) await pause(20);
  await before.end('SIGKILL');
  const bytes = readFileSync(path);
  bytes.fill(0xa5, 0, BLOCK_BYTES);
  writeFileSync(path, bytes);
  mkdirSync(join(directory, 'store.json', 'inside'), { recursive: true });
  execFileSync('mkfifo', [join(directory, 'journal', '00000099.log')]);

  const after = await run(t, directory);
  const { storage } = await get<{ storage: { damaged: number } }>(after, '/api/internal/state');
  t.ok(storage.damaged > 0, 'it is counted');
  t.match(after.lines.join('\n'), /store damaged .*copies=/, 'and logged');
  t.match(after.lines.join('\n'), /put aside/);
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
  t.equal((await list(after)).at(0)?.id, ids.at(-1), 'what lies behind the block is there');
  const id = await post(after, 'one more');
  await after.end('SIGKILL');
  const again = await run(t, directory);
  t.ok(
    (await list(again)).some((message) => message.id === id),
    'what is accepted afterwards lasts',
  );
  t.equal(await again.end('SIGTERM'), 0);
});
