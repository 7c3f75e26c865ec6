/**
 * The strip chart of the history: messages, the most that waited, and the times with relay and cloud, over one time axis.
 */
import { span } from '../../base/text.js';
import { button, byId, html, svg } from '../dom.js';
import { type Live, Refusal } from '../live.js';
import { clockTime } from '../words.js';
import {
  type ChartRow,
  type Column,
  type Columns,
  chartWords,
  columnsOf,
  roundUp,
  SPANS,
  type SpanName,
  ticksOf,
  tickWords,
} from './chart.js';

const PATH = '/api/internal/history';
/** The last row changes all the time, but a glance each minute is enough. */
const ASK_EVERY_MS = 60_000;
const COLUMN_WIDTH_MIN = 4;
const LEFT = 40;
/** The width of the words at a mark of the time axis. */
const LABEL = 50;

/** The strips, from top to bottom; `top` is that of its drawing, below its name. */
const STRIPS = {
  counts: { top: 18, height: 70 },
  waiting: { top: 110, height: 44 },
  relayUp: { top: 176, height: 12 },
  linkUp: { top: 208, height: 12 },
};
const AXIS = 236;
const HEIGHT = 240;

/** The part of the page about the history. */
export function createHistory({ call }: Live) {
  const section = byId('history');
  const place = byId('chart');
  let step: SpanName = '10m';
  let rows: readonly ChartRow[] = [];
  let askedMs = Number.NEGATIVE_INFINITY;

  const draw = () => {
    const nowMs = Date.now();
    const width = Math.max(280, place.clientWidth);
    const columns = columnsOf(rows, step, nowMs, (width - LEFT) / COLUMN_WIDTH_MIN);
    const isEmpty = columns.columns.every((column) => column === null);
    const words = chartWords(step, columns.columns);
    place.replaceChildren(
      ...(isEmpty
        ? [html('p', { class: 'soft' }, words)]
        : [drawn(columns, step, width, words), legend(columns), html('p', { class: 'soft' }, words)]),
    );
  };

  const choose = (chosen: SpanName) => {
    step = chosen;
    askedMs = Number.NEGATIVE_INFINITY;
    showSteps();
    void read().then(draw);
  };
  const steps = (Object.keys(SPANS) as SpanName[]).map(
    (one) => [one, button(SPANS[one].words, () => choose(one))] as const,
  );
  const showSteps = () => {
    for (const [one, its] of steps) its.setAttribute('aria-pressed', String(one === step));
  };
  byId('spans').append(...steps.map(([, its]) => its));
  showSteps();
  new ResizeObserver(() => draw()).observe(byId('spans'));

  /** A daemon without a history shows none. True if there are new rows. */
  async function read(): Promise<boolean> {
    if (performance.now() - askedMs < ASK_EVERY_MS) return false;
    askedMs = performance.now();
    try {
      ({ rows } = (await call('GET', `${PATH}?step=${step}`)).body);
      section.hidden = false;
    } catch (error) {
      if (!(error instanceof Refusal && error.status === 404)) throw error;
      section.hidden = true;
      askedMs = Number.POSITIVE_INFINITY;
    }
    return true;
  }

  return { read, draw };
}

/** A scale from time and value to places. */
interface Scale {
  x(atMs: number): number;
  readonly columnWidth: number;
  readonly width: number;
}

function drawn(
  { startMs, columnMs, columns }: Columns,
  step: SpanName,
  width: number,
  words: string,
): Element {
  const endMs = startMs + columnMs * columns.length;
  const columnWidth = (width - LEFT) / columns.length;
  const scale = {
    x: (atMs: number) => LEFT + ((atMs - startMs) / columnMs) * columnWidth,
    columnWidth,
    width,
  };
  const known = columns.filter((column) => column !== null);
  const every = span(columnMs);
  return svg(
    'svg',
    { viewBox: `0 0 ${width} ${HEIGHT + 16}`, class: 'chart', role: 'img', 'aria-label': words },
    ...axis(step, startMs, endMs, scale),
    ...counts(known, every, scale),
    ...waiting(known, scale),
    ...share(known, 'relayUp', 'relay', scale),
    ...share(known, 'linkUp', 'cloud link', scale),
    ...known.map((column) => hint(column, every, scale)),
  );
}

function axis(step: SpanName, startMs: number, endMs: number, { x, width }: Scale): Element[] {
  return [
    line(LEFT, width, AXIS),
    ...ticksOf(step, startMs, endMs).flatMap((atMs) => {
      const at = x(atMs);
      const anchor = at > width - LABEL / 2 ? 'end' : 'middle';
      return [
        svg('line', { x1: at, x2: at, y1: STRIPS.counts.top, y2: AXIS + 4, class: 'grid' }),
        svg('text', { x: Math.min(at, width), y: HEIGHT + 12, 'text-anchor': anchor }, tickWords(atMs)),
      ];
    }),
  ];
}

function line(from: number, to: number, y: number): Element {
  return svg('line', { x1: from, x2: to, y1: y, y2: y, class: 'grid' });
}

/** The name of a strip, and the highest number of its axis. */
function frame(
  strip: { top: number; height: number },
  name: string,
  high: number | null,
  width: number,
): Element[] {
  const bottom = strip.top + strip.height;
  const numbers =
    high === null
      ? []
      : ([
          [high, strip.top + 8],
          [0, bottom],
        ] as const);
  return [
    svg('text', { x: LEFT, y: strip.top - 6 }, name),
    line(LEFT, width, bottom),
    ...numbers.map(([value, y]) => svg('text', { x: LEFT - 4, y, 'text-anchor': 'end' }, String(value))),
  ];
}

function bar(
  column: Column,
  value: number,
  high: number,
  { top, height }: { top: number; height: number },
  name: string,
  { x, columnWidth }: Scale,
): Element[] {
  if (value === 0) return [];
  // One of a thousand is seen, too.
  const tall = Math.max(2, (value / high) * height);
  return [
    svg('rect', {
      x: x(column.atMs),
      y: top + height - tall,
      width: Math.max(1, columnWidth - 1),
      height: tall,
      class: name,
    }),
  ];
}

function counts(known: readonly Column[], every: string, scale: Scale): Element[] {
  const strip = STRIPS.counts;
  const high = roundUp(
    Math.max(1, ...known.map(({ accepted, sent, failed }) => Math.max(accepted, sent, failed))),
  );
  return [
    ...frame(strip, `messages in ${every}`, high, scale.width),
    ...known.flatMap((column) => [
      ...bar(column, column.accepted, high, strip, 'accepted', scale),
      ...bar(column, column.sent, high, strip, 'sent', { ...scale, columnWidth: scale.columnWidth * 0.6 }),
      ...bar(column, column.failed, high, strip, 'lost', { ...scale, columnWidth: scale.columnWidth * 0.6 }),
    ]),
  ];
}

function waiting(known: readonly Column[], scale: Scale): Element[] {
  const high = roundUp(Math.max(1, ...known.map(({ waitingMax }) => waitingMax)));
  return [
    ...frame(STRIPS.waiting, 'most waiting, messages', high, scale.width),
    ...known.flatMap((column) => bar(column, column.waitingMax, high, STRIPS.waiting, 'waits', scale)),
  ];
}

/** The times with a peer; without one there is no strip. */
function share(known: readonly Column[], of: 'relayUp' | 'linkUp', name: string, scale: Scale): Element[] {
  if (known.every((column) => column[of] === null)) return [];
  const strip = STRIPS[of];
  return [
    ...frame(strip, name, null, scale.width),
    ...known.flatMap((column) => {
      const up = column[of];
      if (up === null) return [];
      return [
        ...bar(column, 1 - up, 1, strip, 'away', { ...scale, columnWidth: scale.columnWidth + 1 }),
        ...(up === 1
          ? bar(column, 0.5, 1, strip, 'there', { ...scale, columnWidth: scale.columnWidth + 1 })
          : []),
      ];
    }),
  ];
}

/** Tells the numbers of a column where the mouse rests. */
function hint(column: Column, every: string, { x, columnWidth }: Scale): Element {
  const { accepted, sent, failed, waitingMax } = column;
  const when = clockTime(new Date(column.atMs).toISOString(), Date.now());
  const words = `${when}, ${every}: ${accepted} accepted, ${sent} sent, ${failed} failed, at most ${waitingMax} waiting`;
  return svg(
    'rect',
    { x: x(column.atMs), y: 0, width: columnWidth, height: AXIS, class: 'hint' },
    svg('title', {}, words),
  );
}

function legend({ columnMs, columns }: Columns): Element {
  const has = (of: 'relayUp' | 'linkUp') => columns.some((column) => column !== null && column[of] !== null);
  const peers =
    has('relayUp') || has('linkUp')
      ? ([
          ['there', 'there'],
          ['away', 'not there'],
        ] as const)
      : [];
  const entries = [
    ['accepted', 'accepted'],
    ['sent', 'sent'],
    ['lost', 'failed or expired'],
    ['waits', 'waiting'],
    ...peers,
  ] as const;
  return html(
    'ul',
    { class: 'legend' },
    ...entries.map(([name, words]) =>
      html(
        'li',
        {},
        svg('svg', { viewBox: '0 0 10 10' }, svg('rect', { width: 10, height: 10, class: name })),
        words,
      ),
    ),
    html('li', { class: 'soft' }, `each column ${span(columnMs)}`),
  );
}
