/**
 * `fieldpost history`: what happened in the last days, as a chart.
 */
import { EXIT } from '../base/errors.js';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../base/limits.js';
import type { Mood } from '../base/state-lines.js';
import { counted, isoOf, span } from '../base/text.js';
import type { HistoryEntry } from '../base/views.js';
import { connect } from './client.js';
import { type Command, CommandError, textOption } from './command.js';
import { json, LOCAL, painter, type Times, timesFor, widthOf, wrapped } from './words.js';

/** How a step is shown: its length, all that is shown, and the lengths that a column and the pace of the axis may have. */
const STEPS = {
  '10m': {
    ms: 10 * MINUTE_MS,
    spanMs: 2 * DAY_MS,
    words: '48 hours',
    columnMs: [10, 20, 30, 60, 120, 240].map((minutes) => minutes * MINUTE_MS),
    tickMs: [1, 2, 3, 6, 12, 24].map((hours) => hours * HOUR_MS),
  },
  '1h': {
    ms: HOUR_MS,
    spanMs: 30 * DAY_MS,
    words: '30 days',
    columnMs: [1, 2, 3, 4, 6, 12, 24, 48].map((hours) => hours * HOUR_MS),
    tickMs: [1, 2, 5, 10].map((days) => days * DAY_MS),
  },
} as const;
type Step = keyof typeof STEPS;

const CELLS = 80;
const CELLS_MIN = 40;
/** A label of the axis and a blank. */
const TICK_CELLS = 7;
const BAR_LINES = 4;
const FAILED_LINES = 2;

/** The marks of bars from low to high, and of a peer that was there all the time, for a part of it, and not. */
interface Marks {
  readonly bars: readonly string[];
  readonly strip: readonly [up: string, partly: string, down: string];
  readonly axis: readonly [line: string, tick: string];
}
const BLOCKS: Marks = { bars: [...'▁▂▃▄▅▆▇█'], strip: ['█', '▄', '·'], axis: ['─', '┴'] };
const ASCII: Marks = { bars: ['#'], strip: ['#', '+', '.'], axis: ['-', '+'] };

export const history: Command = {
  name: 'history',
  group: 'Looking closer',
  summary: 'show what happened in the last days',
  help: `fieldpost history [--step 10m|1h] [--local] [--json]

Shows a chart: how many messages waited, were sent and failed (or expired), and
when relay and cloud could be reached. --step 10m: the last 48 hours; 1h: the
last 30 days. --local: times in the time zone of this device, not in UTC.
--json prints the daemon's answer unchanged.

Exit status: 0 done, 69 no daemon answers.`,
  examples: [
    ['fieldpost history', 'what happened in the last 48 hours?'],
    ['fieldpost history --step 1h', 'the same for the last 30 days'],
  ],
  options: { step: { type: 'string' }, json: { type: 'boolean' }, ...LOCAL },
  asksService: true,
  async run(input, context) {
    const step = textOption(input, 'step') ?? '10m';
    if (step !== '10m' && step !== '1h') throw new CommandError(EXIT.usage, '--step is 10m or 1h');
    const { body } = await connect(context)('GET', `/api/internal/history?step=${step}`);
    const { stdout, env } = context;
    if (input.options.json === true) {
      stdout.write(json(body));
      return EXIT.ok;
    }
    const width = widthOf(stdout);
    const cells = Number.isFinite(width) ? width : CELLS;
    const isUtf8 = /utf-?8/i.test(env.LC_ALL || env.LC_CTYPE || env.LANG || '');
    const { rows } = body as { rows: readonly HistoryEntry[] };
    const lines = chartOf(rows, step, { cells, isUtf8, times: timesFor(input), paint: painter(stdout, env) });
    stdout.write(`${lines.join('\n')}\n`);
    return EXIT.ok;
  },
};

/** The rows of one column as one; the shares as their mean. */
type Column = Omit<HistoryEntry, 'at'>;

/** Where a chart is shown, and how. */
interface ChartOptions {
  readonly cells: number;
  readonly isUtf8: boolean;
  readonly times: Times;
  readonly paint: (mood: Mood, text: string) => string;
}

/** The chart of these rows, the oldest first, in lines of at most so many characters. */
export function chartOf(
  rows: readonly HistoryEntry[],
  step: Step,
  { cells, isUtf8, times, paint }: ChartOptions,
): string[] {
  const last = rows.at(-1);
  if (last === undefined) return ['There is no history yet.'];
  const { ms, spanMs, words, columnMs, tickMs } = STEPS[step];
  const marks = isUtf8 ? BLOCKS : ASCII;
  const most = Math.max(...rows.flatMap(({ waitingMax, sent, failed }) => [waitingMax, sent, failed]));
  // Sums may have two digits more than their rows.
  const gutter = Math.max('cloud'.length, String(most).length + 2);
  const room = Math.max(CELLS_MIN, cells) - gutter - 2;
  const length = columnMs.find((one) => spanMs / one < room) ?? (columnMs.at(-1) as number);
  const end = Math.floor((Date.parse(last.at) + ms - 1) / length) + 1;
  const start = end - Math.ceil(spanMs / length);
  const columns = columnsOf(rows, { start, end, length });
  const line = (label: string, text: string) => `${label.padStart(gutter)} ${text}`.trimEnd();
  const bars = (name: string, lines: number, of: (column: Column) => number, mood: Mood) => {
    const values = columns.map((column) => (column === null ? 0 : of(column)));
    const top = Math.max(...values);
    if (top === 0) return [`${name}: none`];
    const drawn = barsOf(values, top, lines, marks.bars);
    return [name, ...drawn.map((text, i) => line(i === 0 ? String(top) : '', paint(mood, text.trimEnd())))];
  };
  const strip = (label: string, of: (column: Column) => number | null) => {
    const shares = columns.map((column) => column && of(column));
    if (shares.every((share) => share === null)) return [];
    const [up, partly, down] = marks.strip;
    const shown = shares.map((share) =>
      share === null
        ? ' '
        : share >= 1
          ? paint('good', up)
          : share > 0
            ? paint('uneasy', partly)
            : paint('bad', down),
    );
    return [line(label, shown.join(''))];
  };
  const strips = [...strip('relay', ({ relayUp }) => relayUp), ...strip('cloud', ({ linkUp }) => linkUp)];
  const [up, partly, down] = marks.strip;
  const per = span(length);
  const until = times.full(isoOf(Date.parse(last.at) + ms));
  return [
    ...wrapped(`${words} until ${until.replace(/:\d\d /, ' ')}, ${per} a column`, cells),
    ...bars('waiting, the most messages at a time', BAR_LINES, ({ waitingMax }) => waitingMax, 'uneasy'),
    ...bars(`sent, messages in ${per}`, BAR_LINES, ({ sent }) => sent, 'good'),
    ...bars(`failed or expired, messages in ${per}`, FAILED_LINES, ({ failed }) => failed, 'bad'),
    ...strips,
    ...axisOf({ start, end, length, tickMs, times }, marks.axis).map((text) => line('', text)),
    ...(strips.length === 0
      ? []
      : wrapped(`${up} reached all the time, ${partly} a part of it, ${down} not; blank: not known`, cells)),
    ...wrapped(totals(rows), cells),
  ];
}

function columnsOf(
  rows: readonly HistoryEntry[],
  { start, end, length }: { start: number; end: number; length: number },
): (Column | null)[] {
  const byColumn: HistoryEntry[][] = Array.from({ length: end - start }, () => []);
  for (const row of rows) byColumn[Math.floor(Date.parse(row.at) / length) - start]?.push(row);
  return byColumn.map((own) => {
    if (own.length === 0) return null;
    const sum = (of: (row: HistoryEntry) => number) => own.reduce((all, row) => all + of(row), 0);
    const share = (of: (row: HistoryEntry) => number | null) => {
      const known = own.map(of).filter((one) => one !== null);
      return known.length === 0 ? null : known.reduce((all, one) => all + one, 0) / known.length;
    };
    return {
      accepted: sum((row) => row.accepted),
      sent: sum((row) => row.sent),
      failed: sum((row) => row.failed),
      waitingMax: Math.max(...own.map((row) => row.waitingMax)),
      oldestWaitMs: Math.max(...own.map((row) => row.oldestWaitMs)),
      relayUp: share((row) => row.relayUp),
      linkUp: share((row) => row.linkUp),
    };
  });
}

/** Bars, the highest line first. What is not 0 can be seen. */
function barsOf(values: readonly number[], top: number, lines: number, marks: readonly string[]): string[] {
  const heights = values.map((value) => Math.ceil((value / top) * lines * marks.length));
  return Array.from({ length: lines }, (_, i) => {
    const below = (lines - 1 - i) * marks.length;
    return heights
      .map((height) => (height <= below ? ' ' : marks[Math.min(height - below, marks.length) - 1]))
      .join('');
  });
}

interface AxisOptions {
  readonly start: number;
  readonly end: number;
  readonly length: number;
  readonly tickMs: readonly number[];
  readonly times: Times;
}

/** The axis and its labels: the time of day, or the day at midnight. */
function axisOf({ start, end, length, tickMs, times }: AxisOptions, [dash, tick]: Marks['axis']): string[] {
  const pace = tickMs.find((one) => one / length >= TICK_CELLS) ?? (tickMs.at(-1) as number);
  let axis = '';
  let labels = '';
  for (let column = start; column < end; column++) {
    const shown = times.moment(isoOf(column * length));
    // In zones off the whole hour a column may begin a little later than the moment of its tick.
    const zoneMs = Date.parse(`${shown}Z`);
    const isTick = zoneMs % pace < length;
    axis += isTick ? tick : dash;
    if (isTick && end - column >= TICK_CELLS - 2)
      labels =
        labels.padEnd(column - start) + (zoneMs % DAY_MS < length ? shown.slice(5, 10) : shown.slice(11, 16));
  }
  return [axis, labels];
}

function totals(rows: readonly HistoryEntry[]): string {
  const sum = (of: (row: HistoryEntry) => number) => rows.reduce((all, row) => all + of(row), 0);
  const longest = Math.max(...rows.map(({ oldestWaitMs }) => oldestWaitMs));
  const parts = [
    `${counted(
      sum(({ accepted }) => accepted),
      'message',
    )} accepted`,
    `${sum(({ sent }) => sent)} sent`,
    `${sum(({ failed }) => failed)} failed or expired`,
    `the longest wait was ${span(longest)}`,
  ];
  return `${parts.join(', ')}.`;
}
