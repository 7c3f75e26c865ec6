/**
 * Some simulated worlds, each the same at every run, and proof that they would find a fault. scripts/simulate runs as
 * many others as one likes.
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import t, { type Test } from 'tap';

const WORLDS = 6;
/** The root, from where the compiler takes its paths. */
const TOP = new URL('../..', import.meta.url).pathname;

/** Compiles the simulation; gives what runs worlds, and prints what became of them. */
function simulation(t: Test, plant: readonly string[] = []) {
  const directory = t.testdir();
  const node = (...args: string[]) =>
    spawnSync(process.execPath, args, { cwd: TOP, encoding: 'utf8', env: { PATH: process.env.PATH } });
  const compiled = node('test/simulation/compile.mjs', directory, ...plant);
  t.equal(compiled.status, 0, compiled.stderr);
  return (...args: string[]) => node(join(directory, 'simulate.cjs'), ...args);
}

t.test('worlds that keep every promise, the same each time', async (t) => {
  const run = simulation(t);
  const args = ['--seed', '1', '--seeds', String(WORLDS)];
  const [first, second] = [run(...args), run(...args)];
  t.equal(first.status, 0, first.stdout + first.stderr);
  t.match(first.stdout, new RegExp(`^${WORLDS} worlds, 0 faulty, `, 'm'));
  const hashesOf = (stdout: string) => /^hashes (.*)$/m.exec(stdout)?.[1];
  t.ok(hashesOf(first.stdout));
  t.equal(hashesOf(second.stdout), hashesOf(first.stdout));
});

for (const plant of ['no-sync', 'no-key', 'one-sms']) {
  t.test(`a planted fault is found: ${plant}`, async (t) => {
    const { status, stdout } = simulation(t, [plant])('--seed', '1', '--seeds', String(WORLDS));
    t.equal(status, 1);
    t.match(stdout, /^seed \d+: /m);
  });
}
