/**
 * The verdict on test files, from the TAP that they print and the end of their process. An innermost test counts as one,
 * however many assertions it makes. A file that crashes, times out, stops early or has no test counts as a failure.
 */
import { Parser } from 'tap-parser';

/** tap's reason for a skip when a file ends without a test. */
const NO_TESTS = 'no tests found';
const NO_TEST = 'it ran no test';
/** The end of a process that is not at its end. */
const WELL = { code: 0, signal: null };

/**
 * Reads the TAP of a process from the stream `output`: that of one file, or that of a room, whose outer tests are its `files`.
 * Calls `begin(file)` when a file begins, `tell(file, verdict)` when it has ended, and `over()` when the last test of a room has.
 * Call `end(code, signal)` once the process has ended: it tells the rest.
 */
export function readTap(output, files, { begin, tell, over }) {
  const parser = new Parser();
  const waiting = [...files];
  const outside = [];
  let file = null;
  let point = null;
  let last = null;
  let failed = 0;
  const enter = (inner) => {
    file = watch(inner);
    file.seen.lines.push(...outside.splice(0));
    last = waiting[0];
    begin(last);
  };
  const close = (end) => {
    const verdict = verdictOf(file, end, point);
    failed += verdict.failed;
    tell(waiting.shift(), verdict);
    file = null;
    point = null;
  };
  if (files.length === 1) enter(parser);
  else {
    parser.on('child', enter);
    parser.on('extra', (text) => file?.seen.noise.push(text.trimEnd()));
    parser.on('assert', (next) => {
      if (file === null) {
        if (!next.ok) outside.push(`  ✗ ${next.name}`, ...detail(next.diag));
        return;
      }
      point = next;
      // With the last file also the process must end well.
      if (waiting.length > 1) close(WELL);
      else over();
    });
  }
  output.pipe(parser, { end: false });
  return {
    /** Takes what the process writes beside its TAP, or what is wrong with it: it counts for the file in progress. */
    complain(text) {
      const lines = text.trimEnd().split('\n');
      (file?.seen.lines ?? outside).push(...lines.map((line) => `     ! ${line}`));
    },
    async end(code, signal) {
      await new Promise((resolve) => {
        parser.on('complete', resolve);
        parser.end();
      });
      // After a failure of another file the process has the status 1 in any case.
      if (file !== null) close(failed > 0 ? { ...WELL, signal } : { code, signal });
      const begun = last === null ? 'no file had begun' : `the last that had begun is ${last}`;
      for (const each of waiting)
        tell(each, failure(`the process ended before it (${endOf(code, signal)}); ${begun}`, outside));
    },
  };
}

/** The verdict on a file that did not get so far as to have TAP. */
export const failure = (why, noise = []) => ({
  passed: 0,
  failed: 1,
  skipped: 0,
  lines: [`  ✗ ${why}`],
  noise,
});

/** Follows the TAP of one file to its end. */
function watch(parser) {
  const file = { seen: follow(parser, []), results: null, bailout: null };
  parser.on('bailout', (reason) => {
    file.bailout = reason || 'no reason given';
  });
  parser.on('complete', (results) => {
    file.results = results;
  });
  return file;
}

/** The verdict on a file, by the end of its process; in a room also by its own `point`. */
function verdictOf(file, end, point) {
  judge(file, end, point);
  const { passed, failed, skipped, lines, noise } = file.seen;
  return { passed, failed, skipped, lines, noise: noise.filter((line) => line !== '') };
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
function judge({ seen, results, bailout }, { code, signal }, point) {
  const reason = results.plan.skipAll ? results.plan.skipReason || NO_TESTS : null;
  const well = results.ok && code === 0 && bailout === null && point?.ok !== false;
  const fail = (why) => {
    seen.failed += 1;
    seen.lines.push(`  ✗ ${why}`);
  };
  if (bailout !== null) fail(`the file gave up: ${bailout}`);
  else if (!well && seen.failed === 0) {
    fail(`the file did not end well: ${endOf(code, signal)}`);
    for (const { name, tapError, diag } of [...results.failures, ...(point?.ok === false ? [point] : [])]) {
      seen.lines.push(`      ${tapError ?? name}`, ...detail(diag));
    }
  } else if (well && reason !== null && reason !== NO_TESTS) {
    seen.skipped += 1;
    seen.lines.push(`     skipped: ${reason}`);
  } else if (well && seen.passed + seen.failed + seen.skipped === 0) fail(NO_TEST);
}

const endOf = (code, signal) => signal ?? `status ${code}`;

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
