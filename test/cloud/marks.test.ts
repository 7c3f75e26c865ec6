/** What the cloud remembers of a device for the sake of people: each rule, and what a store writes of it. */
import t from 'tap';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import {
  afterOutage,
  afterReport,
  flapsOf,
  isSameQuiet,
  type Marks,
  marksIn,
  NO_MARKS,
  type PastOutage,
  quietAt,
  whyAway,
  wordAt,
  writtenMarks,
} from '../../src/cloud/marks.js';
import { NO_STATUS } from '../../src/cloud/presence.js';

const NOW_MS = Date.UTC(2026, 10, 27);
const status = (relay: string | null, failed: number) => ({
  ...NO_STATUS,
  relay,
  queue: { queued: 0, deferred: 0, failed },
});

t.test(
  'mails that do not leave count from their first report; a relay that goes down counts anew',
  async (t) => {
    const stuck = (sinceMs: number, isRelay: boolean, isTold = false) => ({ sinceMs, isRelay, isTold });
    const rows: readonly (readonly [
      before: Marks['stuck'],
      relay: string | null,
      failed: number,
      Marks['stuck'],
    ])[] = [
      [null, 'up', 0, null],
      [null, 'failing', 0, stuck(NOW_MS, true)],
      [null, 'up', 3, stuck(NOW_MS, false)],
      [stuck(1, true), 'failing', 0, stuck(1, true)],
      [stuck(1, true), 'up', 0, null],
      // People were told, and are to be told that it is over.
      [stuck(1, true, true), 'up', 0, stuck(1, true, true)],
      [stuck(1, false, true), 'failing', 3, { ...stuck(NOW_MS, true), isWorse: true }],
      [{ ...stuck(1, true), isWorse: true }, 'up', 0, { ...stuck(1, true), isWorse: true }],
      [{ ...stuck(1, true), isWorse: true }, 'up', 3, stuck(1, false, true)],
      [stuck(1, true, true), 'up', 3, stuck(1, false, true)],
    ];
    for (const [before, relay, failed, expected] of rows)
      t.strictSame(
        afterReport({ ...NO_MARKS, stuck: before }, status(relay, failed), NOW_MS).stuck,
        expected,
      );
    t.equal(afterReport(NO_MARKS, NO_STATUS, NOW_MS), NO_MARKS, 'shared by all devices that are well');
  },
);

t.test('why it was away: its boot and its uptime say so', async (t) => {
  const left = { bootId: 'a', uptimeMs: HOUR_MS };
  const rows = [
    [left, { bootId: 'a', uptimeMs: 3 * HOUR_MS }, { kind: 'ran' }],
    [left, { bootId: 'b', uptimeMs: 40 * SECOND_MS }, { kind: 'restarted', upMs: 40 * SECOND_MS }],
    // A container: its uptime begins again within a boot.
    [left, { bootId: 'a', uptimeMs: SECOND_MS }, { kind: 'restarted', upMs: SECOND_MS }],
    // It cannot have been up while it was away and silent, unless its clock is wrong.
    [left, { bootId: 'b', uptimeMs: 9 * HOUR_MS }, null],
    // Only its program was away, or nobody can tell.
    [{ ...left, sequence: 900 }, { bootId: 'a', uptimeMs: 3 * HOUR_MS, sequence: 1 }, null],
    [{ ...left, sequence: 9 }, { bootId: 'a', uptimeMs: 3 * HOUR_MS, sequence: 90 }, { kind: 'ran' }],
    [null, { bootId: 'b', uptimeMs: 1 }, null],
    [left, null, null],
  ] as const;
  for (const [before, now, why] of rows) t.strictSame(whyAway(before, now, 2 * HOUR_MS), why);
  t.equal(whyAway(left, { bootId: 'b', uptimeMs: 1 }, null), null);
});

t.test('outages are kept for eight days, and at most sixteen of them', async (t) => {
  let marks: Marks = {
    ...NO_MARKS,
    reminded: 2,
    word: { text: 'x', atMs: 1 },
    left: { bootId: 'a', uptimeMs: 1 },
  };
  for (let n = 0; n < 20; n++) {
    const beganMs = NOW_MS + n * HOUR_MS;
    marks = { ...marks, ...afterOutage(marks, beganMs, beganMs + MINUTE_MS) };
  }
  t.match(marks, { reminded: 0, word: null, left: null });
  t.equal(marks.past.length, 16);
  t.equal(marks.past.at(-1)?.[0], NOW_MS + 19 * HOUR_MS);
  t.equal(afterOutage(marks, NOW_MS + 9 * DAY_MS, NOW_MS + 9 * DAY_MS).past.length, 1);
  t.equal(
    afterOutage(marks, null, NOW_MS + DAY_MS).past.length,
    16,
    'a moment that is not known leaves no trace',
  );
});

t.test('it came and went as often as there was no steady time in between', async (t) => {
  const past = (...startsMin: readonly number[]) => ({
    past: startsMin.map((min): PastOutage => [min * MINUTE_MS, (min + 1) * MINUTE_MS]),
  });
  t.equal(flapsOf(past(5), 30 * MINUTE_MS), null);
  t.equal(flapsOf(past(), 30 * MINUTE_MS), null);
  t.strictSame(flapsOf(past(5, 10, 40), 30 * MINUTE_MS), { times: 3, sinceMs: 5 * MINUTE_MS });
  t.strictSame(flapsOf(past(5, 36, 40), 30 * MINUTE_MS), { times: 2, sinceMs: 36 * MINUTE_MS });
  t.equal(flapsOf(past(5, 36), 30 * MINUTE_MS), null);
});

t.test('quiet lasts until its end; a last word belongs to a silence within an hour', async (t) => {
  const quiet = { untilMs: NOW_MS, why: 'work' };
  t.equal(quietAt({ ...NO_MARKS, quiet }, NOW_MS - 1), quiet);
  t.equal(quietAt({ ...NO_MARKS, quiet }, NOW_MS), null);
  t.equal(
    quietAt({ ...NO_MARKS, quiet }, NOW_MS - 7 * DAY_MS - SECOND_MS),
    quiet,
    'the clock of another instance',
  );
  t.equal(quietAt({ ...NO_MARKS, quiet }, NOW_MS - 8 * DAY_MS), null, 'the clock was wrong');
  t.ok(isSameQuiet(quiet, { ...quiet, untilMs: NOW_MS + SECOND_MS }), 'said again');
  t.notOk(isSameQuiet(quiet, { ...quiet, untilMs: NOW_MS + MINUTE_MS }));
  t.notOk(isSameQuiet(quiet, { ...quiet, why: null }));
  t.notOk(isSameQuiet(quiet, null));
  t.ok(isSameQuiet(null, null));
  const word = { text: 'mains failed', atMs: NOW_MS };
  t.equal(wordAt({ ...NO_MARKS, word }, NOW_MS + HOUR_MS - 1), 'mains failed');
  t.equal(wordAt({ ...NO_MARKS, word }, NOW_MS + HOUR_MS), null);
  t.equal(wordAt({ ...NO_MARKS, word }, null), 'mains failed');
  t.equal(wordAt(NO_MARKS, NOW_MS), null);
});

t.test('a store writes only what is said, and reads what it can', async (t) => {
  t.equal(writtenMarks(NO_MARKS), null);
  const marks: Marks = {
    ...{ quiet: { untilMs: 1, why: null }, drill: { key: 'k', atMs: 1 }, word: { text: 'x', atMs: 1 } },
    ...{
      stuck: { sinceMs: 1, isRelay: true, isTold: false },
      reminded: 1,
      left: { bootId: 'a', uptimeMs: 1 },
    },
    past: [[1, 2]],
  };
  t.strictSame(marksIn(JSON.parse(JSON.stringify(writtenMarks(marks)))), marks);
  t.strictSame(writtenMarks({ ...NO_MARKS, reminded: 2 }), { reminded: 2 });
  t.equal(marksIn(undefined), NO_MARKS);
  t.equal(marksIn({ quiet: { untilMs: 'soon' }, past: [[1]], reminded: 0.5 }), NO_MARKS);
  t.strictSame(marksIn({ quiet: 7, reminded: 1 }), { ...NO_MARKS, reminded: 1 });
});
