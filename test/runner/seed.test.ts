import t from 'tap';
// @ts-expect-error: a script without types.
import { seedOf } from './seed.mjs';

const COMMIT = 'e29835f0c1a2b3c4d5e6f708192a3b4c5d6e7f80';

t.test('the seed follows from the commit, unless another is asked for', async (t) => {
  t.equal(seedOf(undefined, COMMIT), 0xe29835f0);
  t.equal(seedOf('', COMMIT), 0xe29835f0);
  t.equal(seedOf('2405002488', COMMIT), 2_405_002_488);
  t.equal(seedOf('0', COMMIT), 0);
  t.equal(seedOf(undefined, null), seedOf(undefined, null), 'without a commit it is always the same');
});

t.test('a fresh seed is drawn', async (t) => {
  t.equal(
    seedOf('fresh', COMMIT, () => 0.5),
    2 ** 31,
  );
  t.equal(
    seedOf('fresh', null, () => 0),
    0,
  );
});

t.test('a seed that no test can take is refused', async (t) => {
  for (const asked of ['new', '-1', '1.5', '1e9', String(2 ** 32)])
    t.throws(() => seedOf(asked, COMMIT), { name: 'RangeError' }, asked);
});
