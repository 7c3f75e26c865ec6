import t from 'tap';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../src/base/limits.js';
import { type DaemonState, whyMailWaits } from '../../src/base/state-lines.js';
import {
  type ChartRow,
  chartWords,
  columnsOf,
  roundUp,
  SPANS,
  ticksOf,
} from '../../src/pages/status/chart.js';
import { barsOf } from '../../src/pages/status/graphs.js';
import { clockTime, exactTime, faultOf } from '../../src/pages/words.js';

const NOW_MS = Date.parse('2026-11-20T12:00:00Z');
const isoAt = (ms: number) => new Date(ms).toISOString();

t.test('times: as long as the reader needs', async (t) => {
  // Times are of the browser's zone: each expectation is spelt in it.
  const local = (ms: number) => new Date(ms).toString().slice(16, 21);
  t.equal(clockTime(isoAt(NOW_MS - HOUR_MS), NOW_MS), local(NOW_MS - HOUR_MS));
  t.match(clockTime(isoAt(NOW_MS - 2 * DAY_MS), NOW_MS), /^18 Nov \d\d:\d\d$/);
  t.match(clockTime(isoAt(NOW_MS - 400 * DAY_MS), NOW_MS), /^1[67] Oct 2025 \d\d:\d\d$/);
  t.equal(clockTime(isoAt(NOW_MS + 1000), NOW_MS), local(NOW_MS + 1000), 'the next try, later today');
  t.match(clockTime(isoAt(NOW_MS + DAY_MS), NOW_MS), /^21 Nov \d\d:\d\d$/, 'a time to come has its date');
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

const row = (agoMs: number, more: Partial<ChartRow> = {}): ChartRow => ({
  at: isoAt(NOW_MS - agoMs),
  ...{ accepted: 1, sent: 1, failed: 0, waitingMax: 0, relayUp: 1, linkUp: null },
  ...more,
});

t.test('history: rows become columns, as many as there is room for, and none is lost', async (t) => {
  const rows = Array.from({ length: 288 }, (_, index) =>
    row((288 - index) * 10 * MINUTE_MS, { waitingMax: index, relayUp: index % 2 }),
  );
  for (const most of [1000, 288, 287, 100, 60, 13, 1]) {
    const { columns, columnMs, startMs } = columnsOf(rows, '10m', NOW_MS, most);
    t.ok(columns.length <= Math.max(12, most), `${columns.length} of ${most}`);
    t.equal(startMs + columns.length * columnMs, NOW_MS, 'they end now');
    t.equal(
      columns.reduce((sum, column) => sum + (column?.accepted ?? 0), 0),
      288,
    );
    t.equal(columns.at(-1)?.waitingMax, 287, 'the highest counts');
    if (columnMs > 10 * MINUTE_MS)
      t.ok(Math.abs((columns[0]?.relayUp ?? 0) - 0.5) < 0.2, 'shares are averaged');
  }
  const [first, second] = columnsOf([row(30 * DAY_MS - HOUR_MS)], '1h', NOW_MS, 720).columns;
  t.equal(first, null, 'what has no row is not known');
  t.equal(second?.atMs, NOW_MS - 30 * DAY_MS + HOUR_MS);
  const others = [row(3 * DAY_MS), row(-DAY_MS), { ...row(0), at: 'soon' }];
  t.ok(
    columnsOf(others, '10m', NOW_MS, 288).columns.every((column) => column === null),
    'rows of other times',
  );
});

t.test('history: the axes and the words', async (t) => {
  for (const [value, high] of [
    [1, 1],
    [3, 5],
    [7, 10],
    [10, 10],
    [11, 20],
    [312, 500],
    [500, 500],
  ] as const)
    t.equal(roundUp(value), high, String(value));
  for (const [step, least] of [
    ['10m', 4],
    ['1h', 4],
  ] as const) {
    const ticks = ticksOf(step, NOW_MS - SPANS[step].spanMs, NOW_MS);
    t.ok(ticks.length >= least && ticks.length <= 6, `${ticks.length} ticks`);
    t.ok(ticks.every((atMs) => [0, 12].includes(new Date(atMs).getHours())));
  }
  t.equal(chartWords('10m', [null, null]), 'Nothing is known yet.');
  const { columns } = columnsOf(
    [row(HOUR_MS, { waitingMax: 312, relayUp: 0.5, failed: 2 }), row(2 * HOUR_MS, { relayUp: null })],
    '10m',
    NOW_MS,
    288,
  );
  t.match(
    chartWords('10m', columns),
    /^In 48 hours: 2 messages accepted, 2 sent, 2 failed; at most 312 waited, at 20 Nov 2026 \d\d:\d\d; the relay was there 50 % of the time\.$/,
  );
});

t.test('what a mail waits for, in words', async (t) => {
  const time = (iso: string) => iso.slice(11, 16);
  const since = isoAt(NOW_MS);
  const reason = 'it does not answer';
  for (const [state, words] of [
    [{ relay: { state: 'ok', since, reason: null } }, ''],
    [{ relay: { state: 'failing', since, reason } }, 'it does not answer since 12:00'],
    [{ relay: { state: 'none', since, reason: null } }, 'no relay is configured (FIELDPOST_RELAY)'],
    [{ queue: { held: true }, relay: { state: 'failing', since, reason } }, 'delivery is on hold'],
  ] as const)
    t.equal(whyMailWaits(state as DaemonState, time), words);
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
