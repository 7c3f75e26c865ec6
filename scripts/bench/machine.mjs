/** What the figures depend on, as lines of RESULTS.md: the machine, the build, and each peer's version; used by run.mjs. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { cpus, loadavg, release, totalmem } from 'node:os';
import { fileURLToPath } from 'node:url';
import { postfixMissing, postfixVersion } from './postfix.mjs';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Reads all facts; call it before the first round, because of the load. `directory` is on the measured disk. */
export function factsOf(directory) {
  const load = loadavg().map((number) => number.toFixed(2));
  return [
    ['date', `${new Date().toISOString().slice(0, 16)}Z`],
    ['CPU', `${cpus().length} × ${cpus()[0]?.model}`],
    ['memory', `${Math.round(totalmem() / 2 ** 20)} MiB`],
    ['kernel', release()],
    ['disk', told('findmnt', '-no', 'SOURCE,FSTYPE,OPTIONS', '--target', directory)],
    ['load at the beginning', load.join(', ')],
    ['Node.js', `${process.version}, V8 ${process.versions.v8}`],
    ['commit of the checkout', told('git', '-C', ROOT, 'describe', '--always', '--dirty', '--abbrev=12')],
    ...['express', 'better-sqlite3', 'nodemailer', 'busboy'].map((name) => [name, versionOf(name)]),
    ['SQLite', sqliteVersion()],
    ['Postfix', postfixMissing() ?? postfixVersion()],
    ['nullmailer', /Candidate: (\S+)/.exec(told('apt-cache', 'policy', 'nullmailer'))?.[1] ?? 'unknown'],
  ];
}

/** The first of the peers' and our own packages with this name: busboy is one of ours. */
function versionOf(name) {
  for (const directory of [`${ROOT}scripts/bench/peers`, ROOT]) {
    try {
      return JSON.parse(readFileSync(`${directory}/node_modules/${name}/package.json`, 'utf8')).version;
    } catch {}
  }
  return 'unknown';
}

function sqliteVersion() {
  const query =
    "const D = require('better-sqlite3'); console.log(new D(':memory:').prepare('SELECT sqlite_version()').pluck().get())";
  return told('node', '--input-type=commonjs', '-e', query);
}

function told(program, ...args) {
  try {
    return execFileSync(program, args, {
      encoding: 'utf8',
      cwd: `${ROOT}scripts/bench/peers`,
      stdio: ['ignore', 'pipe', 'ignore'],
    })
      .trim()
      .replace(/\s+/g, ' ');
  } catch {
    return 'unknown';
  }
}
