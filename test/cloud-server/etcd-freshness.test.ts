/** How old memory is, and whether an outage made it so. */
import t from 'tap';
import { Freshness } from '../../src/cloud-server/etcd/freshness.js';
import { FLEET_STALE_MS, FLEET_TICK_MS } from '../../src/limits.js';

/** An instance that begins at 0, and sees the ticks of these others. */
function begun(ticks: Record<string, number>) {
  const others = new Map(Object.entries(ticks));
  const freshness = new Freshness(() => others);
  freshness.begin(0);
  let revision = 0;
  /** A tick of its own at this moment comes back at once. True: there was an outage. */
  const tick = (atMs: number, ticks: Record<string, number>) => {
    for (const [name, count] of Object.entries(ticks)) others.set(name, count);
    freshness.stepped(++revision);
    return freshness.sent(atMs, revision);
  };
  return { tick };
}

t.test('at the start there was an outage unless another that was there goes on', async (t) => {
  t.equal(begun({}).tick(FLEET_STALE_MS, {}), true, 'it is alone');
  t.equal(begun({ b: 7 }).tick(FLEET_STALE_MS, { b: 7 }), true, 'the other is dead');
  t.equal(begun({ b: 7 }).tick(FLEET_STALE_MS, { b: 12 }), false);
  t.equal(begun({ b: 7 }).tick(FLEET_STALE_MS, { b: 8 }), false, 'the other is slow');
  t.equal(begun({}).tick(FLEET_STALE_MS, { b: 5 }), true, 'the other has started with it');
});

t.test('later there was one if memory stood still, and the others as well', async (t) => {
  const ticksIn = (ms: number) => Math.floor(ms / FLEET_TICK_MS);
  const at = (passedMs: number, ticks: number) => {
    const { tick } = begun({ b: 0 });
    tick(FLEET_STALE_MS, { b: 5 });
    return tick(FLEET_STALE_MS + passedMs, { b: 5 + ticks });
  };
  t.equal(at(FLEET_TICK_MS, 1), false);
  t.equal(at(FLEET_STALE_MS, 0), false, 'not longer than an election');
  t.equal(at(60_000, ticksIn(60_000)), false, 'only this one was away');
  t.equal(at(60_000, 1), true);
  t.equal(at(60_000, ticksIn(20_000)), true, 'nearly always');
});
