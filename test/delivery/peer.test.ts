import t from 'tap';
import { MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import { choosePeer, chooseProbe, nextPeerMs, Peer, type PeerOptions } from '../../src/mail/delivery/peer.js';
import { FakeClock } from '../support/clock.js';

function setUp() {
  const clock = new FakeClock();
  const changes: unknown[] = [];
  const config = { backoffMinMs: SECOND_MS, backoffMaxMs: 5 * MINUTE_MS };
  const onChange: PeerOptions['onChange'] = (_, why) =>
    changes.push('reason' in why ? why.reason : why.failedMs);
  const create = (name: string) => new Peer(name, { config, clock, random: () => 0, onChange });
  const [first, spare, third] = [create('first'), create('spare'), create('third')];
  return { clock, changes, first, spare, third };
}

t.test('each failure makes the pause longer; a request to try now ends it', async (t) => {
  const { clock, first } = setUp();
  for (const seconds of [1, 2, 4]) {
    t.ok(first.isAvailable());
    t.ok(first.begin(), 'it is a probe');
    first.failed('no');
    first.endProbe();
    t.notOk(first.isAvailable());
    t.equal(first.nextMs - clock.bootMs(), seconds * SECOND_MS);
    await clock.advance(seconds * SECOND_MS);
  }
  first.begin();
  first.failed('no');
  first.endProbe();
  first.wake();
  t.ok(first.isAvailable());
  first.failed('no', MINUTE_MS);
  first.wake();
  t.equal(first.nextMs - clock.bootMs(), MINUTE_MS, 'but not one that it has asked for');
});

t.test('one probe runs at a time, and a good one lets all messages go', async (t) => {
  const { first } = setUp();
  t.ok(first.begin());
  t.notOk(first.isAvailable());
  t.equal(first.nextMs, Number.POSITIVE_INFINITY);
  first.good();
  first.endProbe();
  t.notOk(first.begin(), 'no probe');
  t.ok(first.isAvailable());
});

t.test('a probe that began before the network changed says nothing of the new one', async (t) => {
  const { clock, first } = setUp();
  first.failed('no');
  await clock.advance(first.nextMs - clock.bootMs());
  t.equal(first.begin(), true);
  first.wake();
  t.notOk(first.isAvailable(), 'one at a time');
  first.failed('no answer');
  first.endProbe();
  t.ok(first.isAvailable(), 'the next need not wait');
  t.equal(first.begin(), true);
  first.failed('no answer');
  first.endProbe();
  t.notOk(first.isAvailable(), 'but the one after that');
});

t.test(
  'each change of state is told once, and the state dates from it by the wall as it is now',
  async (t) => {
    const { clock, changes, first } = setUp();
    const at = clock.wallMs();
    t.match(first, { state: 'unknown', sinceMs: at, reason: null });
    await clock.advance(10);
    for (const reason of ['no such host', 'refused']) {
      first.failed(reason);
      await clock.advance(SECOND_MS);
    }
    t.match(first, { state: 'failing', sinceMs: at + 10, reason: 'refused' });
    clock.leap(-1_000_000);
    t.equal(first.sinceMs, at + 10 - 1_000_000);
    first.good();
    first.good();
    t.match(first, { state: 'ok', reason: null });
    t.same(changes, ['no such host', 2 * SECOND_MS]);
  },
);

t.test('peers are used in order, a later one only while the earlier fail', async (t) => {
  const { clock, first, spare } = setUp();
  const both = [first, spare];
  t.equal(choosePeer(both), first);
  first.begin();
  t.equal(choosePeer(both), null, 'not while the first is being tried for the first time');
  t.equal(nextPeerMs(both), Number.POSITIVE_INFINITY, 'the probe will tell');
  first.failed('no');
  first.endProbe();
  t.equal(choosePeer(both), spare);
  spare.good();
  const retryMs = first.nextMs;
  spare.failed('down, too');
  t.equal(choosePeer(both), null);
  t.equal(nextPeerMs(both), retryMs);
  await clock.advance(SECOND_MS);
  t.equal(choosePeer(both), first, 'back to the first as soon as it may be tried');
});

t.test('without a peer there is nothing to choose or to wait for', async (t) => {
  t.equal(choosePeer([]), null);
  t.equal(nextPeerMs([]), Number.POSITIVE_INFINITY);
});

t.test('however long each try hangs, every peer has its turn', async (t) => {
  const { clock, first, spare, third } = setUp();
  const all = [first, spare, third];
  for (const peer of all) {
    t.equal(choosePeer(all), peer);
    peer.begin();
    t.equal(choosePeer(all), null, 'not while one is tried for the first time');
    // Far longer than the first pause of those before it.
    await clock.advance(20 * SECOND_MS);
    if (peer === third) peer.good();
    else peer.failed('no answer');
    peer.endProbe();
  }
  t.equal(choosePeer(all), third, 'what works is used, whatever may be tried again');
  t.equal(chooseProbe(all), first);
  first.begin();
  t.equal(chooseProbe(all), spare);
  spare.begin();
  t.equal(chooseProbe(all), null);
  third.failed('down, too');
  spare.endProbe();
  t.equal(choosePeer(all), spare, 'where none works each is tried');
  t.equal(chooseProbe(all), null);
});

t.test('a refusal for one message is shown until the relay takes one, or fails', async (t) => {
  const { first } = setUp();
  const shown = () => [first.state, first.reason];
  first.suspected('it does not take our name');
  t.same(shown(), ['unknown', 'it does not take our name']);
  t.ok(first.isAvailable(), 'the next message shows more');
  first.good();
  t.same(shown(), ['ok', null]);
  first.suspected('it does not take our name');
  t.same(shown(), ['ok', 'it does not take our name']);
  first.good();
  t.same(shown(), ['ok', null]);
  first.failed('no connection');
  first.suspected('it does not take our name');
  t.same(shown(), ['failing', 'no connection']);
});
