/** The rule by which messages and peers are blamed, row by row. */
import t from 'tap';
import { Blame } from '../../src/delivery/blame.js';
import { Peer } from '../../src/delivery/peer.js';
import type { Outcome, Suspect } from '../../src/delivery/transport.js';
import { DAY_MS, MINUTE_MS, SECOND_MS } from '../../src/limits.js';
import { FakeClock } from '../support/clock.js';

function setUp() {
  const clock = new FakeClock();
  const config = { backoffMinMs: SECOND_MS, backoffMaxMs: 5 * MINUTE_MS };
  const peer = new Peer('peer', { config, clock, random: () => 0 });
  const blame = new Blame();
  const judge = (id: string, outcome: Partial<Outcome>) => {
    const whole: Outcome = {
      kind: 'deferred',
      suspect: null,
      isProof: false,
      reply: 'said',
      reason: 'why',
      retryAfterMs: 0,
      ...outcome,
    };
    return [blame.judge(peer, id, whole), peer.state, peer.reason];
  };
  /** Some other message is taken. */
  const prove = () => judge('other', { kind: 'sent', isProof: true });
  const offer = (id: string, suspect: Suspect, retryAfterMs = 0) => judge(id, { suspect, retryAfterMs });
  return { clock, peer, judge, prove, offer };
}

t.test('a message that is taken, or refused for good, shows that the peer works', async (t) => {
  const { judge, offer } = setUp();
  offer('a', 'peer');
  t.same(judge('a', { kind: 'sent', isProof: true }), ['final', 'ok', null]);
  offer('b', 'peer');
  t.same(judge('b', { kind: 'failed', suspect: 'message' }), ['final', 'ok', null]);
});

t.test('how the first suspicion of each kind is judged', async (t) => {
  for (const [suspect, message, state] of [
    ['message', 'charged', 'ok'],
    ['peer', 'waits', 'failing'],
    ['peer here', 'waits', 'failing'],
    ['us', 'behind', 'unknown'],
    ['either', 'behind', 'failing'],
  ] as const) {
    const { offer } = setUp();
    t.same(offer('a', suspect), [message, state, suspect === 'message' ? null : 'why'], suspect);
  }
});

t.test('if others show that the peer works, the message is to blame', async (t) => {
  for (const suspect of ['peer here', 'us'] as const) {
    const { offer, prove } = setUp();
    offer('a', suspect);
    prove();
    for (let turn = 0; turn < 3; turn++) t.same(offer('a', suspect), ['charged', 'ok', null], suspect);
    t.not(offer('b', suspect)[0], 'charged', 'another is not to blame');
  }
  const { clock, judge, offer, prove } = setUp();
  offer('a', 'peer');
  prove();
  t.same(offer('a', 'peer'), ['waits', 'failing', 'why'], 'a peer that cannot be reached says nothing of it');
  offer('b', 'us');
  judge('b', { kind: 'failed', suspect: 'message', isProof: true });
  prove();
  t.equal(offer('b', 'us')[0], 'behind', 'a retry by hand begins anew');
  prove();
  await clock.advance(DAY_MS);
  t.equal(offer('b', 'us')[0], 'behind', 'what was taken long ago proves nothing');
});

t.test('a peer that refuses us over many different messages is failing', async (t) => {
  const { offer, prove } = setUp();
  prove();
  for (let n = 0; n < 20; n++) t.same(offer(`m${n}`, 'us'), ['behind', 'ok', 'why']);
  t.same(offer('m20', 'us'), ['waits', 'failing', 'why']);
  prove();
  t.same(offer('m21', 'us'), ['behind', 'ok', 'why'], 'one that it takes ends the row');
  const again = setUp();
  again.offer('a', 'us');
  t.same(again.offer('a', 'us'), ['waits', 'failing', 'why'], 'or twice over one, and nothing else passes');
});

t.test('the second connection lost in a row is charged, whatever others prove', async (t) => {
  const { judge, offer, prove } = setUp();
  t.equal(offer('a', 'either')[0], 'behind');
  prove();
  t.equal(offer('a', 'peer')[0], 'waits', 'no offer of it');
  t.equal(offer('a', 'either')[0], 'charged');
  t.equal(offer('a', 'either')[0], 'charged');
  judge('a', { suspect: 'message' });
  t.equal(offer('a', 'either')[0], 'behind', 'not in a row');
});

t.test('the pause that a peer asks for is kept, also if a message is charged', async (t) => {
  const { clock, peer, offer, prove } = setUp();
  offer('a', 'peer here');
  prove();
  t.same(offer('a', 'peer here', MINUTE_MS), ['charged', 'failing', 'why']);
  t.equal(peer.nextMs - clock.bootMs(), MINUTE_MS);
});
