/**
 * `node scripts/trace.mjs MAP < LOG`: copies a log, with the places of the source in its stack traces. MAP is the source map
 * of the program that wrote it: the release has those of each version.
 */
import { readFileSync } from 'node:fs';
import { SourceMap } from 'node:module';

const [path] = process.argv.slice(2);
if (path === undefined) {
  console.error('usage: node scripts/trace.mjs MAP < LOG');
  process.exit(64);
}
const map = new SourceMap(JSON.parse(readFileSync(path, 'utf8')));
const log = readFileSync(0, 'utf8');
const told = log.replace(/[\w./-]+\.cjs:(\d+):(\d+)/g, (place, line, column) => {
  const { originalSource, originalLine, originalColumn } = map.findEntry(line - 1, column - 1);
  return originalSource === undefined ? place : `${originalSource}:${originalLine + 1}:${originalColumn + 1}`;
});
process.stdout.write(told);
