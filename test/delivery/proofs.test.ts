import t from 'tap';
import { Proofs } from '../../src/delivery/proofs.js';
import { DAY_MS } from '../../src/limits.js';
import { FakeClock } from '../support/clock.js';

function setUp() {
  const clock = new FakeClock();
  return { clock, proofs: new Proofs(clock) };
}

t.test('a relay that refuses all messages is failing; no message is to blame', async (t) => {
  const { proofs } = setUp();
  t.equal(proofs.refused('a'), 'unclear', 'the next may go through');
  t.equal(proofs.refused('b'), 'unclear');
  for (let turn = 0; turn < 5; turn++) {
    t.equal(proofs.refused('a'), 'peer');
    t.equal(proofs.refused('b'), 'peer');
  }
});

t.test('a message that is refused again while others are taken is to blame from then on', async (t) => {
  const { clock, proofs } = setUp();
  t.equal(proofs.refused('a'), 'unclear');
  proofs.taken('b');
  for (let turn = 0; turn < 5; turn++) t.equal(proofs.refused('a'), 'message');
  t.equal(proofs.refused('c'), 'unclear', 'another is not');
  await clock.advance(DAY_MS);
  t.equal(proofs.refused('a'), 'unclear', 'what was taken long ago proves nothing');
  t.equal(proofs.refused('a'), 'peer');
});

t.test('a message that is taken is forgotten; of thousands the oldest are', async (t) => {
  const { proofs } = setUp();
  proofs.refused('a');
  proofs.taken('a');
  t.equal(proofs.refused('a'), 'unclear');
  for (let index = 0; index < 5000; index++) proofs.refused(`m${index}`);
  proofs.taken('b');
  t.equal(proofs.refused('m0'), 'unclear');
  t.equal(proofs.refused('m4999'), 'message');
});
