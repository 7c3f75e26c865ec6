/** The rule by which messages and peers are blamed, row by row. */
import t from 'tap';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import { Blame, CONFIRM_MS } from '../../src/mail/delivery/blame.js';
import { Peer } from '../../src/mail/delivery/peer.js';
import type { Outcome, Suspect } from '../../src/mail/delivery/transport.js';
import { FakeClock } from '../support/clock.js';

function setUp() {
  const clock = new FakeClock();
  const config = { backoffMinMs: SECOND_MS, backoffMaxMs: 5 * MINUTE_MS };
  const peer = new Peer('peer', { config, clock, random: () => 0 });
  const blame = new Blame(clock);
  const judge = (id: string, outcome: Partial<Outcome>, hasOthers = true, before = blame.refusals(peer)) => {
    const whole: Outcome = {
      kind: 'deferred',
      suspect: null,
      isProof: false,
      reply: 'said',
      reason: 'why',
      retryAfterMs: 0,
      ...outcome,
    };
    const offer = { hasOthers, afterRefusals: before };
    return [blame.judge(peer, id, whole, offer), peer.state, peer.reason];
  };
  /** Some other message is taken. */
  const prove = () => judge('other', { kind: 'sent', isProof: true });
  const offer = (id: string, suspect: Suspect, retryAfterMs = 0) => judge(id, { suspect, retryAfterMs });
  const refuse = (id: string, suspect: Suspect, hasOthers = true) =>
    judge(id, { suspect, pauses: { firstMs: 5 * MINUTE_MS, maxMs: HOUR_MS } }, hasOthers);
  return { clock, blame, peer, judge, prove, offer, refuse };
}

t.test('a message that is taken, or refused for good, shows that the peer works', async (t) => {
  const { judge, offer } = setUp();
  offer('a', 'peer');
  t.same(judge('a', { kind: 'sent', isProof: true }), ['final', 'ok', null]);
  offer('b', 'peer');
  t.same(judge('b', { kind: 'failed', suspect: 'message' }), ['final', 'ok', null]);
});

t.test('how the first suspicion of each kind is judged', async (t) => {
  for (const [suspect, withOthers, alone] of [
    ['message', ['charged', 'ok', null], ['charged', 'ok', null]],
    ['peer', ['waits', 'failing', 'why'], ['waits', 'failing', 'why']],
    ['peer here', ['waits', 'refusing', 'why'], ['waits', 'refusing', 'why']],
    ['device', ['waits', 'refusing', 'why'], ['waits', 'refusing', 'why']],
    ['envelope', ['requeued', 'unknown', 'why'], ['waits', 'refusing', 'why']],
    ['unclear', ['unconfirmed', 'unknown', 'why'], ['charged', 'unknown', 'why']],
    ['either', ['requeued', 'failing', 'why'], ['requeued', 'failing', 'why']],
  ] as const) {
    t.same(setUp().refuse('a', suspect), withOthers, suspect);
    t.same(setUp().refuse('a', suspect, false), alone, `${suspect}, alone`);
  }
  t.same(
    setUp().offer('a', 'device'),
    ['waits', 'failing', 'why'],
    'a temporary refusal makes no long pause',
  );
});

t.test('if the peer takes others after a refusal, and refuses again, the message is to blame', async (t) => {
  for (const [suspect, judgement] of [
    ['peer here', 'charged'],
    ['envelope', 'charged'],
    ['unclear', 'failed'],
  ] as const) {
    const { clock, offer, prove, refuse } = setUp();
    prove();
    t.not(refuse('a', suspect)[0], judgement, 'a success before the refusal proves nothing');
    for (let turn = 0; turn < 3; turn++) {
      prove();
      await clock.advance(CONFIRM_MS);
      t.same(refuse('a', suspect), [judgement, 'ok', null], suspect);
    }
    t.not(offer('b', suspect)[0], judgement, 'another is not to blame');
  }
  const { clock, judge, offer, prove, refuse } = setUp();
  offer('a', 'peer');
  prove();
  t.same(offer('a', 'peer'), ['waits', 'failing', 'why'], 'a peer that cannot be reached says nothing of it');
  refuse('b', 'envelope');
  judge('b', { kind: 'failed', suspect: 'message', isProof: true });
  prove();
  t.equal(refuse('b', 'envelope')[0], 'requeued', 'a retry by hand begins anew');
  prove();
  await clock.advance(DAY_MS);
  t.equal(refuse('b', 'envelope')[0], 'requeued', 'what was taken long ago proves nothing');
});

t.test('a peer that refuses three messages in a row refuses all of them', async (t) => {
  for (const suspect of ['envelope', 'unclear'] as const) {
    const { prove, refuse } = setUp();
    const first = suspect === 'unclear' ? 'unconfirmed' : 'requeued';
    prove();
    t.same(refuse('a', suspect), [first, 'ok', 'why']);
    t.same(refuse('b', suspect), [first, 'ok', 'why']);
    t.same(refuse('c', suspect), ['waits', 'refusing', 'why']);
    prove();
    t.same(refuse('d', suspect), [first, 'ok', 'why'], 'one that it takes ends the row');
    t.same(refuse('e', suspect), [first, 'ok', 'why'], 'two are no row');
    t.same(refuse('f', suspect), ['waits', 'refusing', 'why']);
  }
});

t.test('a message that was under way when another was refused proves nothing of that', async (t) => {
  const { clock, blame, peer, refuse, judge } = setUp();
  const afterRefusals = blame.refusals(peer);
  refuse('a', 'unclear');
  judge('slow', { kind: 'sent', isProof: true }, true, afterRefusals);
  await clock.advance(CONFIRM_MS);
  t.equal(refuse('a', 'unclear')[0], 'charged');
  judge('other', { kind: 'sent', isProof: true });
  await clock.advance(MINUTE_MS);
  t.equal(refuse('a', 'unclear')[0], 'failed', 'one that was offered later does');
});

t.test('a rate limit in words that nobody knows fails nothing', async (t) => {
  // An offer takes 300 ms.
  for (const limitMs of [500, 1000, 2000, MINUTE_MS]) {
    const { clock, peer, judge, refuse } = setUp();
    const nowMs = () => clock.uncounted.bootMs();
    const waiting = Array.from({ length: 60 }, (_, n) => ({ id: `m${n}`, dueMs: 0 }));
    let takenMs = Number.NEGATIVE_INFINITY;
    while (waiting.length > 0) {
      await clock.advance(300);
      if (peer.isDown) await clock.advance(Math.max(peer.nextMs - nowMs(), 0));
      const next = waiting.findIndex(({ dueMs }) => dueMs <= nowMs());
      const [message] = next < 0 ? [] : waiting.splice(next, 1);
      if (message === undefined) continue;
      if (nowMs() - takenMs >= limitMs) {
        takenMs = nowMs();
        judge(message.id, { kind: 'sent', isProof: true });
        continue;
      }
      const [judgement] = refuse(message.id, 'unclear', waiting.length > 0);
      if (judgement === 'failed') t.fail(`one in ${limitMs} ms: ${message.id} failed`);
      else
        waiting.push({ ...message, dueMs: nowMs() + (judgement === 'unconfirmed' ? CONFIRM_MS : MINUTE_MS) });
    }
    t.pass(`one in ${limitMs} ms, over at ${nowMs()}`);
  }
});

t.test('a few bad messages among many good ones fail', async (t) => {
  const { clock, prove, refuse } = setUp();
  const judgements: unknown[] = [];
  for (let round = 0; round < 4; round++) {
    for (const id of ['bad1', 'bad2']) judgements.push(refuse(id, 'unclear')[0]);
    for (let good = 0; good < 10; good++) prove();
    await clock.advance(MINUTE_MS);
  }
  t.same(judgements.slice(-2), ['failed', 'failed']);
});

t.test('a peer that comes back and refuses its first message is refusing, not failing', async (t) => {
  const { peer, offer, refuse } = setUp();
  refuse('a', 'device');
  offer('b', 'peer');
  t.equal(peer.state, 'failing');
  t.same(refuse('a', 'unclear', false), ['waits', 'refusing', 'why']);
});

t.test('two bad messages without others fail in the end', async (t) => {
  const { clock, refuse } = setUp();
  const judgements: unknown[] = [];
  for (let hour = 0; hour < 30; hour++) {
    for (const id of ['a', 'b']) judgements.push(refuse(id, 'unclear', false)[0]);
    await clock.advance(HOUR_MS);
  }
  t.ok(judgements.includes('failed'));
  t.notOk(judgements.slice(0, 50).includes('failed'), 'a quota of a day is over by then');
});

t.test('what a quota has refused is not lost when it is refused by the next one', async (t) => {
  const { clock, prove, refuse } = setUp();
  for (let round = 0; round < 5; round++) {
    prove();
    const judgements = ['a', 'b', 'c', `d${round}`, `e${round}`, `f${round}`].map(
      (id) => refuse(id, 'unclear')[0],
    );
    t.equal(judgements.at(-1), 'waits');
    t.notOk(judgements.includes('failed'));
    if (round > 0) t.same(judgements.slice(0, 2), ['charged', 'charged'], 'only age can tell');
    await clock.advance(6 * HOUR_MS);
  }
});

t.test('a refused message that is alone is final after three refusals over more than a day', async (t) => {
  const { clock, refuse } = setUp();
  for (let n = 0; n < 26; n++) {
    if (n > 0) await clock.advance(HOUR_MS);
    t.equal(refuse('a', 'unclear', false)[0], n < 25 ? 'charged' : 'failed');
    if (n === 25) break;
  }
  const { clock: later, refuse: refuseLater } = setUp();
  refuseLater('a', 'unclear', false);
  await later.advance(2 * DAY_MS);
  t.equal(refuseLater('a', 'unclear', false)[0], 'charged', 'but not after two');
});

t.test('a peer that refuses is probed with longer pauses, until it takes a message', async (t) => {
  const { clock, peer, judge, prove, refuse } = setUp();
  for (const minutes of [5, 10, 20, 40, 60, 60]) {
    t.same(refuse(`m${minutes}`, 'device'), ['waits', 'refusing', 'why']);
    t.equal(peer.nextMs - clock.bootMs(), minutes * MINUTE_MS);
    await clock.advance(minutes * MINUTE_MS);
  }
  judge('x', { kind: 'failed', suspect: 'message' });
  t.equal(peer.state, 'refusing', 'a bad recipient shows nothing of the account');
  prove();
  t.equal(peer.state, 'ok');
});

t.test('the second connection lost in a row is charged, whatever others prove', async (t) => {
  const { judge, offer, prove } = setUp();
  t.equal(offer('a', 'either')[0], 'requeued');
  prove();
  t.equal(offer('a', 'peer')[0], 'waits', 'no offer of it');
  t.equal(offer('a', 'either')[0], 'charged');
  t.equal(offer('a', 'either')[0], 'charged');
  judge('a', { suspect: 'message' });
  t.equal(offer('a', 'either')[0], 'requeued', 'not in a row');
});

t.test('the pause that a peer asks for is kept, also if a message is charged', async (t) => {
  const { clock, peer, offer, prove } = setUp();
  offer('a', 'peer here');
  prove();
  t.same(offer('a', 'peer here', MINUTE_MS), ['charged', 'failing', 'why']);
  t.equal(peer.nextMs - clock.bootMs(), MINUTE_MS);
});
