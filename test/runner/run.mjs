/**
 * `node test/runner/run.mjs FILE…`: compiles test files and runs each in its own process, several at a time. It prints
 * its progress, a line per file, failures in full, and skips with their reason. At the end it repeats all failures, each
 * with the command to run it again. The last line is `N passed, N failed`. scripts/test runs it.
 */
import { spawn } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { stripVTControlCharacters } from 'node:util';
import { compileTest } from './compile-test.mjs';
import { createProgress } from './progress.mjs';
import { seedOfRun } from './seed.mjs';
import { readTap } from './verdict.mjs';

// A file that takes ten minutes hangs, or the machine is busy; the long variants take up to an hour.
const asked = ['LONG', 'PEERS', 'SYSTEMD'].some((name) => process.env[`FIELDPOST_TEST_${name}`] === '1');
const SECONDS_MAX = Number(process.env.FIELDPOST_TEST_SECONDS ?? (asked ? 3600 : 600));
/** After its time a file may take this long to print what it waits for; then it is killed. */
const LAST_WORDS_MS = 10_000;
/** The output of an ended file may stay open this long: a process it left behind holds it. */
const STRAY_MS = 2000;
// More jobs than cores: many tests wait for a timer or the disk.
const JOBS = Number(process.env.FIELDPOST_TEST_JOBS ?? 2 * availableParallelism());

const files = process.argv.slice(2);
// One seed for all tests, so that one command repeats a failure.
const seed = String(seedOfRun());
const env = { ...process.env, FIELDPOST_TEST_SEED: seed, TAP_TIMEOUT: String(SECONDS_MAX) };
console.log(`test: FIELDPOST_TEST_SEED=${seed}`);
const total = { files: files.length, done: 0, passed: 0, failed: 0, skipped: 0 };
const failures = [];
const progress = createProgress(total);
const waiting = [...files];
await Promise.all(Array.from({ length: JOBS }, work));
progress.end();

if (failures.length > 0) {
  console.log(`\n${failures.length} ${failures.length === 1 ? 'file' : 'files'} failed:`);
  for (const failure of failures) console.log(failure);
}
if (total.skipped > 0) console.log(`${total.skipped} skipped, each with its reason above`);
console.log(`${total.passed} passed, ${total.failed} failed`);
process.exitCode = total.failed === 0 ? 0 : 1;

/** One of JOBS workers: takes file after file until none is left. */
async function work() {
  for (let file = waiting.shift(); file !== undefined; file = waiting.shift()) {
    progress.begin(file);
    const startedMs = performance.now();
    const verdict = await run(file);
    const seconds = ((performance.now() - startedMs) / 1000).toFixed(1);
    const bad = verdict.failed > 0;
    const counts = `${verdict.passed} passed${bad ? `, ${verdict.failed} failed` : ''}`;
    const lines = [`${bad ? 'FAIL' : 'ok  '} ${file} (${counts}, ${seconds} s)`, ...verdict.lines];
    // Comments such as seeds help to explain a failure.
    if (bad) lines.push(...verdict.noise.map((line) => `     | ${line}`), `     again: ${again(file)}`);
    // What a test has measured is told in any case.
    else
      lines.push(
        ...verdict.noise.filter((line) => line.startsWith('# figures: ')).map((line) => `     | ${line}`),
      );
    if (bad) failures.push(lines.join('\n'));
    for (const key of ['passed', 'failed', 'skipped']) total[key] += verdict[key];
    total.done += 1;
    progress.tell(file, lines);
  }
}

/** Compiles and runs one file. */
async function run(file) {
  let program;
  try {
    program = await compileTest(file);
  } catch (error) {
    return {
      passed: 0,
      failed: 1,
      skipped: 0,
      lines: ['  ✗ it cannot be compiled'],
      noise: stripVTControlCharacters(error.message).trim().split('\n'),
    };
  }
  const child = spawn(process.execPath, ['--enable-source-maps', program], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const tap = readTap(child.stdout);
  const errors = [];
  child.stderr.setEncoding('utf8').on('data', (text) => errors.push(text));
  const closed = new Promise((resolve) => child.on('close', resolve));
  const [code, signal] = await new Promise((resolve) => {
    const kill = setTimeout(() => child.kill('SIGKILL'), SECONDS_MAX * 1000 + LAST_WORDS_MS);
    child.on('exit', (...end) => {
      clearTimeout(kill);
      resolve(end);
    });
  });
  const stray = setTimeout(() => {
    errors.push('a process that it left behind still holds its output\n');
    child.stdout.destroy();
    child.stderr.destroy();
  }, STRAY_MS);
  await closed;
  clearTimeout(stray);
  const verdict = await tap.end(code, signal);
  const complaints = errors.join('').trimEnd();
  if (complaints !== '') verdict.lines.push(...complaints.split('\n').map((line) => `     ! ${line}`));
  return verdict;
}

/** The command that runs the file as it was run now. */
function again(file) {
  const settings = Object.entries(env).filter(([name]) => name.startsWith('FIELDPOST_TEST_'));
  return [...settings.map(([name, value]) => `${name}=${value}`), 'bash scripts/test', file].join(' ');
}
