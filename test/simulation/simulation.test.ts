/**
 * Simulated worlds, the same at each run, and what scripts/simulate promises of itself. It lives fresh ones.
 * plants.test.ts shows that worlds find faults.
 */
// A process of its own: it takes long.
import t from 'tap';
import { REGRESSIONS } from './regressions.js';
import { IS_LONG, simulation } from './simulation.js';

/** Run twice. */
const SAME = IS_LONG ? 100 : 10;

t.test('worlds keep every promise; a seed is one history, whichever process runs it', async (t) => {
  const run = await simulation(t);
  const args = ['--seed', '1', '--seeds', String(SAME)];
  const one = await run(...args, '--jobs', '1').told;
  const three = await run(...args, '--jobs', '3').told;
  const hashOf = ({ stdout }: { stdout: string }) => /^hash (\w{16})$/m.exec(stdout)?.[1];
  t.equal(one.status, 0, one.stdout + one.stderr);
  t.match(one.stdout, new RegExp(`^${SAME + REGRESSIONS.length} worlds, `, 'm'));
  t.ok(hashOf(one));
  t.equal(hashOf(three), hashOf(one));
});

t.test('a part of a history is printed whole', async (t) => {
  const run = await simulation(t);
  const { status, stdout } = await run('--seed', '1', '--only', '2,4-5', '--trace').told;
  t.equal(status, 0, stdout);
  const steps = stdout.match(/^[\d.]+ \d+: [a-z ]+$/gm)?.map((line) => / (\d+):/.exec(line)?.[1]);
  t.strictSame(steps, ['2', '4', '5']);
  const plan = JSON.parse((await run('--seed', '1', '--only', '2,4-5', '--plan').told).stdout);
  t.strictSame(
    plan.steps.map(({ number }: { number: number }) => number),
    [2, 4, 5],
  );
});

t.test('an interrupt ends a run and all its processes', async (t) => {
  const run = await simulation(t);
  const { child, told } = run('--for', '1h', '--jobs', '2');
  child.stdout?.once('data', () => child.kill('SIGINT'));
  // Resolves only once no process holds its output any more.
  const { status, stdout, stderr } = await told;
  t.equal(status, 130, stdout + stderr);
  t.equal(stderr, '');
  t.match(stdout, /^\d+ worlds, .* 0 faulty, from seed \d+ on\n$/m);
});
