/**
 * What the strip chart of the history shows: the rows of the daemon put together in columns that are wide enough to be seen,
 * the marks of its axes, and the same in words. Pure.
 */
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../base/limits.js';
import { counted } from '../../base/text.js';
import type { HistoryEntry } from '../../base/views.js';
import { exactTime } from '../words.js';

/** A row of `GET /api/internal/history`. A time without a row is not known. */
export type ChartRow = Omit<HistoryEntry, 'oldestWaitMs'>;

/** What can be shown, by the step of the rows. */
export const SPANS = {
  '10m': { words: '48 hours', stepMs: 10 * MINUTE_MS, spanMs: 48 * HOUR_MS, tickMs: 12 * HOUR_MS },
  '1h': { words: '30 days', stepMs: HOUR_MS, spanMs: 30 * DAY_MS, tickMs: 7 * DAY_MS },
} as const;

/** The length of a row, as the daemon names it. */
export type SpanName = keyof typeof SPANS;

/** One or more rows; null where nothing is known. */
export type Column = Omit<ChartRow, 'at'> & { readonly atMs: number };

/** The columns of a chart, from the oldest to the present. */
export interface Columns {
  readonly startMs: number;
  readonly columnMs: number;
  readonly columns: readonly (Column | null)[];
}

const GROUPS = [1, 2, 3, 6, 12, 24];

/** At most `most` columns up to `nowMs`: counts are added up, the most waiting is the highest, shares are averaged. */
export function columnsOf(rows: readonly ChartRow[], step: SpanName, nowMs: number, most: number): Columns {
  const { stepMs, spanMs } = SPANS[step];
  const group = GROUPS.find((one) => spanMs / (stepMs * one) <= most) ?? 24;
  const columnMs = stepMs * group;
  const count = Math.ceil(spanMs / columnMs);
  const endMs = Math.ceil(nowMs / columnMs) * columnMs;
  const startMs = endMs - count * columnMs;
  const groups: ChartRow[][] = Array.from({ length: count }, () => []);
  for (const row of rows) groups[Math.floor((Date.parse(row.at) - startMs) / columnMs)]?.push(row);
  return { startMs, columnMs, columns: groups.map((own, at) => columnOf(own, startMs + at * columnMs)) };
}

function columnOf(rows: readonly ChartRow[], atMs: number): Column | null {
  if (rows.length === 0) return null;
  const sum = (of: 'accepted' | 'sent' | 'failed') => rows.reduce((total, row) => total + row[of], 0);
  return {
    atMs,
    accepted: sum('accepted'),
    sent: sum('sent'),
    failed: sum('failed'),
    waitingMax: Math.max(...rows.map((row) => row.waitingMax)),
    relayUp: averageOf(rows.map((row) => row.relayUp)),
    linkUp: averageOf(rows.map((row) => row.linkUp)),
  };
}

function averageOf(shares: readonly (number | null)[]): number | null {
  const known = shares.filter((share) => share !== null);
  return known.length === 0 ? null : known.reduce((sum, share) => sum + share, 0) / known.length;
}

/** The moments that the time axis names: full hours or days of the browser's zone, `tickMs` apart. */
export function ticksOf(step: SpanName, startMs: number, endMs: number): number[] {
  const { tickMs } = SPANS[step];
  const midnight = new Date(startMs).setHours(0, 0, 0, 0);
  const ticks: number[] = [];
  for (let atMs = midnight; atMs < endMs; atMs += tickMs) if (atMs >= startMs) ticks.push(atMs);
  return ticks;
}

/** The words at a mark: the day at its beginning, else the hour. */
export function tickWords(atMs: number): string {
  const [day, month, , time] = exactTime(new Date(atMs).toISOString()).split(' ');
  const hour = time?.slice(0, 5) ?? '';
  return hour === '00:00' ? `${day} ${month}` : hour;
}

/** The highest number of an axis: 1, 2 or 5, and zeros. */
export function roundUp(value: number): number {
  let power = 1;
  while (power * 10 < value) power *= 10;
  return ([1, 2, 5, 10].find((one) => one * power >= value) ?? 10) * power;
}

function minuteOf(atMs: number): string {
  return exactTime(new Date(atMs).toISOString()).slice(0, -3);
}

/** The whole chart in one sentence. */
export function chartWords(step: SpanName, columns: Columns['columns']): string {
  const known = columns.filter((column) => column !== null);
  if (known.length === 0) return 'Nothing is known yet.';
  const sum = (of: 'accepted' | 'sent' | 'failed') => known.reduce((total, column) => total + column[of], 0);
  const most = known.reduce((high, column) => (column.waitingMax > high.waitingMax ? column : high));
  const waiting =
    most.waitingMax === 0
      ? 'none waited for long'
      : `at most ${most.waitingMax} waited, at ${minuteOf(most.atMs)}`;
  const shares = (['relayUp', 'linkUp'] as const).flatMap((of) => {
    const share = averageOf(known.map((column) => column[of]));
    const name = of === 'relayUp' ? 'relay' : 'cloud';
    return share === null ? [] : [`the ${name} was there ${Math.floor(share * 100)} % of the time`];
  });
  const counts = `${counted(sum('accepted'), 'message')} accepted, ${sum('sent')} sent, ${sum('failed')} failed`;
  return `In ${SPANS[step].words}: ${[counts, waiting, ...shares].join('; ')}.`;
}
