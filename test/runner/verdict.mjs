/**
 * The verdict on one test file, from the TAP that it prints and the end of its process. An innermost test counts as one,
 * however many assertions it makes. A file that crashes, times out, stops early or has no test counts as a failure.
 */
import { Parser } from 'tap-parser';

/** tap's reason for a skip when a file ends without a test. */
const NO_TESTS = 'no tests found';

/** Reads TAP from the stream `output`. Call `end(code, signal)` once the process has ended: it gives the verdict. */
export function readTap(output) {
  const parser = new Parser();
  const seen = follow(parser, []);
  let results = null;
  let bailout = null;
  parser.on('bailout', (reason) => {
    bailout = reason || 'no reason given';
  });
  parser.on('complete', (all) => {
    results = all;
  });
  output.pipe(parser);
  return {
    async end(code, signal) {
      if (results === null) {
        const completed = new Promise((resolve) => parser.on('complete', resolve));
        output.unpipe(parser);
        parser.end();
        await completed;
      }
      judge(seen, { code, signal, results, bailout });
      const { passed, failed, skipped, lines, noise } = seen;
      return { passed, failed, skipped, lines, noise: noise.filter((line) => line !== '') };
    },
  };
}

/** Counts the results of one test (or file) and its inner tests; `path` holds the names above it. */
function follow(parser, path) {
  const seen = { passed: 0, failed: 0, skipped: 0, lines: [], noise: [], inner: 0 };
  let child = null;
  parser.on('child', (inner) => {
    seen.inner += 1;
    child = follow(inner, [...path, inner.name.replace(/^Subtest: /, '')]);
  });
  parser.on('extra', (text) => seen.noise.push(text.trimEnd()));
  parser.on('comment', (text) => {
    if (!/^# (?:time=|Subtest|\{ total: )/.test(text)) seen.noise.push(text.trimEnd());
  });
  parser.on('assert', (point) => {
    const ended = child;
    child = null;
    const name = [...path, ...(ended === null ? [point.name] : [])].join(' › ');
    if (ended !== null) {
      for (const key of ['passed', 'failed', 'skipped']) seen[key] += ended[key];
      seen.lines.push(...ended.lines);
      seen.noise.push(...ended.noise);
      // The failures inside are already printed.
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

/** The reason for a skip or a todo; null if the point is neither. */
function excuseOf(point) {
  const excuse = point.skip || point.todo;
  return excuse ? (excuse === true ? 'no reason given' : excuse) : null;
}

function tally(seen, point, ok) {
  if (excuseOf(point) !== null) seen.skipped += 1;
  else if (ok) seen.passed += 1;
  else seen.failed += 1;
}

/** Adds the failures that show at the end of the process: it died, hung, stopped early, or had no test. */
function judge(seen, { code, signal, results, bailout }) {
  const reason = results.plan.skipAll ? results.plan.skipReason || 'no reason given' : null;
  const well = results.ok && code === 0 && bailout === null;
  const fail = (why) => {
    seen.failed += 1;
    seen.lines.push(`  ✗ ${why}`);
  };
  if (bailout !== null) fail(`the file gave up: ${bailout}`);
  else if (!well && seen.failed === 0) {
    const end = signal === null ? `status ${code}` : signal;
    fail(`the file did not end well: ${end}`);
    for (const { name, tapError, diag } of results.failures) {
      seen.lines.push(`      ${tapError ?? name}`, ...detail(diag));
    }
  } else if (well && reason !== null && reason !== NO_TESTS) {
    seen.skipped += 1;
    seen.lines.push(`     skipped: ${reason}`);
  } else if (well && seen.passed + seen.failed + seen.skipped === 0) fail('it ran no test');
}

/** tap's diagnostics of a failure, indented. */
function detail(diag) {
  const lines = [];
  for (const [key, value] of Object.entries(diag ?? {})) {
    if (key === 'at') lines.push(`at: ${value.fileName}:${value.lineNumber}:${value.columnNumber}`);
    else if (typeof value !== 'string') lines.push(`${key}: ${JSON.stringify(value)}`);
    else if (!value.trimEnd().includes('\n')) lines.push(`${key}: ${value.trimEnd()}`);
    else {
      const told = value.trimEnd().split('\n');
      lines.push(`${key}:`, ...told.map((line) => `  ${line}`));
    }
  }
  return lines.map((line) => `      ${line}`);
}
