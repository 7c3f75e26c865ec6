/** What `npm start` and `npm test` say before they begin, in a folder with their scripts and stand-ins for the rest. */
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
// @ts-expect-error: a script without types.
import { FIRST_LINES } from '../../scripts/first-lines.mjs';
import { isBuilt } from '../support/daemon.js';

/** A folder with these files, and the scripts of this repository below them; anybody may read it. */
function checkout(t: Test, files: Readonly<Record<string, string>> = {}): string {
  const directory = mkdtempSync(join(tmpdir(), 'fieldpost-start-'));
  t.teardown(() => rmSync(directory, { recursive: true }));
  chmodSync(directory, 0o755);
  for (const name of ['bin', 'scripts', 'build/dist', 'node_modules'])
    mkdirSync(join(directory, name), { recursive: true });
  for (const name of ['start', 'install', 'build', 'test'])
    copyFileSync(join('scripts', name), join(directory, 'scripts', name));
  for (const [name, text] of Object.entries(files)) {
    writeFileSync(join(directory, name), text);
    chmodSync(join(directory, name), 0o755);
  }
  return directory;
}

function run(directory: string, args: readonly string[], who: { uid?: number; gid?: number } = {}) {
  const PATH = `${directory}/bin:${process.env.PATH}`;
  return spawnSync('bash', args, { cwd: directory, env: { PATH }, encoding: 'utf8', ...who });
}

/** A program that fails the test if it runs. */
const NEVER = '#!/bin/sh\necho "it was run: $0" >&2\nexit 99\n';

t.test('an old Node.js, or none, is told in one line before anything is installed', async (t) => {
  const cases = [
    ['18.20.8', /^fieldpost: Node\.js 20\.19 or later is needed; node is 18\.20\.8 \(\S+\/bin\/node\)\n$/],
    ['20.18.3', /node is 20\.18\.3/],
    ['9.11.2', /node is 9\.11\.2/],
    [null, /^fieldpost: Node\.js 20\.19 or later is needed, and there is no node in PATH\n$/],
  ] as const;
  for (const [version, words] of cases) {
    const node = version === null ? '#!/bin/sh\nexit 127\n' : `#!/bin/sh\necho ${version}\n`;
    const directory = checkout(t, { 'bin/node': node, 'bin/npm': NEVER });
    const { status, stdout, stderr } = run(directory, ['scripts/start']);
    t.same([status, stdout], [1, ''], String(version));
    t.match(stderr, words);
  }
  const good = checkout(t, { 'bin/node': '#!/bin/sh\necho 22.0.0\n', 'bin/npm': NEVER });
  t.equal(run(good, ['scripts/install']).status, 99, 'a good one goes on to npm');
});

t.test('a folder that cannot be written is told in one line', async (t) => {
  // Root may write everywhere.
  const isRoot = process.getuid?.() === 0;
  const who = isRoot ? { uid: 65_534, gid: 65_534 } : {};
  for (const closed of ['.', 'build', 'build/dist', 'node_modules']) {
    const directory = checkout(t, { 'bin/npm': NEVER });
    const others = ['.', 'build', 'build/dist', 'node_modules'].filter((name) => name !== closed);
    for (const name of others) chmodSync(join(directory, name), 0o777);
    chmodSync(join(directory, closed), 0o555);
    t.teardown(() => chmodSync(join(directory, closed), 0o755));
    const { status, stdout, stderr } = run(directory, ['scripts/build'], who);
    t.same([status, stdout], [1, ''], closed);
    t.match(stderr, /^fieldpost: \S+ cannot write to \/[^\n]*: use a clone of your own[^\n]*\n$/);
    t.ok(stderr.includes(`cannot write to ${join(directory, closed)}:`), stderr);
  }
});

t.test('npm start hands its options on: Node.js would take --env-file for itself', async (t) => {
  const program = 'console.log(JSON.stringify([process.argv.slice(2), process.env.TAKEN]));';
  const directory = checkout(t, {
    'build/dist/dev-main.cjs': program,
    'scripts/build': '',
    env: 'TAKEN=1\n',
  });
  for (const args of [['--env-file', 'env'], ['--env-file=missing'], ['--env-file', 'missing']]) {
    const { status, stdout, stderr } = run(directory, ['scripts/start', ...args]);
    t.same([status, stderr], [0, ''], args.join(' '));
    t.same(JSON.parse(stdout), [args, null]);
  }
});

t.test(
  'the program itself tells an old Node.js that it is too old, before it runs anything else',
  async (t) => {
    const code = `${FIRST_LINES}\nconsole.log("it ran");`;
    const runAs = (version: string) => {
      const words: string[] = [];
      const process = {
        versions: { node: version },
        execPath: '/usr/bin/node',
        stderr: { write: (text: string) => void words.push(text) },
        exit(status: number) {
          throw new Error(`exit ${status}`);
        },
      };
      const console = { log: (text: string) => void words.push(text) };
      try {
        new Function('process', 'console', code)(process, console);
      } catch (error) {
        words.push((error as Error).message);
      }
      return words;
    };
    for (const version of ['18.20.8', '16.0.0', '9.1.0']) {
      const line = `fieldpost: Node.js 20 or later is needed; this is ${version} (/usr/bin/node)\n`;
      t.same(runAs(version), [line, 'exit 78']);
    }
    for (const version of ['20.0.0', '22.1.0', '100.0.0']) t.same(runAs(version), ['it ran']);
    t.match(
      FIRST_LINES.split('\n')[1],
      /\?\?="Fieldpost needs Node\.js 20 or later"/,
      'the oldest print this line',
    );
    for (const program of isBuilt ? ['main', 'cloud-main', 'dev-main'] : []) {
      const built = readFileSync(`build/dist/${program}.cjs`, 'utf8');
      t.ok(
        built.startsWith(`#!/usr/bin/env -S node --\n${FIRST_LINES}\n`),
        `${program}.cjs begins with them`,
      );
    }
  },
);
