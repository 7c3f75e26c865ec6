/**
 * `scripts/people --plants [--seed S] [--seeds N] [--only NAME,…]`: plants one fault after the other, and prints for each the
 * seed of the world that found it and what was said. `--kept`: it is looked for where its seed is kept. The status is 1 where
 * one was not found.
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { PLANTS, WORLDS_FROM_SEED } from './plants.mjs';

const [directory, ...args] = process.argv.slice(2);
const { values } = parseArgs({
  args,
  options: {
    seed: { type: 'string', default: '1' },
    seeds: { type: 'string', default: '60' },
    only: { type: 'string', default: Object.keys(PLANTS).join() },
    kept: { type: 'boolean', default: false },
  },
});

let missed = 0;
for (const name of values.only.split(',')) {
  if (values.kept && PLANTS[name].seed === null) continue;
  const node = (...args) => spawnSync(process.execPath, args, { encoding: 'utf8' });
  const { found, isShared, seed: kept, why } = PLANTS[name];
  const compiled = node('test/people/compile.mjs', directory, name);
  if (compiled.status !== 0) {
    console.log(compiled.stdout + compiled.stderr);
    process.exit(compiled.status ?? 1);
  }
  const [seed, seeds] = values.kept ? [kept, WORLDS_FROM_SEED] : [values.seed, values.seeds];
  const { status, stdout, stderr } = node(
    join(directory, 'simulate.cjs'),
    ...['--seed', seed, '--seeds', seeds, '--no-shrink', ...(isShared ? ['--etcd'] : [])],
  );
  const isFound = status === 1 && found.test(stdout);
  const [, where = '', words = stdout.slice(-300) + stderr.slice(0, 500)] =
    /^seed (\d+): (.*)$/m.exec(stdout) ?? [];
  if (!isFound) missed++;
  console.log(`| ${name}: ${why} | ${isFound ? where : 'not found'} | ${words.slice(0, 160)} |`);
}
process.exitCode = missed > 0 ? 1 : 0;
