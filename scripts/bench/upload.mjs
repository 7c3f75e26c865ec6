/** A file of 200 MB to the disk, synced: against busboy piped into a file, and what it costs in memory. */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { againstBefore, before, compare, interleave } from './rounds.mjs';
import { startServer } from './server.mjs';

const BYTES = 200_000_000;
const UPLOADING = fileURLToPath(new URL('./uploading.mjs', import.meta.url));
const run = promisify(execFile);

/** Resolves with the rows. */
export async function upload(plan) {
  const grown = { fieldpost: [], before: [] };
  const rate = (kind) => async (directory) => {
    const server = await startServer(kind, directory);
    await send(server.port, 1_000_000);
    const beforeMiB = await peakMiB(server.pid);
    const ms = await send(server.port, BYTES);
    grown[kind]?.push((await peakMiB(server.pid)) - beforeMiB);
    await server.end('SIGKILL');
    return BYTES / 1e6 / (ms / 1000);
  };
  const {
    fieldpost,
    busboy,
    large,
    before: earlier,
  } = await interleave(plan, {
    fieldpost: rate('fieldpost'),
    ...before(rate),
    busboy: rate('busboy'),
    large: rate('busboyLarge'),
  });
  return [
    compare('upload 200 MB', 'MB/s', fieldpost, { name: 'busboy', numbers: busboy }, { atLeast: 0.9 }),
    compare(
      'upload 200 MB',
      'MB/s',
      fieldpost,
      // For the record: it takes the file from 40 MiB of memory.
      { name: 'busboy, 1 MiB buffer', numbers: large },
      undefined,
    ),
    compare('upload, resident growth', 'MiB', grown.fieldpost, undefined, { ownAtMost: 24 }),
    ...againstBefore('upload 200 MB', 'MB/s', fieldpost, earlier),
    ...againstBefore('upload, resident growth', 'MiB', grown.fieldpost, earlier && grown.before),
  ];
}

async function send(port, bytes) {
  const { stdout } = await run(process.execPath, [UPLOADING, JSON.stringify({ port, bytes })]);
  return JSON.parse(stdout).ms;
}

/** The most that a process had resident so far. */
async function peakMiB(pid) {
  const status = await readFile(`/proc/${pid}/status`, 'latin1');
  return Number(/VmHWM:\s+(\d+)/.exec(status)?.[1]) / 1024;
}
