/** Proof that simulated worlds find faults: planted ones, and those that were mended. See plants.mjs and regressions.ts. */
// A process of its own: it takes long.
import t from 'tap';
import { testSeed } from '../support/random.js';
import { REGRESSIONS } from './regressions.js';
import { kindOf } from './shrink.js';
import { IS_LONG, simulation, start } from './simulation.js';

/** From the first seed on. The search ends with the first fault. */
const WORLDS_MAX = 500;
/** These take more worlds. Each has a regression that finds it at once. */
const FAR: readonly string[] = ['backup-by-counter', 'written-late'];
/** A run tries one part, drawn by its seed: all of them together take half an hour. */
const PARTS = 3;
const SAMPLE = ['no-sync', 'no-key', 'one-sms'];

t.test('every plant fits the source', async (t) => {
  const script =
    "import('./test/simulation/plants.mjs').then(({ misfits }) => console.log(misfits().join('\\n')))";
  const { stdout, stderr } = await start(['-e', script]).told;
  t.equal(stdout + stderr, '\n');
});

if (IS_LONG)
  t.test('planted faults are found', async (t) => {
    const directory = t.testdir();
    const worlds = ['--seed', '1', '--seeds', String(WORLDS_MAX), '--but', FAR.join()];
    const part = `${testSeed() % PARTS}/${PARTS}`;
    const args = ['test/simulation/try-plants.mjs', directory, ...worlds, '--part', part];
    const { status, stdout, stderr } = await start(args).told;
    process.stderr.write(stdout);
    t.equal(status, 0, stdout + stderr);
  });
else
  for (const plant of SAMPLE)
    t.test(`a planted fault is found: ${plant}`, async (t) => {
      const run = await simulation(t, [plant]);
      const { status, stdout } = await run('--seed', '1', '--seeds', String(WORLDS_MAX), '--no-shrink').told;
      t.equal(status, 1, stdout);
      t.match(stdout, /^seed \d+: /m);
    });

t.test('a failing history is made shorter, and fails again', async (t) => {
  const run = await simulation(t, ['one-sms']);
  const { status, stdout } = await run('--seed', '1', '--seeds', String(WORLDS_MAX)).told;
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
