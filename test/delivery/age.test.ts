/** When a message is too old: emails by the time in which a relay was reachable, all others by all time. */
import t from 'tap';
import { isExpired } from '../../src/delivery/age.js';
import { DAY_MS } from '../../src/limits.js';
import type { MessageType } from '../../src/message/message.js';
import { FakeClock } from '../support/clock.js';
import { post } from '../support/delivery.js';
import { openQuietly } from '../support/store.js';

async function bench(type: MessageType) {
  const clock = new FakeClock();
  const { store } = await openQuietly(clock);
  const [id = ''] = await post(store, 1, type);
  const message = store.get(id);
  if (!message) throw new Error('there is no message');
  const expiresAt = (maxAgeMs: number) => isExpired(message, maxAgeMs, store, clock);
  return { clock, store, message, expiresAt };
}

t.test('an email expires at its limit of reachable time, to the millisecond', async (t) => {
  const { clock, store, expiresAt } = await bench(1);
  store.reachability.heard(clock.bootMs(), DAY_MS);
  await clock.advance(DAY_MS - 1);
  store.reachability.heard(clock.bootMs(), DAY_MS);
  t.equal(expiresAt(DAY_MS), false);
  await clock.advance(1);
  store.reachability.heard(clock.bootMs(), DAY_MS);
  t.equal(expiresAt(DAY_MS), true);
});

t.test('an email does not age without a relay; the others do', async (t) => {
  for (const [type, expires] of [
    [1, false],
    [2, true],
    [3, true],
    [4, true],
  ] as const) {
    const { clock, store, expiresAt } = await bench(type);
    store.reachability.heard(clock.bootMs(), DAY_MS);
    store.reachability.missed();
    await clock.advance(DAY_MS);
    store.reachability.heard(clock.bootMs(), DAY_MS);
    t.equal(expiresAt(DAY_MS), expires, `type ${type}`);
    t.equal(expiresAt(DAY_MS + 1), false, `type ${type}, a moment before`);
  }
});

t.test('what was queued anew counts from there', async (t) => {
  const { clock, message, expiresAt } = await bench(2);
  await clock.advance(DAY_MS);
  message.retried = { boot: clock.boot, bootMs: clock.bootMs() };
  t.equal(expiresAt(DAY_MS), false);
  await clock.advance(DAY_MS);
  t.equal(expiresAt(DAY_MS), true);
});
