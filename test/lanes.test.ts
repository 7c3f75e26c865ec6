/** Several workers that share one list of work. */
import t from 'tap';
import { inLanes } from '../src/base/lanes.js';
import { settled } from './support/clock.js';

t.test('each item once, in order, and not more at a time than there are lanes', async (t) => {
  const begun: number[] = [];
  const ends: (() => void)[] = [];
  const work = inLanes(2, [1, 2, 3, 4, 5], (item) => {
    begun.push(item);
    return new Promise((resolve) => void ends.push(resolve));
  });
  t.strictSame(begun, [1, 2]);
  for (let done = 1; done <= 5; done++) {
    ends[done - 1]?.();
    await settled();
    t.strictSame(begun, [1, 2, 3, 4, 5].slice(0, done + 2));
  }
  await work;
});

t.test('what is added meanwhile is done, too', async (t) => {
  const items = new Set(['a']);
  const done: string[] = [];
  await inLanes(3, items, async (item) => {
    done.push(item);
    if (item === 'a') items.add('b');
  });
  t.strictSame(done, ['a', 'b']);
});

t.test('rejects with what an item rejects with', async (t) => {
  await t.rejects(
    inLanes(2, [1, 2, 3], async (item) => {
      if (item === 2) throw new Error('two');
    }),
    { message: 'two' },
  );
});
