import t from 'tap';
import { DAY_MS, HOUR_MS } from '../../src/base/limits.js';
import { barsOf, pointsOf, SAMPLES_MAX, type Sample, withSample } from '../../src/pages/status/graphs.js';
import { clockTime, exactTime, faultOf } from '../../src/pages/words.js';

const NOW_MS = Date.parse('2026-11-20T12:00:00Z');
const isoAt = (ms: number) => new Date(ms).toISOString();

t.test('times: as long as the reader needs', async (t) => {
  // Times are of the browser's zone: each expectation is spelt in it.
  const local = (ms: number) => new Date(ms).toString().slice(16, 21);
  t.equal(clockTime(isoAt(NOW_MS - HOUR_MS), NOW_MS), local(NOW_MS - HOUR_MS));
  t.match(clockTime(isoAt(NOW_MS - 2 * DAY_MS), NOW_MS), /^18 Nov \d\d:\d\d$/);
  t.match(clockTime(isoAt(NOW_MS - 400 * DAY_MS), NOW_MS), /^1[67] Oct 2025 \d\d:\d\d$/);
  t.match(clockTime(isoAt(NOW_MS + HOUR_MS), NOW_MS), /^20 Nov \d\d:\d\d$/, 'a time to come has its date');
  t.match(exactTime(isoAt(NOW_MS)), /^20 Nov 2026 \d\d:\d\d:00$/);
  for (const text of ['', 'soon']) {
    t.equal(clockTime(text, NOW_MS), text);
    t.equal(exactTime(text), text);
  }
});

t.test('timeline: the bars fill the width, oldest first, and each can be seen', async (t) => {
  const past = (state: string, durationMs: number) => ({ state, since: isoAt(0), reason: null, durationMs });
  const present = { state: 'online', since: isoAt(NOW_MS - DAY_MS), reason: null };
  const blips = Array.from({ length: 100 }, (_, index) => past(index % 2 === 0 ? 'offline' : 'online', 1));
  for (const history of [[], [past('offline', DAY_MS)], blips, [past('offline', 0)]]) {
    const bars = barsOf(present, history, NOW_MS, 1000);
    t.equal(bars.length, history.length + 1);
    t.equal(bars.at(-1)?.state.state, 'online', 'the present is last');
    t.equal(bars.at(-1)?.state.durationMs, DAY_MS);
    let left = 0;
    for (const bar of bars) {
      t.ok(Math.abs(bar.left - left) < 1e-6 && bar.width >= 5, `${bar.left}, ${bar.width}`);
      left += bar.width;
    }
    t.ok(Math.abs(left - 1000) < 1e-6);
  }
  const [long, short] = barsOf(present, [past('offline', 3 * DAY_MS)], NOW_MS, 1000);
  t.ok((long?.width ?? 0) > 2.5 * (short?.width ?? 0), 'a longer state is wider');
  const ahead = barsOf({ ...present, since: isoAt(NOW_MS + DAY_MS) }, [], NOW_MS, 1000);
  t.equal(ahead[0]?.width, 1000, 'a clock that is behind makes no negative width');
});

t.test('queue: the line covers the life of the page in a bounded number of samples', async (t) => {
  let samples: readonly Sample[] = [];
  const lives = 10 * SAMPLES_MAX;
  for (let index = 0; index <= lives; index++) {
    samples = withSample(samples, { atMs: index * 2000, waiting: index % 7, oldestMs: 0 });
    t.ok(samples.length <= SAMPLES_MAX);
    t.equal(samples.at(-1)?.atMs, index * 2000, 'the newest is there');
  }
  t.ok((samples[0]?.atMs ?? 0) < 2000 * lives * 0.05, 'and the oldest is from the beginning');
  const box = { width: 100, height: 40 };
  const line = [0, 5, 10].map((waiting, index) => ({ atMs: index, waiting, oldestMs: 0 }));
  t.equal(
    pointsOf(line, (one) => one.waiting, box),
    '0,40 50,20 100,0',
  );
  t.equal(
    pointsOf(line.slice(0, 1), (one) => one.waiting, box),
    '0,40',
    'one sample divides by nothing',
  );
});

t.test('a fault stands at the field that its pointer names', async (t) => {
  const faults = [
    { pointer: '/name', detail: 'is missing' },
    { pointer: '/name/0', detail: 'is odd' },
    { pointer: '/names', detail: 'is another' },
    { pointer: 'lang', detail: 'must be one of nl' },
  ];
  t.equal(faultOf('name', faults), 'is missing; is odd');
  t.equal(faultOf('lang', faults), 'must be one of nl');
  t.equal(faultOf('type', faults), '');
});
