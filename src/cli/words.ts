/**
 * How commands show things to people: names, times, columns, colours.
 */

import { MINUTE_MS } from '../base/limits.js';
import type { Mood } from '../base/state-lines.js';
import type { Output } from '../base/system/process.js';
import { isoOf, PRINTABLE, visible } from '../base/text.js';
import type { CommandContext, CommandInput } from './command.js';

/** `value` as JSON for programs, harmless on a terminal. */
export function json(value: unknown): string {
  return `${visible(JSON.stringify(value, null, 2), '\n')}\n`;
}

/** The names of the types of messages and destinations. */
export const TYPE_NAMES = ['email', 'sms', 'phone', 'push'] as const;

/** The name of a type, or its number if it has none. */
export function typeName(type: number): string {
  return TYPE_NAMES[type - 1] ?? String(type);
}

/** The type of that name or number; 0 if there is none. */
export function typeNumber(word: string): number {
  return TYPE_NAMES.findIndex((name, index) => word === name || word === String(index + 1)) + 1;
}

/** How a reader is shown times of the API (ISO 8601). Any other text is shown unchanged. */
export interface Times {
  /** For the head of a column. */
  readonly zone: string;
  /** To the second, without the zone. */
  moment(iso: string): string;
  /** The same, with the time zone. */
  full(iso: string): string;
}

/** The option for times in the zone of this device. */
export const LOCAL = { local: { type: 'boolean' } } as const;

/** Times in UTC, or with --local in the zone of this device. */
export function timesFor({ options }: Pick<CommandInput, 'options'>): Times {
  if (options.local !== true) return { zone: 'UTC', moment, full: utc };
  return { zone: 'LOCAL', moment: (iso) => localTime(iso).moment, full: (iso) => localTime(iso).full };
}

/** A time of the API to the second, in UTC. */
export function moment(iso: string): string {
  return visible(iso.replace(/^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d).*$/, '$1 $2'));
}

/** The same, with the time zone. */
export function utc(iso: string): string {
  return `${moment(iso)} UTC`;
}

function localTime(iso: string): { readonly moment: string; readonly full: string } {
  const ms = Date.parse(iso);
  if (Number.isNaN(ms)) return { moment: visible(iso), full: visible(iso) };
  const eastMinutes = -new Date(ms).getTimezoneOffset();
  const shown = moment(isoOf(ms + eastMinutes * MINUTE_MS));
  const [hours, minutes] = [Math.floor(Math.abs(eastMinutes) / 60), Math.abs(eastMinutes) % 60].map((part) =>
    String(part).padStart(2, '0'),
  );
  return { moment: shown, full: `${shown} ${eastMinutes < 0 ? '-' : '+'}${hours}:${minutes}` };
}

/** No column becomes narrower. */
const CELLS_MIN = 8;

/** The width of a terminal; infinite for a file, a pipe, or a terminal that does not tell. */
export function widthOf({ isTTY, columns }: Output): number {
  return (isTTY && columns) || Number.POSITIVE_INFINITY;
}

/**
 * Rows in aligned columns, made harmless for a terminal. Where they are wider than `cells`, the widest of the `elastic` ones
 * end in `…`, and at last each line.
 */
export function columns(
  rows: readonly (readonly string[])[],
  { cells = Number.POSITIVE_INFINITY, elastic = [] }: { cells?: number; elastic?: readonly number[] } = {},
): string[] {
  const shown = rows.map((row) => row.map((cell) => visible(cell)));
  const widths: number[] = [];
  for (const row of shown) {
    for (const [index, cell] of row.entries()) widths[index] = Math.max(widths[index] ?? 0, cellsIn(cell));
  }
  const width = (index: number) => widths[index] ?? 0;
  let over = widths.reduce((sum, one) => sum + one + 2, -2) - cells;
  for (; over > 0 && elastic.length > 0; over--) {
    const widest = elastic.reduce((most, one) => (width(one) > width(most) ? one : most));
    if (width(widest) <= CELLS_MIN) break;
    widths[widest] = width(widest) - 1;
  }
  const fill = (row: readonly string[]) => row.map((cell, index) => fitted(cell, width(index))).join('  ');
  return shown.map((row) => ended(fill(row).trimEnd(), cells));
}

/** Rows of a name and words. Words that are longer than the terminal is wide go on below themselves. */
export function terms(
  rows: readonly (readonly [name: string, words: string])[],
  cells: number,
  paint: (line: string, row: number) => string = (line) => line,
): string[] {
  const names = columns(rows.map(([name]) => [name, '|']));
  return rows.flatMap(([, words], row) => {
    const name = names[row]?.slice(0, -1) ?? '';
    const lines = wrapped(visible(words), Math.max(cells - name.length, 2 * CELLS_MIN));
    return lines.map((line, index) => `${index === 0 ? name : ' '.repeat(name.length)}${paint(line, row)}`);
  });
}

/** A text in lines of so many characters, if none of its words is longer. */
export function wrapped(text: string, chars: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(' ')) {
    const line = lines.at(-1);
    if (line !== undefined && line.length + 1 + word.length <= chars)
      lines[lines.length - 1] = `${line} ${word}`;
    else lines.push(word);
  }
  return lines;
}

function fitted(text: string, cells: number): string {
  const shown = ended(text, cells);
  return shown + ' '.repeat(cells - cellsIn(shown));
}

/** A text of at most so many cells; `…` stands for the rest. */
function ended(text: string, cells: number): string {
  if (cellsIn(text) <= cells) return text;
  let shown = '';
  for (const char of text) {
    if (cellsIn(shown + char) >= cells) break;
    shown += char;
  }
  return `${shown}…`;
}

/** How many cells of a terminal a text takes: none for a mark on a letter, two for a letter of East Asia or an emoji. */
function cellsIn(text: string): number {
  if (PRINTABLE.test(text)) return text.length;
  return [...text].reduce((sum, char) => sum + (/\p{M}/u.test(char) ? 0 : WIDE.test(char) ? 2 : 1), 0);
}

const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1f64f}\u{1f680}-\u{1f6ff}\u{1f900}-\u{1f9ff}\u{20000}-\u{3fffd}]/u;

const COLOUR: Record<Mood, number> = { good: 32, uneasy: 33, bad: 31 };

/** Colours text by mood if `output` is a terminal, unless NO_COLOR (no-color.org) is set. */
export function painter(output: Output, env: CommandContext['env']): (mood: Mood, text: string) => string {
  const plain = !output.isTTY || (env.NO_COLOR ?? '') !== '' || env.TERM === 'dumb';
  return (mood, text) => (plain ? text : `\u001b[${COLOUR[mood]}m${text}\u001b[0m`);
}
