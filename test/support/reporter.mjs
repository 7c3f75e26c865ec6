/**
 * Reads tap's output on standard input and tells it to a person: a line per test file, failures in full,
 * skips with their reason, and as the very last line `N passed, N failed`; before it, how many were skipped.
 * A test that holds no further test counts as one, however many assertions it makes. A file that crashed,
 * timed out, held no test, or was named as an argument and never heard of (after a file that hangs tap gives up
 * the others without a word) counts as a failure. Used by scripts/test, which keeps the exit status.
 */
import { Parser } from 'tap-parser';

// What tap says of a file that came to its end without a single test; it calls that a pass.
const NO_TESTS = 'no tests found';
// What tap tells of the process of a failed file that says no more than the file's name.
const DULL = new Set(['stdio', 'cwd', 'externalID', 'command', 'args', 'jobId', 'tapCaught']);

const total = { passed: 0, failed: 0, skipped: 0 };
const root = new Parser();
let file = null;
const missing = new Set(process.argv.slice(2));

root.on('child', (parser) => {
  file = follow(parser, []);
});
root.on('assert', (point) => {
  // A point without a file is tap's own word on a failure that has been told, such as `timeout!`.
  if (file === null && total.failed > 0) return;
  file ??= { passed: 0, failed: 0, skipped: 0, lines: [], noise: [] };
  judge(file, point);
  print(file, point);
  missing.delete(point.name);
  for (const key of Object.keys(total)) total[key] += file[key];
  file = null;
});
root.on('bailout', (reason) => {
  console.log(`FAIL the run was given up: ${reason}`);
});
root.on('complete', (results) => {
  for (const name of missing) {
    console.log(`FAIL ${name} (was not run to its end)`);
    total.failed += 1;
  }
  if (!results.ok && total.failed === 0) total.failed = 1;
  if (total.passed + total.failed + total.skipped === 0) {
    console.log('FAIL no test was run');
    total.failed = 1;
  }
  if (total.skipped > 0) console.log(`${total.skipped} skipped, each with its reason above`);
  console.log(`${total.passed} passed, ${total.failed} failed`);
  process.exitCode = total.failed === 0 ? 0 : 1;
});
process.stdin.pipe(root);

/** Counts what happens in one test (or file), its inner tests included; `path` is the names above it. */
function follow(parser, path) {
  const seen = { passed: 0, failed: 0, skipped: 0, lines: [], noise: [], inner: 0 };
  let child = null;
  parser.on('child', (inner) => {
    seen.inner += 1;
    child = follow(inner, [...path, inner.name.replace(/^Subtest: /, '')]);
  });
  parser.on('extra', (text) => seen.noise.push(text.trimEnd()));
  parser.on('comment', (text) => {
    if (!/^# (?:time=|Subtest)/.test(text)) seen.noise.push(text.trimEnd());
  });
  parser.on('assert', (point) => {
    const ended = child;
    child = null;
    const name = [...path, ...(ended === null ? [point.name] : [])].join(' › ');
    if (ended !== null) {
      for (const key of ['passed', 'failed', 'skipped']) seen[key] += ended[key];
      seen.lines.push(...ended.lines);
      seen.noise.push(...ended.noise);
      // Its failures have been told one by one.
      if (ended.inner === 0) tally(seen, point, point.ok);
      else if (!point.ok && ended.failed === 0) tally(seen, point, false);
      return;
    }
    const excuse = excuseOf(point);
    if (excuse !== null) {
      seen.skipped += 1;
      seen.lines.push(`     skipped: ${name}: ${excuse}`);
    } else if (!point.ok) {
      seen.lines.push(`  ✗ ${name}`, ...detail(point.diag));
      if (path.length === 0) seen.failed += 1;
    } else if (path.length === 0) seen.passed += 1;
  });
  return seen;
}

/** The reason why a point was skipped or is left to do; null if it was neither. */
function excuseOf(point) {
  const excuse = point.skip || point.todo;
  return excuse ? (excuse === true ? 'no reason given' : excuse) : null;
}

function tally(seen, point, ok) {
  if (excuseOf(point) !== null) seen.skipped += 1;
  else if (ok) seen.passed += 1;
  else seen.failed += 1;
}

/** Adds what only the end of a file's process can tell: that it died, hung, or held no test. */
function judge(seen, point) {
  const counted = seen.passed + seen.failed + seen.skipped;
  if (point.ok && point.skip && point.skip !== NO_TESTS) {
    seen.skipped += 1;
    seen.lines.push(`     skipped: ${point.skip}`);
  } else if (point.ok && counted === 0) {
    seen.failed += 1;
    seen.lines.push('  ✗ it ran no test');
  } else if (!point.ok && seen.failed === 0) {
    seen.failed += 1;
    seen.lines.push(
      '  ✗ the file did not end well (see above if it wrote to standard error)',
      ...detail(point.diag),
    );
  }
}

function print(seen, point) {
  const failed = seen.failed > 0;
  const counts = `${seen.passed} passed${failed ? `, ${seen.failed} failed` : ''}`;
  const seconds = point.time ? `, ${(point.time / 1000).toFixed(1)} s` : '';
  console.log(`${failed ? 'FAIL' : 'ok  '} ${point.name} (${counts}${seconds})`);
  for (const line of seen.lines) console.log(line);
  // Seeds and the like: wanted when something failed.
  if (failed) for (const line of seen.noise) if (line !== '') console.log(`     | ${line}`);
}

/** What tap knows of a failure, indented. */
function detail(diag) {
  const lines = [];
  for (const [key, value] of Object.entries(diag ?? {})) {
    if (DULL.has(key)) continue;
    if (key === 'at') lines.push(`at: ${value.fileName}:${value.lineNumber}:${value.columnNumber}`);
    else if (typeof value !== 'string') lines.push(`${key}: ${JSON.stringify(value)}`);
    else if (!value.trimEnd().includes('\n')) lines.push(`${key}: ${value.trimEnd()}`);
    else
      lines.push(
        `${key}:`,
        ...value
          .trimEnd()
          .split('\n')
          .map((line) => `  ${line}`),
      );
  }
  return lines.map((line) => `      ${line}`);
}
