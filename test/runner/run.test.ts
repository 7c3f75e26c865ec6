// A process of its own: it takes long.
import { spawnSync } from 'node:child_process';
import { relative } from 'node:path';
import t, { type Test } from 'tap';
// @ts-expect-error: a script without types.
import { leftInWords } from './progress.mjs';

interface Run {
  readonly stdout: string;
  readonly lines: readonly string[];
  readonly last: string | undefined;
  readonly status: number | null;
  /** Names of the files that the runner prints as FAIL. */
  readonly failed: readonly string[];
}

/** Runs the runner on test files with these texts. */
function run(t: Test, texts: Readonly<Record<string, string>>, settings: NodeJS.ProcessEnv = {}): Run {
  const entries = Object.entries(texts).map(([name, text]) => [`${name}.test.ts`, text]);
  const directory = relative('.', t.testdir(Object.fromEntries(entries)));
  const files = Object.keys(texts).map((name) => `${directory}/${name}.test.ts`);
  const { FIELDPOST_TEST_LONG: _, ...env } = process.env;
  const { stdout, status } = spawnSync(process.execPath, ['test/runner/run.mjs', ...files], {
    env: { ...env, FIELDPOST_TEST_SEED: '7', ...settings },
    encoding: 'utf8',
  });
  const lines = stdout.trimEnd().split('\n');
  const upToSummary = lines.slice(
    0,
    lines.findLastIndex((line) => / files? failed:$/.test(line)),
  );
  const failed = upToSummary.flatMap((line) => /^FAIL .*\/([^/]+)\.test\.ts /.exec(line)?.[1] ?? []);
  return { stdout, lines, last: lines.at(-1), status, failed: failed.sort() };
}

/** The line of a file that shares its process with no other. */
const OWN = '// A process of its own: it is a test of that.\n';

/** A test file that prints this TAP itself. */
const tap = (text: string) => `${OWN}console.log(${JSON.stringify(`TAP version 14\n${text}`)});`;

t.test('the runner counts innermost tests, not assertions', async (t) => {
  const { last, status } = run(t, {
    nested: tap(
      '# Subtest: outer\n    # Subtest: inner\n        ok 1 - a\n        ok 2 - b\n        1..2\n    ok 1 - inner\n    1..1\nok 1 - outer\n1..1',
    ),
    flat: tap('ok 1 - a\nok 2 - b\n1..2'),
  });
  t.equal(last, '3 passed, 0 failed');
  t.equal(status, 0);
});

t.test('the runner prints its seed and its progress first', async (t) => {
  const { lines } = run(t, { a: tap('ok 1 - a\n1..1') });
  t.equal(lines[0], 'test: FIELDPOST_TEST_SEED=7');
  t.match(lines[1], /^ +0 of 1 files, 0 passed, 0 failed, 0 s/);
  t.match(lines[2], /^ok {3}\S+\/a\.test\.ts \(1 passed, \d+\.\d s\)$/);
});

t.test('how long the rest takes is told once a tenth has ended', async (t) => {
  t.equal(leftInWords(0, 200, 5), '');
  t.equal(leftInWords(19, 200, 60), '');
  t.equal(leftInWords(20, 200, 60), ', about 9 min left');
  t.equal(leftInWords(150, 200, 240), ', about 80 s left');
  t.equal(leftInWords(199, 200, 200), ', about 10 s left');
  t.equal(leftInWords(200, 200, 240), '');
});

t.test('the runner prints a failure with its place, and repeats it with the command', async (t) => {
  const { lines, stdout, last, status } = run(
    t,
    {
      a: "import t from 'tap';\ninterface None {}\nt.test('outer', (t) => t.test('inner', async (t: None & typeof import('tap').default) => {\n  t.comment('a word');\n  t.equal(1, 2);\n}));",
      b: tap('ok 1 - b\n1..1'),
    },
    { FIELDPOST_TEST_PEERS: '1' },
  );
  t.equal(last, '1 passed, 1 failed');
  t.equal(status, 1);
  const end = lines.indexOf('1 file failed:');
  t.ok(end > 0, stdout);
  const [path] = /\S+\/a\.test\.ts/.exec(stdout) ?? [];
  for (const part of [lines.slice(0, end), lines.slice(end)]) {
    const has = (text: string) => t.ok(part.includes(text), `${text} in\n${part.join('\n')}`);
    has('  ✗ outer › inner › should be equal');
    has(`      at: ${path}:5:5`);
    has('     | # a word');
    const again = part.find((line) => line.startsWith('     again: '));
    t.match(again, / FIELDPOST_TEST_PEERS=1 .*bash scripts\/test /);
    t.match(again, / FIELDPOST_TEST_SEED=7 /);
    t.ok(again?.endsWith(` ${path}`), String(again));
  }
});

t.test('the runner prints a skip and its reason', async (t) => {
  const { lines, last, status } = run(t, {
    one: tap('ok 1 - as root # SKIP needs root\nok 2 - b\n1..2'),
    whole: tap('1..0 # needs Postfix'),
  });
  t.equal(last, '1 passed, 0 failed');
  t.equal(status, 0);
  t.equal(lines.at(-2), '2 skipped, each with its reason above');
  t.ok(lines.includes('     skipped: as root: needs root'));
  t.ok(lines.includes('     skipped: needs Postfix'));
});

t.test('a file fails that has no test, dies outside of one, or stops early', async (t) => {
  const ONE = 'ok 1 - a\n1..1';
  const cases = {
    'no-test': tap('1..0 # no tests found'),
    nothing: OWN,
    died: `${tap(ONE)} process.exitCode = 3;`,
    killed: `${tap(ONE)} setTimeout(() => {}, 9999); process.kill(process.pid, 'SIGKILL');`,
    threw: `${tap(ONE)} throw new Error('the words of the error');`,
    'cut-short': tap('ok 1 - a'),
    'given-up': tap('Bail out! no memory'),
    'not-compiled': `${OWN}const a = ;`,
  };
  const { stdout, last, failed, status } = run(t, cases);
  t.same(failed, Object.keys(cases).sort());
  // Four files passed one test before they failed: died, killed, threw and cut-short.
  t.equal(last, `4 passed, ${Object.keys(cases).length} failed`);
  t.equal(status, 1);
  for (const words of ['status 3', 'SIGKILL', 'the words of the error', 'gave up: no memory']) {
    t.match(stdout, words);
  }
});

t.test('the runner ends a file that hangs, and waits for no process left behind', async (t) => {
  const { stdout, failed, last } = run(
    t,
    {
      awaits: `${OWN}import t from 'tap'; setInterval(() => {}, 999); t.test('for ever', () => new Promise(() => {}));`,
      silent: `${tap('ok 1 - a')} setInterval(() => {}, 999);`,
      leaves: `${OWN}import { spawn } from 'node:child_process';
        spawn('sleep', ['30'], { stdio: 'inherit', detached: true }).unref();
        ${tap('ok 1 - a\n1..1')}`,
    },
    { FIELDPOST_TEST_SECONDS: '1' },
  );
  t.same(failed, ['awaits', 'silent']);
  t.equal(last, '2 passed, 2 failed');
  t.match(stdout, /✗ for ever › timeout!/);
  t.match(stdout, /! a process that it left behind/);
});

t.test('teardowns run before the directory of a test is removed', async (t) => {
  const { last, stdout } = run(t, {
    a: `import { existsSync } from 'node:fs';
      import t from 'tap';
      t.test('outer', (t) => t.test('inner', async (t) => {
        const file = t.testdir({ a: '' }) + '/a';
        t.teardown(() => {
          if (!existsSync(file)) throw new Error('it is gone');
        });
      }));`,
  });
  t.equal(last, '1 passed, 0 failed', stdout);
});

/** Test files that share a process. */
const room = (texts: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, `import t from 'tap';\n${text}`]));
const PASSES = "t.test('passes', async (t) => t.pass());";

t.test(
  'the files of a directory share a process, and each has its own tests, directory and teardown',
  async (t) => {
    const { stdout, last, status, lines } = run(
      t,
      room({
        a: `globalThis.pids = [process.pid];
        t.teardown(() => globalThis.pids.push('a has ended'));
        t.test('a', async (t) => t.ok(t.testdir()));
        t.test('b', async (t) => t.ok(t.testdir()));`,
        b: `const seen = globalThis.pids;
        t.test('a', async (t) => t.same([seen, t.testdirName.endsWith('-b-a')], [[process.pid, 'a has ended'], true]));`,
        bare: 't.equal(1, 1); t.equal(2, 2);',
        own: `${OWN}t.test('alone', async (t) => t.equal(globalThis.pids, undefined));`,
      }),
    );
    t.equal(last, '6 passed, 0 failed', stdout);
    t.equal(status, 0);
    const told = lines.flatMap(
      (line) => /^ok {3}\S+\/(\w+)\.test\.ts \((\d) passed/.exec(line)?.slice(1).join() ?? [],
    );
    t.same(told.sort(), ['a,2', 'b,1', 'bare,2', 'own,1']);
  },
);

t.test('a failure among files that share a process names its file and both commands', async (t) => {
  const { failed, last, lines, stdout } = run(
    t,
    room({
      a: PASSES,
      b: "t.test('b', async (t) => { console.error('a complaint'); t.equal(1, 2); });",
      c: "throw new Error('the words of the error');",
      d: 'void 0;',
      e: PASSES,
    }),
  );
  t.same(failed, ['b', 'c', 'd']);
  t.equal(last, '2 passed, 3 failed', stdout);
  t.match(stdout, /the words of the error/);
  t.match(stdout, /! a complaint/);
  const commands = lines.filter((line) => / again.*\/b\.test\.ts$/.test(line)).slice(0, 2);
  t.match(commands[0], /^ {5}again: .* bash scripts\/test \S+\/b\.test\.ts$/);
  t.match(commands[1], /^ {5}if that passes, again .* bash scripts\/test \S+\/a\.test\.ts \S+\/b\.test\.ts$/);
});

t.test(
  'a file that ends the process of others, or keeps it, fails with those that did not run',
  async (t) => {
    const exits = run(t, room({ a: PASSES, b: "t.test('b', () => process.exit(0));", c: PASSES }));
    t.same(exits.failed, ['b', 'c'], exits.stdout);
    t.match(exits.stdout, /the process ended before it/);
    const killed = run(t, room({ a: PASSES, b: "t.test('b', () => process.kill(process.pid, 'SIGKILL'));" }));
    t.same(killed.failed, ['b'], killed.stdout);
    t.match(killed.stdout, /SIGKILL/);
    const hangs = run(
      t,
      room({ a: "setInterval(() => {}, 999); t.test('a', () => new Promise(() => {}));", b: PASSES }),
      { FIELDPOST_TEST_SECONDS: '1' },
    );
    t.ok(hangs.failed.includes('a'), hangs.stdout);
    t.match(hangs.stdout, /timeout!/);
    const status = run(t, room({ a: `process.exitCode = 3; ${PASSES}`, b: PASSES }));
    t.same(status.failed, ['b'], status.stdout);
    t.match(status.stdout, /status 3/);
    const broken = run(t, room({ a: PASSES, b: 'const a = ;' }));
    t.same(broken.failed, ['b'], broken.stdout);
    t.equal(broken.last, '1 passed, 1 failed');
  },
);
