/**
 * The rows of the history: what happened in ten minutes, or in an hour. They are numbered: how often ten minutes, or an
 * hour, have passed since 1970. Pure.
 */
import { HOUR_MS, MINUTE_MS } from '../../base/limits.js';

export const TEN_MS = 10 * MINUTE_MS;
export const TENS_MAX = 288;
export const HOURS_MAX = 720;
export const TENS_OF_HOUR = HOUR_MS / TEN_MS;

/** The lengths of a row. */
export type Step = '10m' | '1h';

/** What happened in a row's time. */
export interface HistoryRow {
  readonly accepted: number;
  readonly sent: number;
  /** Failed and expired. */
  readonly failed: number;
  readonly waitingMax: number;
  /** The longest age of a message that was not final, in seconds. */
  readonly oldestS: number;
  readonly relay: Share;
  readonly link: Share;
}

/** Percents of several times, added, times SHARES; and how many they are. 0: not known at any time. */
export type Share = number;
const SHARES = 64;

/** So many times of the same percentage. */
export function shareOf(percent: number, times = 1): Share {
  return percent * times * SHARES + times;
}

/** Their mean; null if it was not known at any time. */
export function percentOf(share: Share): number | null {
  const times = share % SHARES;
  return times === 0 ? null : Math.round(Math.floor(share / SHARES) / times);
}

function added(a: Share, b: Share): Share {
  return (a % SHARES) + (b % SHARES) < SHARES ? a + b : a;
}

/** Two rows of the same time as one. */
function folded(a: HistoryRow, b: HistoryRow): HistoryRow {
  return {
    accepted: a.accepted + b.accepted,
    sent: a.sent + b.sent,
    failed: a.failed + b.failed,
    waitingMax: Math.max(a.waitingMax, b.waitingMax),
    oldestS: Math.max(a.oldestS, b.oldestS),
    relay: added(a.relay, b.relay),
    link: added(a.link, b.link),
  };
}

const COLUMNS = 8;

/** Rows in the order of their numbers, packed: 32 bytes each. */
class Rows {
  length = 0;
  readonly #max: number;
  readonly #cells: Int32Array;

  constructor(max: number, from?: Rows) {
    this.#max = max;
    // One more, for a row that comes before the first is dropped.
    this.#cells = new Int32Array((max + 1) * COLUMNS);
    if (!from) return;
    this.#cells.set(from.#cells.subarray(0, from.length * COLUMNS));
    this.length = from.length;
  }

  numberAt(index: number): number {
    return this.#cells[index * COLUMNS] ?? Number.NaN;
  }

  /** The number of the last row; NaN without any. */
  get last(): number {
    return this.numberAt(this.length - 1);
  }

  at(index: number): HistoryRow {
    const start = index * COLUMNS + 1;
    const [accepted = 0, sent = 0, failed = 0, waitingMax = 0, oldestS = 0, relay = 0, link = 0] =
      this.#cells.subarray(start, start + COLUMNS - 1);
    return { accepted, sent, failed, waitingMax, oldestS, relay, link };
  }

  /** Adds a row, or folds it into that of the same number. Gives the first row if there are too many now. */
  fold(number: number, row: HistoryRow): readonly [number, HistoryRow] | null {
    let index = this.length;
    while (index > 0 && this.numberAt(index - 1) > number) index--;
    if (index > 0 && this.numberAt(index - 1) === number) {
      this.#set(index - 1, number, folded(this.at(index - 1), row));
      return null;
    }
    this.#cells.copyWithin((index + 1) * COLUMNS, index * COLUMNS, this.length * COLUMNS);
    this.#set(index, number, row);
    if (++this.length <= this.#max) return null;
    const first = [this.numberAt(0), this.at(0)] as const;
    this.#cells.copyWithin(0, COLUMNS, this.length-- * COLUMNS);
    return first;
  }

  /** Forgets the rows from this number on. */
  dropFrom(number: number): void {
    while (this.last >= number) this.length--;
  }

  /** Gives the rows from this number on numbers that differ by `delta`. Rows that had them are forgotten. */
  shift(from: number, delta: number): void {
    const moved: [number, HistoryRow][] = [];
    for (let i = 0; i < this.length; i++)
      if (this.numberAt(i) >= from) moved.push([this.numberAt(i) + delta, this.at(i)]);
    this.dropFrom(from);
    if (moved[0]) this.dropFrom(moved[0][0]);
    for (const [number, row] of moved) this.fold(number, row);
  }

  #set(index: number, number: number, row: HistoryRow): void {
    const { accepted, sent, failed, waitingMax, oldestS, relay, link } = row;
    this.#cells.set([number, accepted, sent, failed, waitingMax, oldestS, relay, link], index * COLUMNS);
  }
}

/** A row and its number. */
export type Numbered = readonly [number: number, row: HistoryRow];

/** The rows of 48 hours by ten minutes, and of 30 days by the hour. The numbers of its calls count ten minutes. */
export class Table {
  readonly #tens = new Rows(TENS_MAX);
  /** Without those that are in #tens. */
  readonly #hours = new Rows(HOURS_MAX);

  /** The number behind the last row; null without any. */
  get end(): number | null {
    const ends = [this.#tens.last + 1, (this.#hours.last + 1) * TENS_OF_HOUR];
    const end = Math.max(...ends.filter((one) => !Number.isNaN(one)));
    return Number.isFinite(end) ? end : null;
  }

  /** The row of ten minutes of this number; null without one. */
  get(number: number): HistoryRow | null {
    for (let i = this.#tens.length - 1; i >= 0; i--)
      if (this.#tens.numberAt(i) === number) return this.#tens.at(i);
    return null;
  }

  /** Adds a row of ten minutes. Rows from its number on were of a wrong clock, or unfinished: they are forgotten. */
  put(number: number, row: HistoryRow): void {
    this.#rewind(number);
    const dropped = this.#tens.fold(number, row);
    if (dropped) this.#hours.fold(hourOf(dropped[0]), dropped[1]);
  }

  /** The same for a row of an hour, or of its end from this number on. */
  putHour(number: number, row: HistoryRow): void {
    this.#rewind(number);
    this.#hours.fold(hourOf(number), row);
  }

  #rewind(number: number): void {
    this.#tens.dropFrom(number);
    this.#hours.dropFrom(hourOf(number) + 1);
  }

  /** The clock has leapt by so many ten minutes: moves the rows from this number on. */
  shift(from: number, delta: number): void {
    this.#tens.shift(from, delta);
    this.#hours.shift(Math.ceil(from / TENS_OF_HOUR), Math.round(delta / TENS_OF_HOUR));
    if (this.#tens.length > 0) this.#hours.dropFrom(hourOf(this.#tens.last) + 1);
  }

  /** The rows of ten minutes from this number on. */
  tensFrom(number: number): Numbered[] {
    return numbered(this.#tens, number);
  }

  /** The rows of hours before those of ten minutes; the numbers count hours. */
  hoursFrom(hour: number): Numbered[] {
    return numbered(this.#hours, hour);
  }

  /** All rows until `end`, the oldest first, for at most the time that the step is kept; numbers count steps. */
  rows(step: Step, end: number): Numbered[] {
    const tens = this.#tens;
    if (step === '10m') return numbered(tens, end - TENS_MAX).filter(([number]) => number < end);
    const hours = new Rows(HOURS_MAX, this.#hours);
    for (const [number, row] of numbered(tens, 0)) if (number < end) hours.fold(hourOf(number), row);
    const endHour = Math.ceil(end / TENS_OF_HOUR);
    return numbered(hours, endHour - HOURS_MAX).filter(([number]) => number < endHour);
  }
}

function numbered(rows: Rows, from: number): Numbered[] {
  const found: Numbered[] = [];
  for (let i = 0; i < rows.length; i++)
    if (rows.numberAt(i) >= from) found.push([rows.numberAt(i), rows.at(i)]);
  return found;
}

/** The hour in which these ten minutes are. */
export function hourOf(number: number): number {
  return Math.floor(number / TENS_OF_HOUR);
}

/** The rows of ten minutes as rows of hours; each has the number of its first ten minutes. */
export function byHours(tens: readonly Numbered[]): Numbered[] {
  const hours: [number, HistoryRow][] = [];
  for (const [number, row] of tens) {
    const last = hours.at(-1);
    if (last && hourOf(last[0]) === hourOf(number)) last[1] = folded(last[1], row);
    else hours.push([number, row]);
  }
  return hours;
}
