/**
 * How commands say things to people: text that cannot steer a terminal, ages, sizes, columns. Used by the
 * commands.
 */
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../limits.js';
import type { CommandContext, Output } from './command.js';

/**
 * `text` with every character that could steer a terminal or turn its words around made visible. What a
 * relay or a sender wrote may hold escape sequences.
 */
export function printable(text: string): string {
  const visible = (char: string) => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`;
  return text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, visible);
}

/** `value` as JSON for programs, which is as harmless on a terminal as printable text. */
export function json(value: unknown): string {
  const escaped = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
  const steering = /(?!\n)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;
  return `${JSON.stringify(value, null, 2).replace(steering, (char) => char.split('').map(escaped).join(''))}\n`;
}

/** A length of time in its largest unit: `45 s`, `4 min`, `3 h 20 min`, `2 d 5 h`. */
export function span(ms: number): string {
  if (ms < MINUTE_MS) return `${Math.max(0, Math.floor(ms / SECOND_MS))} s`;
  if (ms < HOUR_MS) return `${Math.floor(ms / MINUTE_MS)} min`;
  if (ms < DAY_MS) return withRest(ms, HOUR_MS, 'h', MINUTE_MS, 'min');
  return withRest(ms, DAY_MS, 'd', HOUR_MS, 'h');
}

function withRest(ms: number, unitMs: number, unit: string, restMs: number, rest: string): string {
  const more = Math.floor((ms % unitMs) / restMs);
  return `${Math.floor(ms / unitMs)} ${unit}${more === 0 ? '' : ` ${more} ${rest}`}`;
}

/** What people call the types of messages and destinations (local-api §1). */
export const TYPE_NAMES = ['email', 'sms', 'phone', 'push'] as const;

/** The name of a type, or its number where it has none. */
export function typeName(type: number): string {
  return TYPE_NAMES[type - 1] ?? String(type);
}

/** `1 message`, `3 messages`. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

/** A moment of the API (ISO 8601) to the second, in UTC, as a person reads it; text that is none as it is. */
export function moment(iso: string): string {
  return printable(iso.replace(/^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d).*$/, '$1 $2'));
}

/** Rows in columns as wide as their widest cell, two blanks between them. */
export function columns(rows: readonly (readonly string[])[]): string[] {
  const widths: number[] = [];
  for (const row of rows) {
    for (const [index, cell] of row.entries()) widths[index] = Math.max(widths[index] ?? 0, cell.length);
  }
  const fill = (row: readonly string[]) =>
    row.map((cell, index) => cell.padEnd(widths[index] ?? 0)).join('  ');
  return rows.map((row) => fill(row).trimEnd());
}

/** Green for what is well, yellow for what heals by itself, red for what needs somebody. */
export type Mood = 'good' | 'uneasy' | 'bad';

const COLOUR: Record<Mood, number> = { good: 32, uneasy: 33, bad: 31 };

/** Colours text by mood, if `output` is a terminal and NO_COLOR (no-color.org) does not object. */
export function painter(output: Output, env: CommandContext['env']): (mood: Mood, text: string) => string {
  const plain = !output.isTTY || (env.NO_COLOR ?? '') !== '' || env.TERM === 'dumb';
  return (mood, text) => (plain ? text : `\u001b[${COLOUR[mood]}m${text}\u001b[0m`);
}
