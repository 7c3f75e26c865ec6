/**
 * The pages that people read: the README, its neighbours and the manual pages, their generated parts and their tables. After a
 * change of the code `FIELDPOST_TEST_WRITE=1 bash scripts/test test/docs test/config/table.test.ts` writes the generated parts.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import type { Test } from 'tap';

/** The manual pages by path. */
const MANUALS: readonly string[] = readdirSync('build/man')
  .sort()
  .map((name) => `build/man/${name}`);

/** Every page of the repository that people read. */
export const PAGES: readonly string[] = ['README.md', 'test/README.md', ...MANUALS];

/** Compares the lines between `<!-- name -->` and `<!-- end of name -->` of a page with those that the code gives. */
export function sameBlock(t: Test, page: string, name: string, lines: readonly string[]): void {
  const [mark, end] = [`<!-- ${name} -->\n`, `<!-- end of ${name} -->`];
  const text = readFileSync(page, 'utf8');
  const from = text.indexOf(mark) + mark.length;
  const to = text.indexOf(end);
  if (from < mark.length || to < from) throw new Error(`${page} has no part "${name}"`);
  sameFile(t, page, `${text.slice(0, from)}${lines.map((line) => `${line}\n`).join('')}${text.slice(to)}`);
}

/** Compares a generated file with what the code gives. */
export function sameFile(t: Test, path: string, wanted: string): void {
  if (process.env.FIELDPOST_TEST_WRITE) writeFileSync(path, wanted);
  else t.equal(readFileSync(path, 'utf8'), wanted, `${path}: FIELDPOST_TEST_WRITE=1 writes it`);
}

/** The section of a page below a heading, up to the next heading of the same or a higher level. */
export function sectionOf(page: string, heading: string): string {
  const level = /^#+/.exec(heading)?.[0].length ?? 0;
  const text = `${readFileSync(page, 'utf8')}\n# end\n`;
  const from = text.indexOf(`\n${heading}\n`);
  if (from < 0) throw new Error(`${page} has no heading "${heading}"`);
  const below = text.slice(from + heading.length + 2);
  return below.slice(0, below.search(new RegExp(`^#{1,${level}} `, 'm')));
}

/** The first cells of all table rows in a text, without their backticks and without heads. */
export function firstCells(text: string): string[] {
  return [...text.matchAll(/^\| (.+?) \| .*\n(?!\|---)/gm)].map(([, cell = '']) => cell.replaceAll('`', ''));
}
