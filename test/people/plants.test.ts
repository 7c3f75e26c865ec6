/** Proof that the judge of worlds of people finds faults: each is planted, and found in the world that is kept for it. */
// A process of its own: it takes long.
import { join } from 'node:path';
import t from 'tap';
import { IS_LONG, start } from '../simulation/simulation.js';
// @ts-expect-error: a script without types.
import { misfits, PLANTS, WORLDS_FROM_SEED } from './plants.mjs';

interface Plant {
  readonly why: string;
  readonly seed: number | null;
  readonly found: RegExp;
  readonly isShared?: boolean;
}

const directory = t.testdir();

/** Compiles the worlds with a fault, and lives those from its seed on. */
async function planted(name: string, { seed, isShared = false }: Plant, more: readonly string[]) {
  const into = join(directory, name);
  const compiled = await start(['test/people/compile.mjs', into, name]).told;
  if (compiled.status !== 0) throw new Error(compiled.stdout + compiled.stderr);
  const args = [
    '--seed',
    `${seed}`,
    '--seeds',
    `${WORLDS_FROM_SEED}`,
    ...(isShared ? ['--etcd'] : []),
    ...more,
  ];
  return await start([join(into, 'simulate.cjs'), ...args]).told;
}

t.test('every plant fits the source', async (t) => {
  t.strictSame(misfits(), []);
});

/** `npm test` plants these; the long variant all. */
const SAMPLE = ['after-min-over-a-restart', 'return-without-outage', 'quiet-for-ever'];

for (const [name, plant] of Object.entries(PLANTS as Readonly<Record<string, Plant>>).filter(
  ([name, { seed }]) => seed !== null && (IS_LONG || SAMPLE.includes(name)),
))
  t.test(`a planted fault is found: ${name}: ${plant.why}`, async (t) => {
    const { status, stdout, stderr } = await planted(name, plant, ['--no-shrink']);
    t.equal(status, 1, stdout + stderr);
    t.match(stdout, plant.found);
  });

t.test('a failing history is made shorter, and fails again', async (t) => {
  const name = 'too-early';
  const plant = (PLANTS as Readonly<Record<string, Plant>>)[name] as Plant;
  const { stdout } = await planted(name, plant, []);
  const [, before, after] = /^shrunk from (\d+) steps to (\d+):$/m.exec(stdout) ?? [];
  t.ok(Number(before) > Number(after), stdout);
  t.ok(Number(after) <= 2, stdout);
  const [, seed, only] =
    /^again: scripts\/people --plant too-early --seed (\d+) --only (\S+) /m.exec(stdout) ?? [];
  const args = ['--seed', `${seed}`, '--only', `${only}`, '--no-shrink'];
  const again = await start([join(directory, name, 'simulate.cjs'), ...args]).told;
  t.equal(again.status, 1, again.stdout);
  t.match(again.stdout, plant.found);
});
