/**
 * `node test/runner/run.mjs FILE…`: compiles test files and runs them, several processes at a time. It prints its
 * progress, a line per file, failures in full, and skips with their reason. At the end it repeats all failures, each
 * with the command to run it again. The last line is `N passed, N failed`. scripts/test runs it.
 *
 * The files of a directory share a process, because starting and compiling one takes longer than most tests. A file has a
 * process of its own if it says so in a line `// A process of its own: REASON`: it changes or counts what belongs to the
 * process, or it takes long. Each file has one if long tests are asked for.
 */
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { compileTests } from './compile-test.mjs';
import { createProgress } from './progress.mjs';
import { seedOfRun } from './seed.mjs';
import { failure, readTap } from './verdict.mjs';

// A file that takes ten minutes hangs, or the machine is busy; the long variants take up to an hour.
const asked = ['LONG', 'PEERS', 'SYSTEMD'].some((name) => process.env[`FIELDPOST_TEST_${name}`] === '1');
const SECONDS_MAX = Number(process.env.FIELDPOST_TEST_SECONDS ?? (asked ? 3600 : 600));
/** After its time a file may take this long to print what it waits for; then it is killed. */
const LAST_WORDS_MS = 10_000;
/** A room whose files have all ended may keep its process this long. */
const ROOM_END_MS = 60_000;
/** Files in one process: so that at the end all jobs have some. */
const ROOM_FILES = 12;
const OWN = /^\/\/ A process of its own: \S/m;
/** The output of an ended file may stay open this long: a process it left behind holds it. */
const STRAY_MS = 2000;
// More jobs than cores: many tests wait for a timer or the disk.
const JOBS = Number(process.env.FIELDPOST_TEST_JOBS ?? 2 * availableParallelism());

const files = process.argv.slice(2);
// One seed for all tests, so that one command repeats a failure.
const seed = String(seedOfRun());
const env = { ...process.env, FIELDPOST_TEST_SEED: seed };
console.log(`test: FIELDPOST_TEST_SEED=${seed}`);
const waiting = roomsOf(files);
const total = {
  files: files.length,
  done: 0,
  passed: 0,
  failed: 0,
  skipped: 0,
  processes: waiting.length,
  ended: 0,
};
const failures = [];
const progress = createProgress(total);
await Promise.all(Array.from({ length: JOBS }, work));
progress.end();

if (failures.length > 0) {
  console.log(`\n${failures.length} ${failures.length === 1 ? 'file' : 'files'} failed:`);
  for (const failure of failures) console.log(failure);
}
if (total.skipped > 0) console.log(`${total.skipped} skipped, each with its reason above`);
console.log(`${total.passed} passed, ${total.failed} failed`);
process.exitCode = total.failed === 0 ? 0 : 1;

/** The files by process: first those with a process of their own, which are the longest, then the largest rooms. */
function roomsOf(files) {
  const own = files.filter((file) => asked || OWN.test(readFileSync(file, 'utf8')));
  const shared = files.filter((file) => !own.includes(file));
  const rooms = [...new Set(shared.map(dirname))].flatMap((directory) => {
    const files = shared.filter((file) => dirname(file) === directory);
    const count = Math.ceil(files.length / ROOM_FILES);
    return Array.from({ length: count }, (_, i) => files.filter((_, j) => j % count === i));
  });
  return [...own.map((file) => [file]), ...rooms.sort((a, b) => b.length - a.length)];
}

/** One of JOBS workers: takes room after room until none is left. */
async function work() {
  for (let room = waiting.shift(); room !== undefined; room = waiting.shift()) {
    let startedMs = performance.now();
    const begin = (file) => {
      startedMs = performance.now();
      progress.begin(file);
    };
    const tell = (file, verdict) => report(file, verdict, (performance.now() - startedMs) / 1000, room);
    await run(room, { begin, tell });
    total.ended += 1;
  }
}

/** Prints the verdict on a file, and counts it. */
function report(file, verdict, seconds, room) {
  const bad = verdict.failed > 0;
  const counts = `${verdict.passed} passed${bad ? `, ${verdict.failed} failed` : ''}`;
  const lines = [`${bad ? 'FAIL' : 'ok  '} ${file} (${counts}, ${seconds.toFixed(1)} s)`, ...verdict.lines];
  // Comments such as seeds help to explain a failure. What a test has measured is told in any case.
  const noise = verdict.noise.filter((line) => bad || line.startsWith('# figures: '));
  lines.push(...noise.map((line) => `     | ${line}`));
  if (bad) {
    lines.push(`     again: ${again([file])}`);
    const before = room.slice(0, room.indexOf(file) + 1);
    if (before.length > 1) lines.push(`     if that passes, again with those before it: ${again(before)}`);
    failures.push(lines.join('\n'));
  }
  for (const key of ['passed', 'failed', 'skipped']) total[key] += verdict[key];
  total.done += 1;
  progress.tell(file, lines);
}

/** Compiles and runs the files of one process. */
async function run(files, teller) {
  const isRoom = files.length > 1;
  let program;
  try {
    program = await compileTests(files);
  } catch (error) {
    // The other files of a room are to run all the same.
    if (isRoom) for (const file of files) await run([file], teller);
    else
      teller.tell(
        files[0],
        failure('it cannot be compiled', stripVTControlCharacters(error.message).trim().split('\n')),
      );
    return;
  }
  const child = spawn(process.execPath, ['--enable-source-maps', program], {
    env: {
      ...env,
      FIELDPOST_TEST_SECONDS: String(SECONDS_MAX),
      TAP_TIMEOUT: String(SECONDS_MAX * files.length),
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let kill;
  const killIn = (ms) => {
    clearTimeout(kill);
    kill = setTimeout(() => child.kill('SIGKILL'), ms);
  };
  const reader = readTap(child.stdout, files, {
    begin(file) {
      killIn(SECONDS_MAX * 1000 + LAST_WORDS_MS);
      teller.begin(file);
    },
    tell: teller.tell,
    over: () => killIn(ROOM_END_MS),
  });
  child.stderr.setEncoding('utf8').on('data', reader.complain);
  const closed = new Promise((resolve) => child.on('close', resolve));
  const [code, signal] = await new Promise((resolve) => child.on('exit', (...end) => resolve(end)));
  clearTimeout(kill);
  const stray = setTimeout(() => {
    reader.complain('a process that it left behind still holds its output\n');
    child.stdout.destroy();
    child.stderr.destroy();
  }, STRAY_MS);
  await closed;
  clearTimeout(stray);
  await reader.end(code, signal);
}

/** The command that runs files as they were run now. */
function again(files) {
  const settings = Object.entries(env).filter(([name]) => name.startsWith('FIELDPOST_TEST_'));
  return [...settings.map(([name, value]) => `${name}=${value}`), 'bash scripts/test', ...files].join(' ');
}
