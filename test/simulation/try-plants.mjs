/**
 * `scripts/simulate --plants`: plants one fault after the other (plants.mjs), and prints for each how many worlds and how
 * much simulated time it took until it was found. The status is 1 where one was not.
 * `node test/simulation/try-plants.mjs DIRECTORY [--seed S] [--seeds N] [--only NAME,…] [--but NAME,…]
 * [--part I/N]`: with `--part 0/3` every third plant, from the first on. Used by scripts/simulate.
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { BOOK, PLANTS } from './plants.mjs';

const [directory, ...args] = process.argv.slice(2);
const { values } = parseArgs({
  args,
  options: {
    seed: { type: 'string', default: '1' },
    seeds: { type: 'string', default: '2000' },
    only: { type: 'string', default: Object.keys(PLANTS).join() },
    but: { type: 'string', default: '' },
    part: { type: 'string', default: '0/1' },
  },
});

console.log('| planted fault | worlds | simulated days | what was found |\n|---|---|---|---|');
let missed = 0;
const but = values.but.split(',');
const [part, parts] = values.part.split('/').map(Number);
const names = values.only.split(',').filter((one) => !but.includes(one));
for (const name of names.filter((_, index) => index % parts === part)) {
  const node = (...args) => spawnSync(process.execPath, args, { encoding: 'utf8' });
  const compiled = node('test/simulation/compile.mjs', directory, name);
  if (compiled.status !== 0) {
    console.log(compiled.stderr);
    process.exit(compiled.status);
  }
  const { seed, seeds } = values;
  const { status, stdout } = node(
    join(directory, 'simulate.cjs'),
    ...['--seed', seed, '--seeds', seeds, '--no-shrink', ...(name in BOOK ? ['--book'] : [])],
  );
  const [, worlds, years] = /^(\d+) worlds, ([\d.]+) simulated years/m.exec(stdout) ?? [];
  const words = /^seed \d+: (.*)$/m.exec(stdout)?.[1] ?? 'nothing';
  const isFound = status === 1 && worlds !== undefined;
  if (!isFound) missed++;
  console.log(
    `| ${name}: ${PLANTS[name].why} | ${worlds} | ${(years * 365).toFixed(1)} | ${words.slice(0, 80)} |`,
  );
}
process.exitCode = missed > 0 ? 1 : 0;
