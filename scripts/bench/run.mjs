/**
 * `node scripts/bench/run.mjs [FIGURE]… [--write]`: measures the built daemon against its peers in the same run, and prints
 * a table of medians, lowest and highest, with the targets. The figures: accept, bytes, deliver, latency, nagle, start,
 * memory, upload, install, idle, fleet; all if none is named. A run of all figures, or with --write, also writes RESULTS.md.
 * In the environment: BENCH_ROUNDS (9), BENCH_DIR (where state is kept; a real disk), BENCH_IDLE_S,
 * BENCH_FLEET_DEVICES (10,000, as many as the files of the cloud take), and BENCH_BEFORE (the main.cjs of an earlier build,
 * which takes part in every round).
 */
import { execFileSync } from 'node:child_process';
import { existsSync, statfsSync } from 'node:fs';
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { accept } from './accept.mjs';
import { bytes } from './bytes.mjs';
import { deliver } from './deliver.mjs';
import { fleet } from './fleet.mjs';
import { idle } from './idle.mjs';
import { install } from './install.mjs';
import { latency } from './latency.mjs';
import { factsOf } from './machine.mjs';
import { memory } from './memory.mjs';
import { nagle } from './nagle.mjs';
import { pageOf } from './results.mjs';
import { tableOf } from './rounds.mjs';
import { PROGRAM } from './server.mjs';
import { start } from './start.mjs';
import { upload } from './upload.mjs';

const FIGURES = { accept, bytes, deliver, latency, nagle, start, memory, upload, install, idle, fleet };
const RESULTS = new URL('./RESULTS.md', import.meta.url);
const TMPFS = 0x01021994;

const given = process.argv.slice(2);
const names = given.filter((name) => name !== '--write');
// A page with some of the figures would look like a whole run.
const writes = names.length === 0 || given.includes('--write');
const unknown = names.filter((name) => !(name in FIGURES));
if (unknown.length > 0)
  fail(`no figure ${unknown.join(', ')}: choose from ${Object.keys(FIGURES).join(', ')}`);
if (!existsSync(PROGRAM)) fail('not built: npm run build');
installPeers();

const disk = process.env.BENCH_DIR ?? tmpdir();
if (statfsSync(disk).type === TMPFS) fail(`${disk} is in memory: name a directory on a disk with BENCH_DIR`);
const rounds = Number(process.env.BENCH_ROUNDS ?? 9);
const base = await mkdtemp(join(disk, 'fieldpost-bench-'));
await chmod(base, 0o711);

try {
  console.log(
    `Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model}, ${rounds} rounds; median (lowest–highest)`,
  );
  const facts = factsOf(base);
  const began = performance.now();
  const tables = [];
  for (const name of names.length > 0 ? names : Object.keys(FIGURES)) {
    const rows = await FIGURES[name]({ rounds, base });
    console.log(`\n${tableOf(rows)}`);
    tables.push([name, rows]);
  }
  const minutes = Math.round((performance.now() - began) / 60_000);
  if (writes) await writeFile(RESULTS, pageOf({ facts, rounds, minutes, tables }));
} finally {
  await rm(base, { recursive: true, force: true });
}

function installPeers() {
  const peers = fileURLToPath(new URL('./peers', import.meta.url));
  if (existsSync(`${peers}/node_modules`)) return;
  console.log('installing the peers, once (a native part is compiled; minutes)');
  execFileSync('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd: peers,
    stdio: 'inherit',
  });
}

function fail(words) {
  console.error(words);
  process.exit(2);
}
