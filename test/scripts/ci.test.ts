/** What .ci/run and .ci/long promise of themselves, with scripts in place of the suites. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import t, { type Test } from 'tap';

const PASSES = "echo '2 passed, 0 failed'";
const SCRIPTS = {
  ...{ peers: '', container: '', debian: '', package: '', install: '', build: '' },
  ...{ 'arm-smoke': PASSES, 'node-smoke': PASSES, test: PASSES, simulate: '' },
};
const isRoot = process.getuid?.() === 0;
const skip = isRoot ? false : 'without root the suites that need it are skipped';

/** Starts a copy of a script among others; each may be replaced. */
function start(t: Test, name: string, replaced: Readonly<Record<string, string>> = {}) {
  const bash = (line: string) => `#!/usr/bin/env bash\n${line}\n`;
  const scripts = Object.entries({ ...SCRIPTS, ...replaced }).map(([name, line]) => [name, bash(line)]);
  const smokes = { smoke: bash(PASSES), guard: bash(PASSES) };
  const directory = t.testdir({
    scripts: { ...Object.fromEntries(scripts), bench: smokes },
    bin: { npm: bash('exec bash scripts/test'), 'apt-get': '', git: bash('exit 1') },
  });
  cpSync('.ci', `${directory}/.ci`, { recursive: true });
  // Files of tests, for what looks for those with a long variant.
  cpSync('test/store', `${directory}/test/store`, { recursive: true });
  for (const room of ['peers', 'systemd'])
    cpSync(`test/${room}`, `${directory}/test/${room}`, { recursive: true });
  const run = `chmod +x bin/*; PATH=$PWD/bin:$PATH exec bash .ci/${name}`;
  const child = spawn('bash', ['-c', run], { cwd: directory, env: { PATH: process.env.PATH } });
  const ended = Promise.all([once(child, 'close'), text(child.stdout), text(child.stderr)]);
  const told = ended.then(([[status], stdout, stderr]) => ({
    status: status as number | null,
    words: stdout + stderr,
    lines: stdout.trimEnd().split('\n'),
  }));
  return { child, told };
}

t.test('the last line counts all suites', { skip }, async (t) => {
  for (const [name, suites] of [
    ['run', 10],
    ['long', 4],
  ] as const) {
    const { status, lines, words } = await start(t, name).told;
    // The hour of fresh worlds counts as one.
    const passed = name === 'run' ? 2 * suites : 2 * (suites - 1) + 1;
    t.equal(lines.at(-1), `${passed} passed, 0 failed`, words);
    t.equal(status, 0);
  }
});

t.test('failures are repeated at the end, also that of a suite without a count', { skip }, async (t) => {
  const { status, lines, words } = await start(t, 'run', {
    'arm-smoke': `[[ \${1:-} ]] || { echo 'its words'; echo '1 passed, 3 failed'; exit 1; }`,
    'node-smoke': `[[ \${1:-} ]] || exit 7`,
  }).told;
  t.equal(lines.at(-1), '17 passed, 4 failed', words);
  t.equal(status, 1);
  const end = lines.slice(lines.findLastIndex((line) => line.startsWith('smoke ')) + 1);
  for (const line of [
    '== emulated ARM: 1 passed, 3 failed',
    'its words',
    'later versions of Node.js ended without a count',
  ])
    t.ok(end.includes(line), `${line} in\n${end.join('\n')}`);
});

t.test('what cannot be fetched is told and counts, and the rest goes on', { skip }, async (t) => {
  const { status, lines, words } = await start(t, 'run', { peers: "echo 'no network'; exit 100" }).told;
  // Without the suites of the peers and of systemd.
  t.equal(lines.at(-1), '16 passed, 1 failed', words);
  t.equal(status, 1);
  t.match(words, /^peers {3}\| skipped: peers is not there$/m);
  const end = lines.slice(-3);
  t.match(end, [/^== peers could not be prepared/, 'no network']);
});

t.test('an interrupt ends all lanes, and so does a kill', { skip }, async (t) => {
  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    const { child, told } = start(t, 'run', { test: PASSES, 'arm-smoke': 'echo waits; exec sleep 1h' });
    child.stdout.on('data', (text) => {
      if (/later|busy/.test(String(text))) child.kill(signal);
    });
    // Resolves only once no process holds its output any more.
    t.not((await told).status, 0, signal);
  }
});
