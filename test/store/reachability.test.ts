/** The count of reachable time, and where the age of a message begins on it. */
import t from 'tap';
import { Reachability } from '../../src/mail/store/reachability.js';

/** Hears a relay at each of these times. */
function heardAt(reachability: Reachability, ...times: number[]): Reachability {
  for (const nowMs of times) reachability.heard(nowMs, 100);
  return reachability;
}

t.test('time counts from one word of a relay to the next, on top of what was written down', async (t) => {
  const reachability = new Reachability(5000);
  t.equal(reachability.countedMs, 5000);
  heardAt(reachability, 1000);
  t.equal(reachability.countedMs, 5000, 'what was before the first word is unknown');
  heardAt(reachability, 1100, 1150);
  t.equal(reachability.countedMs, 5150);
});

t.test('time without a relay and unknown time do not count', async (t) => {
  const reachability = heardAt(new Reachability(0), 1000, 1050);
  reachability.missed();
  heardAt(reachability, 1060, 1070);
  t.equal(reachability.countedMs, 60, 'it was missed in between');
  heardAt(reachability, 1171);
  t.equal(reachability.countedMs, 60, 'a longer silence may hide anything');
  heardAt(reachability, 1271);
  t.equal(reachability.countedMs, 160);
});

t.test('an age counts no time before its beginning, also between two words of a relay', async (t) => {
  for (const bornMs of [1000, 1040, 1099, 1100]) {
    const reachability = heardAt(new Reachability(7), 1000);
    const start = reachability.startMs(bornMs);
    heardAt(reachability, 1100, 1200);
    t.equal(reachability.countedMs - start, 1200 - bornMs);
  }
  const silent = heardAt(new Reachability(7), 1000);
  t.equal(silent.startMs(1101), 7, 'a silence too long to count counts for nobody');
  const missed = heardAt(new Reachability(7), 1000);
  missed.missed();
  t.equal(missed.startMs(1040), 7);
});
