/**
 * Worlds of people: everybody is told what is so, in time, at their hours, and once. The judge (judge.ts) knows what truly
 * happened. plants.test.ts shows that it finds faults.
 */
// A process of its own: it takes long.
import { join } from 'node:path';
import t from 'tap';
import { IS_LONG, start } from '../simulation/simulation.js';
import { testSeed } from '../support/random.js';

/** Worlds that are the same in each run, and others that follow from the seed of the run. */
const KEPT = 4;
const FRESH = IS_LONG ? 100 : 2;
const KEPT_SHARED = 1;
const FRESH_SHARED = IS_LONG ? 30 : 1;

const directory = t.testdir();

t.before(async () => {
  const { status, stderr } = await start(['test/people/compile.mjs', directory]).told;
  t.equal(status, 0, stderr);
});

const seed = testSeed() % 1_000_000;
const lives = (args: readonly string[]) => start([join(directory, 'simulate.cjs'), ...args]).told;

for (const [name, options, kept, fresh] of [
  ['over files', [], KEPT, FRESH],
  ['three instances over etcd', ['--etcd'], KEPT_SHARED, FRESH_SHARED],
] as const)
  t.test(`people are told what is so: ${name}`, async (t) => {
    for (const [first, seeds] of [
      [1, kept],
      [seed, fresh],
    ]) {
      const { status, stdout, stderr } = await lives([
        ...options,
        '--seed',
        `${first}`,
        '--seeds',
        `${seeds}`,
      ]);
      t.comment(stdout);
      t.equal(status, 0, stdout + stderr);
    }
  });

t.test('a seed is one history', async (t) => {
  const args = ['--seed', '5', '--trace'];
  const [one, other] = [await lives(args), await lives(args)];
  t.equal(one.status, 0, one.stdout);
  t.ok(one.stdout.length > 1000);
  t.equal(one.stdout, other.stdout);
});
