/**
 * Random histories of an address book that is edited on two sides: the simulated worlds that are about the address book.
 * They have lost requests and answers, power cuts, damage, a cloud that loses its document or restores a backup, stray
 * 404s, another cloud, and another URL of the same cloud.
 */
// A process of its own: it takes long.
import t from 'tap';
import { IS_LONG, simulation } from '../simulation/simulation.js';
import { testSeed } from '../support/random.js';

const WORLDS = IS_LONG ? 300 : 20;

t.test('both sides agree in the end, and no edit is lost', async (t) => {
  const run = await simulation(t);
  const seeds = ['--seed', String(testSeed()), '--seeds', String(WORLDS)];
  const { status, stdout, stderr } = await run('--book', ...seeds).told;
  t.equal(status, 0, stdout + stderr);
});
