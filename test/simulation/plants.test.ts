/** Proof that simulated worlds find faults: planted ones, and those that were mended. See plants.mjs and regressions.ts. */
// A process of its own: it takes long.
import t from 'tap';
// @ts-expect-error: a script without types.
import { SEEDS as ALL_SEEDS, WORLDS_FROM_SEED } from './plant-seeds.mjs';
// @ts-expect-error: a script without types.
import { BOOK, MAIL } from './plants.mjs';
import { REGRESSIONS } from './regressions.js';
import { kindOf } from './shrink.js';
import { IS_LONG, simulation, start } from './simulation.js';

const SEEDS: Readonly<Record<string, number>> = ALL_SEEDS;
/** `npm test` plants these; the long variant all. */
const SAMPLE = ['no-sync', 'no-key', 'one-sms'];

/** The arguments that find a plant. */
const where = (plant: string) => ['--seed', String(SEEDS[plant]), '--seeds', String(WORLDS_FROM_SEED)];

t.test('every plant fits the source', async (t) => {
  const script =
    "import('./test/simulation/plants.mjs').then(({ misfits }) => console.log(misfits().join('\\n')))";
  const { stdout, stderr } = await start(['-e', script]).told;
  t.equal(stdout + stderr, '\n');
});

t.test('for every plant the seed of a world is kept that finds it, or a history', async (t) => {
  const regressions = REGRESSIONS.map(({ plant }) => plant);
  const names: readonly string[] = Object.keys({ ...MAIL, ...BOOK });
  t.same(
    names.filter((name) => !(name in SEEDS) && !regressions.includes(name)),
    [],
    'each has one: scripts/simulate --plants --only NAME finds a seed',
  );
  t.same(
    Object.keys(SEEDS).filter((name) => !names.includes(name)),
    [],
    'each seed has a plant',
  );
});

if (IS_LONG)
  t.test('planted faults are found', async (t) => {
    const args = ['test/simulation/try-plants.mjs', t.testdir(), '--kept'];
    const { status, stdout, stderr } = await start(args).told;
    process.stderr.write(stdout);
    t.equal(status, 0, stdout + stderr);
  });
else
  for (const plant of SAMPLE)
    t.test(`a planted fault is found: ${plant}`, async (t) => {
      const run = await simulation(t, [plant]);
      const { status, stdout } = await run(...where(plant), '--no-shrink').told;
      t.equal(status, 1, stdout);
      t.match(stdout, /^seed \d+: /m);
    });

t.test('a failing history is made shorter, and fails again', async (t) => {
  const run = await simulation(t, ['one-sms']);
  const { status, stdout } = await run(...where('one-sms')).told;
  t.equal(status, 1, stdout);
  const [, before, after] = /^shrunk from (\d+) steps to (\d+) /m.exec(stdout) ?? [];
  t.ok(Number(before) > 20, `${before} steps`);
  t.ok(Number(after) <= 3, `${after} steps`);
  const [, command = ''] = /^again: scripts\/simulate --plant one-sms (.+)$/m.exec(stdout) ?? [];
  const again = await run(...command.split(' '), '--no-shrink').told;
  t.equal(again.status, 1, again.stdout);
  const kindsOf = (text: string, name: string) =>
    [...text.matchAll(new RegExp(`^${name}: (.*)$`, 'gm'))].map(([, words = '']) => kindOf(words));
  t.ok(kindsOf(stdout, 'shrunk').length > 0);
  t.strictSame(kindsOf(again.stdout, 'seed \\d+'), kindsOf(stdout, 'shrunk'));
});

for (const plant of ['real-timer', 'real-file', 'real-socket'])
  t.test(`no world reaches the outside unseen: ${plant}`, async (t) => {
    const run = await simulation(t, [plant]);
    const { status, stdout } = await run('--seed', '1', '--no-shrink').told;
    t.equal(status, 1, stdout);
    t.match(stdout, /^seed 1: the outside is touched: /m);
  });

for (const { name, plant, why } of REGRESSIONS)
  t.test(`a regression still finds its fault: ${name}`, async (t) => {
    const run = await simulation(t, [plant]);
    const { status, stdout } = await run('--regression', name, '--no-shrink').told;
    t.equal(status, 1, `${why}\n${stdout}`);
  });
