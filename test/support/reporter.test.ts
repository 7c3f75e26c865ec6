import { spawnSync } from 'node:child_process';
import t from 'tap';

/** What the reporter makes of tap's output: its lines and its exit status. */
function report(
  tapOutput: string,
  files: readonly string[] = [],
): { lines: string[]; last: string | undefined; status: number | null } {
  const run = spawnSync(process.execPath, ['test/support/reporter.mjs', ...files], {
    input: tapOutput,
    encoding: 'utf8',
  });
  const lines = run.stdout.trimEnd().split('\n');
  return { lines, last: lines.at(-1), status: run.status };
}

/** One file's output around `inside`, as tap prints it. */
const file = (inside: string, closing: string) =>
  `TAP version 14\n1..1\n# Subtest: test/a.test.ts\n${inside.replace(/^(?=.)/gm, '    ')}${closing}\n`;
const OK = 'ok 1 - test/a.test.ts # time=12ms';
const NOT_OK = 'not ok 1 - test/a.test.ts # time=12ms';

t.test('counts the innermost tests, not their assertions', async (t) => {
  const inner =
    '# Subtest: outer\n    # Subtest: inner\n        ok 1 - a\n        ok 2 - b\n        1..2\n    ok 1 - inner\n    1..1\nok 1 - outer\n1..1\n';
  const { last, status } = report(file(inner, OK));
  t.equal(last, '1 passed, 0 failed');
  t.equal(status, 0);
});

t.test('tells a failure in full, with the names above it', async (t) => {
  const inner =
    '# Subtest: outer\n    # Subtest: inner\n        not ok 1 - a\n          ---\n          diff: |\n            -1\n            +2\n          ...\n        1..1\n    not ok 1 - inner\n    1..1\nnot ok 1 - outer\n1..1\n';
  const { lines, last, status } = report(file(inner, NOT_OK));
  t.equal(last, '0 passed, 1 failed');
  t.equal(status, 1);
  t.ok(lines.includes('  ✗ outer › inner › a'), lines.join('\n'));
  t.ok(lines.some((line) => line.trim() === '+2'));
});

t.test('tells a skip and its reason', async (t) => {
  const { lines, last, status } = report(file('ok 1 - as root # SKIP needs root\nok 2 - b\n1..2\n', OK));
  t.equal(last, '1 passed, 0 failed');
  t.equal(status, 0);
  t.equal(lines.at(-2), '1 skipped, each with its reason above');
  t.ok(lines.some((line) => line.includes('as root: needs root')));
});

t.test('a whole file that skips itself is a skip', async (t) => {
  const { lines, last, status } = report(
    file('1..0 # needs Postfix\n', `${OK.replace(/#.*/, '')}# SKIP needs Postfix`),
  );
  t.equal(last, '0 passed, 0 failed');
  t.equal(status, 0);
  t.equal(lines.at(-2), '1 skipped, each with its reason above');
});

t.test('fails what holds no test, died outside of one, or was cut short', async (t) => {
  const cases: Record<string, string> = {
    'no test in the file': file('1..0 # no tests found\n', `${OK.replace(/#.*/, '')}# SKIP no tests found`),
    'a file that passed and then died': file('ok 1 - a\n1..1\n', NOT_OK),
    'output cut short': file('ok 1 - a\n', '').slice(0, -8),
    'a run given up': 'TAP version 14\nBail out! no memory\n',
    'nothing at all': '',
  };
  for (const [name, output] of Object.entries(cases)) {
    const { last, status } = report(output);
    t.match(last, /^\d+ passed, 1 failed$/, name);
    t.equal(status, 1, name);
  }
});

t.test('fails a file that was to be run and is not heard of', async (t) => {
  const { lines, last, status } = report(file('ok 1 - a\n1..1\n', OK), ['test/a.test.ts', 'test/b.test.ts']);
  t.equal(last, '1 passed, 1 failed');
  t.equal(status, 1);
  t.ok(lines.some((line) => line.startsWith('FAIL test/b.test.ts')));
});
