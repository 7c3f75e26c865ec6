/** The counts of mails in windows of the past, against all of them one by one. */
import t from 'tap';
import { DAY_MS, HOUR_MS, SECOND_MS } from '../../src/base/limits.js';
import type { Stamp } from '../../src/base/stamp.js';
import { type Bucket, Tally } from '../../src/mail/store/tally.js';
import { pick, seededRandom, testSeed } from '../support/random.js';

const seed = testSeed();
t.comment(`FIELDPOST_TEST_SEED=${seed}`);

const WINDOWS = [SECOND_MS, HOUR_MS, DAY_MS];

t.test('a window never counts too few, and at most 1/31 too many', async (t) => {
  const random = seededRandom(seed);
  for (let round = 0; round < 60; round++) {
    let tally = new Tally();
    const sentMs: number[] = [];
    let nowMs = 0;
    const ageOf = ({ bootMs }: Stamp) => nowMs - bootMs;
    const paceMs = pick(random, [1, 100, SECOND_MS, 60 * SECOND_MS, HOUR_MS]);
    for (let step = 0; step < 1000; step++) {
      nowMs += Math.ceil(random() < 0.5 ? 0 : random() * 2 * paceMs);
      tally.add({ boot: 'b', bootMs: nowMs });
      sentMs.push(nowMs);
      if (random() < 0.9) continue;
      nowMs += Math.ceil(random() * 10 * paceMs);
      // As a restart does, and as a checkpoint does.
      if (random() < 0.3) tally = new Tally(JSON.parse(JSON.stringify(tally.buckets)) as Bucket[]);
      if (random() < 0.3) tally.trim(DAY_MS, ageOf);
      for (const windowMs of WINDOWS) {
        const exact = sentMs.filter((ms) => nowMs - ms < windowMs).length;
        const counted = tally.within(windowMs, ageOf);
        if (counted < exact || counted > exact + exact / 31 + 1)
          t.fail(`${counted} of ${exact} in ${windowMs}`);
        const most = Math.floor(random() * (exact + 2));
        const waitMs = tally.waitMs(windowMs, most, ageOf);
        const after = sentMs.filter((ms) => nowMs + waitMs - ms < windowMs).length;
        if (after > most) t.fail(`${after} after the wait for ${most} in ${windowMs}`);
        if (waitMs > 0 !== counted > most) t.fail(`waits ${waitMs} for ${most} with ${counted}`);
      }
    }
    t.ok(tally.buckets.length <= 32 * (1 + Math.log2(1000 / 32)) + 8, `${tally.buckets.length} buckets`);
  }
});

t.test('up to 32 mails are counted exactly', async (t) => {
  const tally = new Tally();
  for (let ms = 0; ms < 32; ms++) tally.add({ boot: 'b', bootMs: ms });
  for (let nowMs = 31; nowMs < 80; nowMs++) {
    const exact = Array.from({ length: 32 }, (_, ms) => ms).filter((ms) => nowMs - ms < 40).length;
    t.equal(
      tally.within(40, ({ bootMs }) => nowMs - bootMs),
      exact,
    );
  }
});

t.test('a mail before another is as old at least, also if its own age is less certain', async (t) => {
  const tally = new Tally();
  tally.add({ boot: 'lost', bootMs: 5 });
  tally.add({ boot: 'known', bootMs: 5 });
  tally.add({ boot: 'now', bootMs: 5 });
  const ageOf = ({ boot }: Stamp) => ({ lost: 10, known: 100, now: 1 })[boot] ?? 0;
  t.equal(tally.within(50, ageOf), 1);
  tally.trim(50, ageOf);
  t.same(tally.buckets, [[1, 'now', 5]]);
});

t.test('a million mails take a few hundred buckets', async (t) => {
  const tally = new Tally();
  for (let count = 0; count < 1_000_000; count++) tally.add({ boot: 'b', bootMs: count });
  t.ok(tally.buckets.length < 600, `${tally.buckets.length}`);
  t.equal(
    tally.buckets.reduce((sum, [count]) => sum + count, 0),
    1_000_000,
  );
});
