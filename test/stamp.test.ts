/** Ages and dates of moments: in this boot, in another, with a wall that is right, wrong, or was once. */
import t from 'tap';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../src/base/limits.js';
import type { Boot } from '../src/base/stamp.js';
import { ageMs, bootNews, dateMsOf, hasLeapt, stampOf, wallMsOf } from '../src/base/stamp.js';
import { FakeClock } from './support/clock.js';

const YEARS_MS = 50 * 365 * DAY_MS;
const WALL_MS = Date.UTC(2026, 10, 20, 9);

/** What a store does: enters what is new, and stamps. */
function stamped(clock: FakeClock, boots: Map<string, Boot>) {
  const news = bootNews(clock, boots);
  if (news) boots.set(clock.boot, news);
  return stampOf(clock);
}

t.test('within a boot only the boot’s clock tells an age', async (t) => {
  const clock = new FakeClock();
  const boots = new Map<string, Boot>();
  const stamp = stamped(clock, boots);
  t.equal(ageMs(stamp, clock, boots), 0);
  clock.leap(YEARS_MS);
  await clock.advance(HOUR_MS);
  clock.suspend(DAY_MS);
  clock.leap(-2 * YEARS_MS);
  clock.confirm();
  t.equal(ageMs(stamp, clock, boots), HOUR_MS + DAY_MS);
  t.equal(ageMs(stampOf(clock, MINUTE_MS), clock, boots), 0, 'what is to come has no age');
});

t.test('across boots the wall counts if it was confirmed in both, and else the age restarts', async (t) => {
  for (const before of [true, false]) {
    for (const after of [true, false]) {
      const clock = new FakeClock();
      const boots = new Map<string, Boot>();
      if (before) clock.confirm();
      const stamp = stamped(clock, boots);
      const next = clock.reboot({ offMs: DAY_MS });
      if (after) next.confirm();
      const bootMs = next.bootMs();
      t.equal(ageMs(stamp, next, boots), before && after ? DAY_MS + bootMs : bootMs, `${before} ${after}`);
    }
  }
});

t.test('a confirmation that comes later in a boot holds for all of it', async (t) => {
  const clock = new FakeClock({ wallMs: 0 });
  const boots = new Map<string, Boot>();
  const stamp = stamped(clock, boots);
  await clock.advance(HOUR_MS);
  clock.leap(WALL_MS);
  clock.confirm();
  stamped(clock, boots);
  const next = clock.reboot({ offMs: DAY_MS });
  next.confirm();
  t.equal(ageMs(stamp, next, boots), HOUR_MS + DAY_MS + next.bootMs());
  t.equal(wallMsOf(stamp, next, boots), WALL_MS);
});

t.test(
  'an age is never too large, nor shorter than this boot, however the walls of two boots disagree',
  async (t) => {
    for (const leapMs of [-YEARS_MS, -HOUR_MS, HOUR_MS, YEARS_MS]) {
      const clock = new FakeClock();
      const boots = new Map<string, Boot>();
      clock.confirm();
      const early = stamped(clock, boots);
      clock.leap(leapMs);
      const late = stamped(clock, boots);
      const next = clock.reboot({ wallMs: WALL_MS - MINUTE_MS });
      next.confirm();
      for (const stamp of [early, late]) t.equal(ageMs(stamp, next, boots), next.bootMs(), `${leapMs}`);
    }
    const unknown = { boot: 'ffffffff', bootMs: 5 };
    const clock = new FakeClock();
    clock.confirm();
    t.equal(ageMs(unknown, clock, new Map()), clock.bootMs());
  },
);

t.test(
  'a date of this boot follows the wall, and is the same at every look while it does not leap',
  async (t) => {
    const clock = new FakeClock({ wallMs: 0 });
    const boots = new Map<string, Boot>();
    const stamp = stamped(clock, boots);
    t.equal(wallMsOf(stamp, clock, boots), 0);
    await clock.advance(MINUTE_MS);
    clock.leap(7);
    t.equal(wallMsOf(stamp, clock, boots), 0, 'clocks differ by some milliseconds');
    clock.leap(WALL_MS);
    t.equal(wallMsOf(stamp, clock, boots), WALL_MS + 7, 'at once, before anything is recorded');
    clock.leap(YEARS_MS);
    clock.leap(-YEARS_MS - HOUR_MS);
    t.equal(wallMsOf(stamp, clock, boots), WALL_MS + 7 - HOUR_MS);
  },
);

t.test('a date of another boot is what was last known there', async (t) => {
  const clock = new FakeClock();
  const boots = new Map<string, Boot>();
  const stamp = stamped(clock, boots);
  clock.leap(-HOUR_MS);
  stamped(clock, boots);
  const next = clock.reboot({ offMs: DAY_MS });
  t.equal(wallMsOf(stamp, next, boots), WALL_MS - HOUR_MS);
  next.leap(-YEARS_MS);
  t.equal(wallMsOf(stamp, next, boots), WALL_MS - HOUR_MS, 'also while the clock is wrong now');
  clock.confirm();
  stamped(clock, boots);
  next.leap(YEARS_MS - 2 * DAY_MS);
  t.equal(next.trust(), 'plausible');
  t.equal(wallMsOf(stamp, next, boots), WALL_MS - HOUR_MS, 'or, where it was confirmed there, is late now');
});

t.test('if the other boot’s clock was wrong, the moment was before this boot began', async (t) => {
  for (const wallMs of [0, Date.UTC(2099, 0, 1), WALL_MS + DAY_MS]) {
    const clock = new FakeClock({ wallMs });
    const boots = new Map<string, Boot>();
    const stamp = stamped(clock, boots);
    const next = clock.reboot({ wallMs: WALL_MS });
    await next.advance(HOUR_MS);
    t.equal(wallMsOf(stamp, next, boots), WALL_MS, new Date(wallMs).toISOString());
    t.equal(wallMsOf({ boot: 'ffffffff', bootMs: 5 }, next, boots), WALL_MS, 'so too if it was not kept');
  }
});

t.test('the date of a mail stays what a confirmed clock has said', async (t) => {
  const clock = new FakeClock({ wallMs: 0 });
  const boots = new Map<string, Boot>();
  const stamp = stamped(clock, boots);
  t.equal(dateMsOf(stamp, clock, boots), null, 'in 1970');
  clock.leap(WALL_MS);
  t.equal(dateMsOf(stamp, clock, boots), WALL_MS, 'a correction dates it');
  clock.leap(HOUR_MS);
  t.equal(dateMsOf(stamp, clock, boots), WALL_MS + HOUR_MS, 'so does another one');
  clock.confirm();
  stamped(clock, boots);
  for (const leapMs of [400 * DAY_MS, -YEARS_MS, 2 * YEARS_MS]) {
    clock.leap(leapMs);
    stamped(clock, boots);
    t.equal(dateMsOf(stamp, clock, boots), WALL_MS + HOUR_MS, `${leapMs}`);
  }
  for (const wallMs of [0, WALL_MS - DAY_MS, WALL_MS + 400 * DAY_MS]) {
    const next = clock.reboot({ wallMs });
    t.equal(dateMsOf(stamp, next, boots), WALL_MS + HOUR_MS, new Date(wallMs).toISOString());
  }
});

t.test('a clock that becomes wrong takes no date away', async (t) => {
  for (const wrongMs of [0, Date.UTC(2099, 0, 1)]) {
    const clock = new FakeClock({ wallMs: WALL_MS });
    const boots = new Map<string, Boot>();
    const stamp = stamped(clock, boots);
    clock.leap(wrongMs - WALL_MS);
    stamped(clock, boots);
    t.equal(clock.trust(), 'wrong');
    t.equal(dateMsOf(stamp, clock, boots), WALL_MS, 'in this boot');
    t.equal(dateMsOf(stamp, clock.reboot({ wallMs: wrongMs }), boots), WALL_MS, 'in another one');
    clock.leap(WALL_MS + HOUR_MS - wrongMs);
    clock.doubt();
    stamped(clock, boots);
    t.equal(dateMsOf(stamp, clock, boots), null, 'but a doubt does');
  }
});

t.test('an unconfirmed leap does not change an earlier confirmation', async (t) => {
  const clock = new FakeClock();
  const boots = new Map<string, Boot>();
  clock.confirm();
  const stamp = stamped(clock, boots);
  clock.leap(-YEARS_MS);
  t.equal(bootNews(clock, boots), null);
  t.equal(wallMsOf(stamp, clock, boots), WALL_MS - YEARS_MS, 'now it is told as this clock tells all times');
  const next = clock.reboot({ wallMs: WALL_MS + DAY_MS });
  t.equal(wallMsOf(stamp, next, boots), WALL_MS);
  clock.leap(YEARS_MS + HOUR_MS);
  clock.confirm();
  stamped(clock, boots);
  t.equal(wallMsOf(stamp, next, boots), WALL_MS + HOUR_MS, 'the last confirmation counts');
});

t.test('a boot is recorded at first, at a leap, at a confirmation, and at nothing else', async (t) => {
  const clock = new FakeClock();
  const boots = new Map<string, Boot>();
  const isNews = () => {
    const news = bootNews(clock, boots);
    if (news) boots.set(clock.boot, news);
    return news !== null;
  };
  t.equal(isNews(), true);
  t.equal(isNews(), false);
  await clock.advance(DAY_MS);
  clock.suspend(DAY_MS);
  clock.leap(2000);
  t.equal(isNews(), false);
  clock.leap(1);
  t.equal(isNews(), true, 'small ones add up');
  clock.confirm();
  t.equal(isNews(), true);
  t.equal(isNews(), false);
  t.equal(hasLeapt(0, 2000) || hasLeapt(2000, 0), false);
  t.equal(hasLeapt(0, 2001) && hasLeapt(2001, 0), true);
});
