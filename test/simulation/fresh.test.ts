/** Worlds that follow from the commit, or are drawn anew (test/runner/seed.mjs). Their seed is printed; scripts/simulate lives any of them again. */
// A process of its own: it takes long.
import t from 'tap';
import { testSeed } from '../support/random.js';
import { IS_LONG, simulation } from './simulation.js';

t.test('fresh worlds keep every promise', async (t) => {
  const run = await simulation(t);
  // A number, not a time: how fast the machine is decides nothing.
  const worlds = IS_LONG ? ['--for', '2m'] : ['--seeds', '20'];
  const { status, stdout, stderr } = await run('--seed', String(testSeed()), ...worlds).told;
  t.equal(status, 0, stdout + stderr);
  const [, words] = /\n(.*)\n$/.exec(stdout) ?? [];
  t.comment(words);
});
