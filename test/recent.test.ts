import t from 'tap';
import { forgetOldest, Recent } from '../src/base/recent.js';

t.test('the youngest are remembered', async (t) => {
  const recent = new Recent<string, number>(2);
  recent.set('a', 1).set('b', 2).set('c', 3);
  t.same([...recent].flat(), ['b', 2, 'c', 3]);
});

t.test('an entry that is set again is the youngest', async (t) => {
  const recent = new Recent<string, number>(2);
  recent.set('a', 1).set('b', 2).set('a', 3).set('c', 4);
  t.same([...recent].flat(), ['a', 3, 'c', 4]);
});

t.test('a list that begins with too many entries forgets the first', async (t) => {
  const recent = new Recent(2, Object.entries({ a: 1, b: 2, c: 3 }));
  t.same([...recent.keys()], ['b', 'c']);
});

t.test('a list of size 0 remembers nothing', async (t) => {
  t.equal(new Recent<string, number>(0).set('a', 1).size, 0);
});

t.test('the oldest keys are forgotten while keys take too much', async (t) => {
  const weights = new Map(Object.entries({ a: 5, b: 1, c: 3 }));
  const total = () => [...weights.values()].reduce((sum, weight) => sum + weight, 0);
  const forgotten: string[] = [];
  const forget = (key: string) => {
    forgotten.push(key);
    weights.delete(key);
  };
  forgetOldest(weights.keys(), () => total() > 4, forget);
  t.same(forgotten, ['a']);
  forgetOldest(weights.keys(), () => true, forget);
  t.same(forgotten, ['a', 'b', 'c'], 'all, and no more');
});
