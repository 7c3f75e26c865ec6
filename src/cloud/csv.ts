/**
 * Lists as CSV (RFC 4180) for a spreadsheet, and when a call answers with one.
 */
import type { Exchange } from '../base/http/exchange.js';

/** What a call with a list answers with. */
export const LIST_FORMATS = ['json', 'csv'] as const;

const CSV_TYPE = 'text/csv; charset=utf-8; header=present';

/** True if CSV is asked for: by `format`, or without one by Accept. Programs that take anything get JSON. */
export function wantsCsv(format: (typeof LIST_FORMATS)[number] | null, accept = ''): boolean {
  if (format !== null) return format === 'csv';
  const types = accept.split(',').map((part) => part.split(';')[0]?.trim().toLowerCase());
  return (
    types.find((type) => type === 'text/csv' || type === 'application/json' || type === '*/*') === 'text/csv'
  );
}

/** Answers with a file of this name. `headers`: more of them. */
export function sendCsv(
  exchange: Exchange,
  name: string,
  lines: readonly string[],
  headers: Readonly<Record<string, string>> = {},
): void {
  const disposition = { 'Content-Disposition': `attachment; filename="${name}"` };
  exchange.send(200, CSV_TYPE, lines, { Vary: 'Accept', ...disposition, ...headers });
}

/** The value of a cell; null and undefined: it is empty. */
export type Cell = string | number | null | undefined;

/** The names of the columns, then a line for each row, each with its end. */
export function csvOf(columns: readonly string[], rows: Iterable<Readonly<Record<string, Cell>>>): string[] {
  const lines = [`${columns.join(',')}\r\n`];
  for (const row of rows) lines.push(`${columns.map((name) => cellOf(row[name])).join(',')}\r\n`);
  return lines;
}

function cellOf(value: Cell): string {
  if (typeof value !== 'string') return String(value ?? '');
  // A spreadsheet takes such a text for a formula, and devices choose their texts.
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
