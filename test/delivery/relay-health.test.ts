import t from 'tap';
import { chooseProbe, chooseRelay, nextRelayMs } from '../../src/delivery/relay-choice.js';
import { type HealthOptions, overallState, RelayHealth } from '../../src/delivery/relay-health.js';
import { MINUTE_MS, PEER_GOOD_MS, SECOND_MS } from '../../src/limits.js';
import { FakeClock } from '../support/clock.js';
import { RELAY, SPARE } from '../support/delivery.js';

function setUp() {
  const clock = new FakeClock();
  const lines: string[] = [];
  const note = (event: string, fields = {}) => lines.push([event, ...Object.values(fields)].join(' '));
  const log = { debug: note, info: note, warn: note, error: note };
  const config = { backoffMinMs: SECOND_MS, backoffMaxMs: 5 * MINUTE_MS };
  const options: HealthOptions = { config, clock, random: () => 0, log };
  return { clock, lines, first: new RelayHealth(RELAY, options), spare: new RelayHealth(SPARE, options) };
}

t.test('failing again and again, it is left alone longer and longer', async (t) => {
  const { clock, first } = setUp();
  for (const seconds of [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]) {
    t.ok(first.isAvailable());
    t.ok(first.begin(), 'it is a probe');
    first.failed('no');
    first.endProbe();
    t.notOk(first.isAvailable());
    t.equal(first.nextMs - clock.bootMs(), seconds * SECOND_MS);
    await clock.advance(seconds * SECOND_MS - 1);
    t.notOk(first.isAvailable());
    await clock.advance(1);
  }
});

t.test('the back-off starts anew only after it has been good for a while', async (t) => {
  const { clock, first } = setUp();
  const failedFor = () => first.nextMs - clock.bootMs();
  const fail = async () => {
    first.failed('no');
    const waitMs = failedFor();
    await clock.advance(waitMs);
    return waitMs;
  };
  await fail();
  await fail();
  first.good();
  await clock.advance(PEER_GOOD_MS - 1);
  first.good();
  t.equal(await fail(), 4 * SECOND_MS);
  first.good();
  await clock.advance(PEER_GOOD_MS);
  t.equal(await fail(), SECOND_MS);
});

t.test('one probe at a time, and once it is good it serves all', async (t) => {
  const { first } = setUp();
  t.ok(first.begin());
  t.notOk(first.isAvailable());
  t.equal(first.nextMs, Number.POSITIVE_INFINITY);
  first.good();
  first.endProbe();
  t.notOk(first.begin(), 'no probe');
  t.ok(first.isAvailable());
});

t.test('connections that break together are one failure', async (t) => {
  const { clock, first } = setUp();
  first.good();
  for (let line = 0; line < 4; line++) first.failed('reset');
  t.equal(first.nextMs - clock.bootMs(), SECOND_MS);
});

t.test('woken, it is tried at once, and the back-off goes on where it was', async (t) => {
  const { clock, first } = setUp();
  for (let turn = 0; turn < 3; turn++) {
    first.begin();
    first.failed('no');
    first.endProbe();
    t.notOk(first.isAvailable());
    first.wake();
    t.ok(first.isAvailable());
  }
  first.begin();
  first.failed('no');
  first.endProbe();
  t.equal(first.nextMs - clock.bootMs(), 8 * SECOND_MS);
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

t.test('each change of state is logged once; a state tells since when and why', async (t) => {
  const { clock, lines, first } = setUp();
  const at = clock.wallMs();
  t.match(overallState([first], at), { state: 'unknown', sinceMs: at, reason: null });
  await clock.advance(10);
  for (const reason of ['no such host', 'refused']) {
    first.failed(reason);
    await clock.advance(SECOND_MS);
  }
  t.match(overallState([first], at), {
    state: 'failing',
    sinceMs: at + 10,
    reason: 'relay.example:587: refused',
  });
  clock.leap(-1_000_000);
  t.equal(first.sinceMs, at + 10 - 1_000_000, 'the past is told on the clock of today');
  first.good();
  first.good();
  t.match(overallState([first], at), { state: 'ok', reason: null });
  t.same(lines, ['relay failing relay.example:587 no such host', 'relay ok relay.example:587 2000']);
});

t.test('relays are used in order, a later one only while the earlier fail', async (t) => {
  const { clock, first, spare } = setUp();
  const both = [first, spare];
  t.equal(chooseRelay(both), first);
  first.begin();
  t.equal(chooseRelay(both), null, 'not while the first is being tried for the first time');
  t.equal(nextRelayMs(both), Number.POSITIVE_INFINITY, 'the probe will tell');
  first.failed('no');
  first.endProbe();
  t.equal(chooseRelay(both), spare);
  spare.good();
  t.match(overallState(both, 0), { state: 'ok', reason: 'relay.example:587: no' });
  const retryMs = first.nextMs;
  spare.failed('down, too');
  t.equal(chooseRelay(both), null);
  t.equal(nextRelayMs(both), retryMs);
  t.match(overallState(both, 0), {
    state: 'failing',
    reason: 'relay.example:587: no; spare.example:587: down, too',
  });
  await clock.advance(SECOND_MS);
  t.equal(chooseRelay(both), first, 'back to the first as soon as it may be tried');
});

t.test('without a relay there is nothing to choose or to wait for', async (t) => {
  t.equal(chooseRelay([]), null);
  t.equal(nextRelayMs([]), Number.POSITIVE_INFINITY);
  t.same(overallState([], 5), { state: 'none', sinceMs: 5, reason: null });
});

t.test('however long each try hangs, every relay has its turn', async (t) => {
  const { clock, first, spare } = setUp();
  const third = setUp().first;
  const all = [first, spare, third];
  for (const health of all) {
    t.equal(chooseRelay(all), health);
    health.begin();
    t.equal(chooseRelay(all), null, 'not while one is tried for the first time');
    // Far longer than the first pause of those before it.
    await clock.advance(20 * SECOND_MS);
    if (health === third) health.good();
    else health.failed('no answer');
    health.endProbe();
  }
  t.match(overallState(all, 0), { state: 'ok' });
  t.equal(chooseRelay(all), third, 'what works is used, whatever may be tried again');
  t.equal(chooseProbe(all), first);
  first.begin();
  t.equal(chooseProbe(all), spare);
  spare.begin();
  t.equal(chooseProbe(all), null);
  third.failed('down, too');
  spare.endProbe();
  t.equal(chooseRelay(all), spare, 'where none works each is tried');
  t.equal(chooseProbe(all), null);
});

t.test('a relay that nobody needed yet does not hide that mail waits', async (t) => {
  const { first, spare } = setUp();
  first.begin();
  first.failed('no');
  first.endProbe();
  t.match(overallState([first, spare], 0), { state: 'failing', reason: /no/ });
});

t.test('what it refused over one message is told until it takes one, or fails', async (t) => {
  const { clock, first } = setUp();
  const shown = () => [first.state, first.reason];
  first.suspected('it does not take our name');
  t.same(shown(), ['unknown', `${first.name}: it does not take our name`]);
  t.ok(first.isAvailable(), 'the next message shows more');
  first.good();
  t.same(shown(), ['ok', null]);
  first.suspected('it does not take our name');
  t.match(overallState([first], clock.wallMs()), { state: 'ok', reason: /our name/ });
  first.good();
  t.same(shown(), ['ok', null]);
  first.failed('no connection');
  first.suspected('it does not take our name');
  t.same(shown(), ['failing', `${first.name}: no connection`]);
});
