import t from 'tap';
import { Refusals } from '../../src/delivery/refusals.js';
import { DAY_MS } from '../../src/limits.js';
import { FakeClock } from '../support/clock.js';

function setUp() {
  const clock = new FakeClock();
  return { clock, refusals: new Refusals(clock) };
}

t.test('a relay that refuses all has trouble; no message is to blame', async (t) => {
  const { refusals } = setUp();
  t.equal(refusals.refused('a'), 'unclear', 'the next may go through');
  t.equal(refusals.refused('b'), 'unclear');
  for (let turn = 0; turn < 5; turn++) {
    t.equal(refusals.refused('a'), 'relay');
    t.equal(refusals.refused('b'), 'relay');
  }
});

t.test('what is refused again while others are taken is to blame itself, from then on', async (t) => {
  const { clock, refusals } = setUp();
  t.equal(refusals.refused('a'), 'unclear');
  refusals.taken('b');
  for (let turn = 0; turn < 5; turn++) t.equal(refusals.refused('a'), 'message');
  t.equal(refusals.refused('c'), 'unclear', 'another is not');
  await clock.advance(DAY_MS);
  t.equal(refusals.refused('a'), 'unclear', 'what was taken long ago proves nothing');
  t.equal(refusals.refused('a'), 'relay');
});

t.test('so many different messages in a row are the trouble of the relay', async (t) => {
  const { refusals } = setUp();
  refusals.taken('good');
  const found = Array.from({ length: 25 }, (_, index) => refusals.refused(`m${index}`));
  t.same(found.slice(0, 20), Array(20).fill('unclear'));
  t.same(found.slice(20), Array(5).fill('relay'));
  refusals.taken('good');
  t.equal(refusals.refused('m0'), 'message');
  t.equal(refusals.refused('n'), 'unclear');
});

t.test('a message that is taken is forgotten; of thousands the oldest are', async (t) => {
  const { refusals } = setUp();
  refusals.refused('a');
  refusals.taken('a');
  t.equal(refusals.refused('a'), 'unclear');
  for (let index = 0; index < 5000; index++) refusals.refused(`m${index}`);
  refusals.taken('b');
  t.equal(refusals.refused('m0'), 'unclear');
  t.equal(refusals.refused('m4999'), 'message');
});
