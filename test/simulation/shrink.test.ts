/** Pieces of the tool around simulated worlds: shrinking, step numbers, and lines of chance that keep apart. */
import t from 'tap';
import { Chance } from './chance.js';
import { kindOf, shrunk } from './shrink.js';

t.test('only what a failure needs remains', async (t) => {
  const all = Array.from({ length: 300 }, (_, i) => i + 1);
  const needed = [7, 8, 150, 299];
  let tries = 0;
  const fails = async (some: readonly number[]) => {
    tries++;
    return needed.every((number) => some.includes(number));
  };
  t.strictSame(await shrunk(all, fails, 1000), needed);
  t.ok(tries < 150, `${tries} tries`);
  t.strictSame(await shrunk(all, async () => true, 1000), []);
  t.strictSame(await shrunk(all, async () => false, 5), all);
  t.strictSame(await shrunk([], fails, 10), []);
});

t.test('tries are bounded', async (t) => {
  let tries = 0;
  const kept = await shrunk(
    Array.from({ length: 300 }, (_, i) => i),
    async () => ++tries % 2 === 0,
    20,
  );
  t.equal(tries, 20);
  t.ok(kept.length < 300);
});

t.test('faults of different messages are of the same kind', async (t) => {
  t.equal(kindOf('T00001b has arrived 2 times'), kindOf('T0000a4 has arrived 3 times'));
  t.equal(kindOf('T1 (0003J) is not final\n at a'), kindOf('T2 (000AK7) is not final\n at b'));
  t.not(kindOf('T1 is not final'), kindOf('T1 is not found'));
});

t.test('a step that is left out changes no random draw of a later one', async (t) => {
  const draw = (skips: boolean) => {
    const world = new Chance(5);
    const lines = [world.fork(), world.fork()];
    world.restart(1);
    if (!skips) for (const line of lines) line.bytes(3);
    world.restart(2);
    return [world, ...lines].map((line) => line.random());
  };
  t.strictSame(draw(true), draw(false));
  t.equal(new Set(draw(true)).size, 3, 'lines differ');
});

t.test('random draws are even', async (t) => {
  const chance = new Chance(1);
  const counts = new Array(10).fill(0);
  for (let i = 0; i < 10_000; i++) {
    chance.restart(i);
    counts[chance.below(10)]++;
  }
  for (const count of counts) t.ok(count > 850 && count < 1150, `${count} of 10,000`);
});
