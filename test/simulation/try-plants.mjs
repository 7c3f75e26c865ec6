/**
 * `scripts/simulate --plants`: plants one fault after the other (plants.mjs), and prints for each the seed of the world that
 * found it, and how many worlds and how much simulated time it took. The status is 1 where one was not found.
 * `node test/simulation/try-plants.mjs DIRECTORY [--seed S] [--seeds N] [--only NAME,…] [--kept]`: with `--kept` each is
 * looked for where its seed is kept (plant-seeds.mjs).
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { SEEDS, WORLDS_FROM_SEED } from './plant-seeds.mjs';
import { BOOK, PLANTS } from './plants.mjs';

const [directory, ...args] = process.argv.slice(2);
const { values } = parseArgs({
  args,
  options: {
    seed: { type: 'string', default: '1' },
    seeds: { type: 'string', default: '2000' },
    only: { type: 'string', default: Object.keys(PLANTS).join() },
    kept: { type: 'boolean', default: false },
  },
});

console.log('| planted fault | seed | worlds | simulated days | what was found |\n|---|---|---|---|---|');
let missed = 0;
const names = values.only.split(',');
for (const name of values.kept ? names.filter((name) => name in SEEDS) : names) {
  const node = (...args) => spawnSync(process.execPath, args, { encoding: 'utf8' });
  const compiled = node('test/simulation/compile.mjs', directory, name);
  if (compiled.status !== 0) {
    console.log(compiled.stderr);
    process.exit(compiled.status);
  }
  const [seed, seeds] = values.kept
    ? [SEEDS[name], WORLDS_FROM_SEED].map(String)
    : [values.seed, values.seeds];
  const { status, stdout } = node(
    join(directory, 'simulate.cjs'),
    ...['--seed', seed, '--seeds', seeds, '--no-shrink', ...(name in BOOK ? ['--book'] : [])],
  );
  const [, worlds, years] = /^(\d+) worlds, ([\d.]+) simulated years/m.exec(stdout) ?? [];
  const [, found = '', words = 'nothing'] = /^seed (\d+): (.*)$/m.exec(stdout) ?? [];
  const isFound = status === 1 && worlds !== undefined;
  if (!isFound) missed++;
  console.log(
    `| ${name}: ${PLANTS[name].why} | ${found} | ${worlds} | ${(years * 365).toFixed(1)} | ${words.slice(0, 80)} |`,
  );
}
process.exitCode = missed > 0 ? 1 : 0;
