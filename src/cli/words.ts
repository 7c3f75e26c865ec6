/**
 * How commands show things to people: names, times, columns, colours.
 */
import type { Mood } from '../base/state-lines.js';
import type { Output } from '../base/system/process.js';
import { visible } from '../base/text.js';
import type { CommandContext } from './command.js';

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

/** A time of the API (ISO 8601) to the second, in UTC; any other text unchanged. */
export function moment(iso: string): string {
  return visible(iso.replace(/^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d).*$/, '$1 $2'));
}

/** The same, with the time zone. */
export function utc(iso: string): string {
  return `${moment(iso)} UTC`;
}

/** Rows in aligned columns, made harmless for a terminal. */
export function columns(rows: readonly (readonly string[])[]): string[] {
  const shown = rows.map((row) => row.map((cell) => visible(cell)));
  const widths: number[] = [];
  for (const row of shown) {
    for (const [index, cell] of row.entries()) widths[index] = Math.max(widths[index] ?? 0, cell.length);
  }
  const fill = (row: readonly string[]) =>
    row.map((cell, index) => cell.padEnd(widths[index] ?? 0)).join('  ');
  return shown.map((row) => fill(row).trimEnd());
}

const COLOUR: Record<Mood, number> = { good: 32, uneasy: 33, bad: 31 };

/** Colours text by mood if `output` is a terminal, unless NO_COLOR (no-color.org) is set. */
export function painter(output: Output, env: CommandContext['env']): (mood: Mood, text: string) => string {
  const plain = !output.isTTY || (env.NO_COLOR ?? '') !== '' || env.TERM === 'dumb';
  return (mood, text) => (plain ? text : `\u001b[${COLOUR[mood]}m${text}\u001b[0m`);
}
