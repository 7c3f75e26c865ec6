/**
 * `node scripts/bench/run.mjs [FIGURE]… [--write]`: measures the built daemon against its peers in the same run, and prints
 * a table of medians, lowest and highest, with the targets. The figures: accept, bytes, deliver, latency, nagle, start,
 * memory, checkpoint, upload, install, idle, fleet; all if none is named. A run of all figures, or with --write, also writes RESULTS.md.
 * With --smoke each runs at a tiny scale, to see that it ends and gives numbers; the last line counts the figures. As root a
 * peer that is missing is a failure.
 * In the environment: BENCH_ROUNDS (9), BENCH_DIR (where state is kept; a real disk), BENCH_IDLE_S,
 * BENCH_FLEET_DEVICES (10,000, as many as the files of the cloud take), BENCH_PROGRAM (the main.cjs of another build), and
 * BENCH_BEFORE (that of an earlier build, which takes part in every round).
 */
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { accept } from './accept.mjs';
import { bytes } from './bytes.mjs';
import { checkpoint } from './checkpoint.mjs';
import { deliver } from './deliver.mjs';
import { inDirectory } from './directory.mjs';
import { fleet } from './fleet.mjs';
import { idle } from './idle.mjs';
import { install } from './install.mjs';
import { latency } from './latency.mjs';
import { factsOf } from './machine.mjs';
import { memory } from './memory.mjs';
import { nagle } from './nagle.mjs';
import { pageOf } from './results.mjs';
import { faultOf, tableOf } from './rounds.mjs';
import { isSmoke } from './scale.mjs';
import { PROGRAM } from './server.mjs';
import { start } from './start.mjs';
import { upload } from './upload.mjs';

const FIGURES = {
  ...{ accept, bytes, deliver, latency, nagle, start, memory, checkpoint, upload, install, idle, fleet },
};
const RESULTS = new URL('./RESULTS.md', import.meta.url);

const given = process.argv.slice(2);
const named = given.filter((name) => !['--write', '--smoke'].includes(name));
const unknown = named.filter((name) => !(name in FIGURES));
if (unknown.length > 0)
  fail(`no figure ${unknown.join(', ')}: choose from ${Object.keys(FIGURES).join(', ')}`);
if (!existsSync(PROGRAM)) fail('not built: npm run build');
installPeers();
const names = named.length > 0 ? named : Object.keys(FIGURES);
await inDirectory('bench', isSmoke ? smoke : measure);

/** @type {(base: string) => Promise<void>} */
async function measure(base) {
  const rounds = Number(process.env.BENCH_ROUNDS ?? 9);
  console.log(
    `Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model}, ${rounds} rounds; median (lowest–highest)`,
  );
  const facts = factsOf(base);
  const began = performance.now();
  const tables = [];
  for (const name of names) {
    const rows = await FIGURES[name]({ rounds, base });
    console.log(`\n${tableOf(rows)}`);
    tables.push([name, rows]);
  }
  const minutes = Math.round((performance.now() - began) / 60_000);
  // A page with some of the figures would look like a whole run.
  if (named.length === 0 || given.includes('--write'))
    await writeFile(RESULTS, pageOf({ facts, rounds, minutes, tables }));
}

/** @type {(base: string) => Promise<void>} */
async function smoke(base) {
  let failed = 0;
  for (const name of names) {
    const began = performance.now();
    const faults = await faultsOf(name, base);
    const seconds = ((performance.now() - began) / 1000).toFixed(1);
    console.log(`${faults.length === 0 ? 'ok' : 'FAILED'}: ${name}, ${seconds} s`);
    for (const fault of faults) console.log(`  ${fault}`);
    if (faults.length > 0) failed += 1;
  }
  console.log(`${names.length - failed} passed, ${failed} failed`);
  if (failed > 0) process.exitCode = 1;
}

/** What is wrong with a figure at a tiny scale. @type {(name: string, base: string) => Promise<string[]>} */
async function faultsOf(name, base) {
  try {
    const rows = await FIGURES[name]({ rounds: 1, base });
    const isRoot = process.getuid?.() === 0;
    const faults = rows.map((row) => faultOf(row, isRoot)).filter((fault) => fault !== null);
    return rows.length === 0 ? ['no rows'] : faults;
  } catch (error) {
    return [String(error instanceof Error ? error.stack : error)];
  }
}

function installPeers() {
  const peers = fileURLToPath(new URL('./peers', import.meta.url));
  if (existsSync(`${peers}/node_modules`)) return;
  console.log('installing the peers, once (a native part is compiled; minutes)');
  execFileSync('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], {
    cwd: peers,
    env: { ...process.env, ...headers() },
    stdio: 'inherit',
  });
}

/** The headers of Node.js beside the program itself, so that compiling for it fetches nothing. */
function headers() {
  const prefix = dirname(dirname(process.execPath));
  return existsSync(join(prefix, 'include/node/node.h')) ? { npm_config_nodedir: prefix } : {};
}

function fail(words) {
  console.error(words);
  process.exit(2);
}
