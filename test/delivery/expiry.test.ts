/** When a message is too old: emails by the time in which a relay was reachable, all others by all time. */
import t from 'tap';
import { DAY_MS } from '../../src/base/limits.js';
import { Expiry } from '../../src/mail/delivery/expiry.js';
import { OutcomeWriter } from '../../src/mail/delivery/outcome-writer.js';
import type { MessageType } from '../../src/mail/message/message.js';
import { FakeClock } from '../support/clock.js';
import { post } from '../support/delivery.js';
import { draftTo } from '../support/drafts.js';
import { newDisk, openQuietly } from '../support/store.js';
import { keptLog } from '../support/system.js';

async function bench(type: MessageType) {
  const clock = new FakeClock();
  const { store } = await openQuietly(clock);
  const [id = ''] = await post(store, 1, type);
  const message = store.get(id);
  if (!message) throw new Error('there is no message');
  const maxAgeMs = { 1: DAY_MS, 2: DAY_MS, 3: DAY_MS, 4: DAY_MS };
  const nobody = { deferred: () => undefined, relieved: () => undefined };
  const writer = new OutcomeWriter({ store, clock, log: keptLog().log }, nobody);
  const expiry = new Expiry({ store, clock, config: { maxAgeMs }, writer, reasonOf: () => null });
  return { clock, store, message, maxAgeMs, expiry, isOver: () => expiry.isOver(message, true) };
}

t.test('an email expires at its limit of reachable time, to the millisecond', async (t) => {
  const { clock, store, message, expiry, isOver } = await bench(1);
  store.reachability.heard(clock.bootMs(), DAY_MS);
  await clock.advance(DAY_MS - 1);
  store.reachability.heard(clock.bootMs(), DAY_MS);
  t.equal(isOver(), false);
  await clock.advance(1);
  store.reachability.heard(clock.bootMs(), DAY_MS);
  t.equal(isOver(), true);
  t.equal(expiry.isOver(message, false), false, 'it is offered first');
});

t.test('an email does not age without a relay; the others do', async (t) => {
  for (const [type, expires] of [
    [1, false],
    [2, true],
    [3, true],
    [4, true],
  ] as const) {
    const { clock, store, maxAgeMs, isOver } = await bench(type);
    store.reachability.heard(clock.bootMs(), DAY_MS);
    store.reachability.missed();
    await clock.advance(DAY_MS);
    store.reachability.heard(clock.bootMs(), DAY_MS);
    t.equal(isOver(), expires, `type ${type}`);
    maxAgeMs[type]++;
    t.equal(isOver(), false, `type ${type}, a moment before`);
  }
});

t.test('a message that was queued again ages from then on', async (t) => {
  const { clock, message, isOver } = await bench(2);
  await clock.advance(DAY_MS);
  message.retried = { boot: clock.boot, bootMs: clock.bootMs() };
  t.equal(isOver(), false);
  await clock.advance(DAY_MS);
  t.equal(isOver(), true);
});

t.test('a message that becomes too old while it is claimed expires when it is given back', async (t) => {
  const { clock, store, message, expiry } = await bench(3);
  expiry.start();
  store.claim(message.id);
  await clock.advance(2 * DAY_MS);
  t.equal(message.status, 'sending');
  t.equal(clock.fired, 1, 'nobody looks again and again');
  store.giveBack(message.id);
  expiry.expect(message);
  await clock.advance(0);
  t.match(store.get(message.id), { status: 'expired', lastReply: /before it was offered/ });
  await expiry.stop();
});

t.test('a message that says how long it is of use expires by then, without a link and on hold', async (t) => {
  const { clock, store, expiry } = await bench(1);
  expiry.start();
  await store.hold();
  const { ids } = await store.accept([{ ...draftTo('a'), lifeMs: 60_000 }, draftTo('b')], null);
  expiry.nudge(60_000);
  await clock.advance(59_999);
  t.equal(store.get(ids[0] as string)?.status, 'queued');
  await clock.advance(1);
  t.match(store.get(ids[0] as string), { status: 'expired', lastReply: /before it was offered to a relay/ });
  t.equal(store.get(ids[1] as string)?.status, 'queued', 'no other email does');
  await expiry.stop();
});

t.test('its life goes on through a restart', async (t) => {
  const clock = new FakeClock();
  const disk = newDisk();
  const { store } = await openQuietly(clock, { disk });
  const { ids } = await store.accept([{ ...draftTo('a'), lifeMs: 60_000 }], null);
  await clock.advance(30_000);
  const { store: again } = await openQuietly(clock, { disk: disk.afterKill(), seed: 2 });
  const nobody = { deferred: () => undefined, relieved: () => undefined };
  const writer = new OutcomeWriter({ store: again, clock, log: keptLog().log }, nobody);
  const maxAgeMs = { 1: DAY_MS, 2: DAY_MS, 3: DAY_MS, 4: DAY_MS };
  const expiry = new Expiry({ store: again, clock, config: { maxAgeMs }, writer, reasonOf: () => null });
  expiry.start();
  await clock.advance(29_999);
  t.equal(again.get(ids[0] as string)?.status, 'queued');
  await clock.advance(1);
  t.equal(again.get(ids[0] as string)?.status, 'expired');
  await expiry.stop();
});
