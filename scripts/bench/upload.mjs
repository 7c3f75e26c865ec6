/** A synced upload of 200 MB: its rate against busboy piped into a file, and its memory. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { peakMiB } from './process.mjs';
import { againstBefore, before, compare, interleave } from './rounds.mjs';
import { scaled } from './scale.mjs';
import { startServer } from './server.mjs';

const BYTES = scaled(200_000_000);
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
    compare('upload 200 MB', 'MB/s', fieldpost, { name: 'busboy', numbers: busboy }, { atLeast: 1 }),
    compare(
      'upload 200 MB',
      'MB/s',
      fieldpost,
      // No target: this busboy holds 40 MiB of the file in memory.
      { name: 'busboy, 1 MiB buffer', numbers: large },
      undefined,
    ),
    compare('upload, resident growth', 'MiB', grown.fieldpost, undefined, { ownAtMost: 24 }),
    ...againstBefore('upload 200 MB', 'MB/s', fieldpost, earlier),
    ...againstBefore('upload, resident growth', 'MiB', grown.fieldpost, earlier && grown.before),
  ];
}

/**
 * Uploads one file of so many bytes. Resolves with the time it took, in ms.
 * @type {(port: number, bytes: number) => Promise<number>}
 */
export async function send(port, bytes) {
  const { stdout } = await run(process.execPath, [UPLOADING, JSON.stringify({ port, bytes })]);
  return JSON.parse(stdout).ms;
}
