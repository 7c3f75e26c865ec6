import t from 'tap';
import { isExpired, Reachability } from '../../src/delivery/age.js';

t.test('time counts from one word of a relay to the next', async (t) => {
  const reachability = new Reachability(100);
  t.equal(reachability.sinceMs(0), 0);
  for (const nowMs of [1000, 1100, 1150]) reachability.contact(nowMs);
  t.equal(reachability.sinceMs(0), 150, 'what was before the first word is unknown');
  t.equal(reachability.sinceMs(1120), 30, 'only from the acceptance on');
  t.equal(reachability.sinceMs(1200), 0);
});

t.test('time without a relay does not count, nor any of which nothing is known', async (t) => {
  const reachability = new Reachability(100);
  reachability.contact(1000);
  reachability.contact(1050);
  reachability.missed();
  reachability.contact(1060);
  reachability.contact(1070);
  t.equal(reachability.sinceMs(0), 60, 'it was missed in between');
  reachability.contact(1171);
  t.equal(reachability.sinceMs(0), 60, 'a longer silence may hide anything');
  reachability.contact(1271);
  t.equal(reachability.sinceMs(0), 160);
});

t.test(
  'however often a link flaps, memory is bounded, and what is forgotten makes nothing older',
  async (t) => {
    const reachability = new Reachability(100);
    for (let turn = 0; turn < 5000; turn++) {
      reachability.contact(turn * 10);
      reachability.contact(turn * 10 + 1);
      reachability.missed();
    }
    t.equal(reachability.sinceMs(0), 1000);
  },
);

t.test('a message expires at its limit', async (t) => {
  t.same(
    [0, 99, 100, 101].map((ageMs) => isExpired(ageMs, 100)),
    [false, false, true, true],
  );
});
