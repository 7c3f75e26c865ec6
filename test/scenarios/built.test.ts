/** The compiler drops no check of the source from the built program, and makes one file of it. */
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import t from 'tap';
import { MAIN, needsProgram } from '../support/daemon.js';

/** Each throws, and its result is unused. */
const CHECKS = [
  'decodeURIComponent(text)',
  'new URL(text)',
  'new RegExp(text)',
  'JSON.parse(text)',
  'BigInt(text)',
  'BigInt.asIntN(-1, 1n)',
  'String.fromCodePoint(-1)',
  'text.repeat(-1)',
  'new Array(-1)',
  'new Uint8Array(-1)',
  'new Intl.DateTimeFormat("en", { timeZone: text })',
  'Symbol.keyFor(text)',
  'Object.defineProperty(Object.freeze({}), "a", { value: 1 })',
  'new Date(Number.NaN).toISOString()',
  'structuredClone(() => 0)',
  'Reflect.ownKeys(text)',
  'refuse(text)',
  '/* @__PURE__ */ refuse(text)',
  'missing.member',
  'globalThis.missing.member',
  'text.missing.member',
];

t.test('the compiler keeps calls whose result is unused', async (t) => {
  const directory = t.testdir();
  const checks = CHECKS.map(
    (check) => `(text) => { try { ${check}; } catch { return true; } return false; }`,
  );
  const source = `
    /* @__NO_SIDE_EFFECTS__ */
    function refuse(text) { throw new Error(text); }
    const checks = [${checks.join(',\n')}];
    console.log(JSON.stringify(checks.map((check) => check('%ff ('))));`;
  const entry = join(directory, 'checks.js');
  writeFileSync(entry, source);
  execFileSync(process.execPath, ['scripts/compile.mjs', entry, join(directory, 'out')]);
  const program = join(directory, 'out/checks.cjs');
  const { stdout, stderr } = spawnSync(process.execPath, [program], { encoding: 'utf8' });
  t.equal(stderr, '');
  const kept = JSON.parse(stdout) as boolean[];
  t.same(
    CHECKS.filter((_, at) => !kept[at]),
    [],
  );
});

t.test('code behind an import() is in the same file, and shares its modules with the rest', async (t) => {
  const directory = t.testdir({
    'entry.js': `
      import { rmSync } from 'node:fs';
      import { counter } from './counter.js';
      rmSync(__filename);
      counter.value++;
      Promise.all([import('./one.js'), import('./two.js')]).then(([{ one }, { two }]) => {
        console.log(JSON.stringify([one(), two(), counter.value]));
      });`,
    'counter.js': 'export const counter = { value: 0 };',
    'common.js': "export const name = (text) => /^[a-z]*/.exec(text)[0] + '*/ ';",
    'one.js': `
      import { counter } from './counter.js';
      import { name } from './common.js';
      export function one() { counter.value++; return name('one1'); }`,
    'two.js': `
      import { name } from './common.js';
      export function two() {
        return name('two2') + new Error().stack.split('\\n')[1];
      }`,
  });
  execFileSync(process.execPath, [
    'scripts/compile.mjs',
    join(directory, 'entry.js'),
    join(directory, 'out'),
  ]);
  t.same(readdirSync(join(directory, 'out')), ['entry.cjs', 'entry.cjs.map']);
  const program = join(directory, 'out/entry.cjs');
  const text = readFileSync(program, 'utf8');
  const run = spawnSync(process.execPath, [program], { encoding: 'utf8' });
  t.equal(run.stderr, '');
  const [one, two, count] = JSON.parse(run.stdout);
  t.equal(one, 'one*/ ');
  t.equal(count, 2);
  const [, line, column] = /^two\*\/ +at two \(.*\/entry\.cjs:(\d+):(\d+)\)$/.exec(two) ?? [];
  const place = text.split('\n')[Number(line) - 1]?.slice(Number(column) - 1);
  t.match(place, /^new Error\(\)/, 'a stack trace tells function and place, also of code behind an import()');
  // The source map of the release finds the place in the source.
  const source = `${relative('.', realpathSync(directory))}/two.js:4:31`;
  const traced = spawnSync(process.execPath, ['scripts/trace.mjs', `${program}.map`], {
    input: two,
    encoding: 'utf8',
  });
  t.equal(traced.stdout, `two*/     at two (${source})`);
  writeFileSync(program, text);
  const mapped = spawnSync(process.execPath, ['--enable-source-maps', program], { encoding: 'utf8' });
  t.equal(JSON.parse(mapped.stdout)[1], traced.stdout, 'Node.js itself finds it, too');
});

t.test('a module with exports is one file, too', async (t) => {
  const directory = t.testdir();
  execFileSync(process.execPath, ['scripts/compile.mjs', 'test/link/fleet.ts', directory]);
  t.same(readdirSync(directory), ['fleet.cjs', 'fleet.cjs.map']);
  const script = `console.log(typeof require('${directory}/fleet.cjs').simulateFleet)`;
  t.equal(execFileSync(process.execPath, ['-e', script], { encoding: 'utf8' }), 'function\n');
});

t.test('a command does not parse the daemon', needsProgram, async (t) => {
  const text = readFileSync(MAIN, 'utf8');
  // Behind the late code, which is in comments.
  const eager = text.slice(text.lastIndexOf('*/}];'));
  const store = /\bStore=class\b/;
  t.same([store.test(text), store.test(eager)], [true, false]);
  t.ok(eager.includes('function runCommand('));
});

t.test('an install without compiler and built program fails with a hint', async (t) => {
  const directory = t.testdir({ scripts: {} });
  cpSync('scripts/prepare', join(directory, 'scripts/prepare'));
  cpSync('package.json', join(directory, 'package.json'));
  // As npm does at the end of an install.
  const prepare = () =>
    spawnSync('npm', ['run', '--silent', 'prepare'], { cwd: directory, encoding: 'utf8' });
  t.match(prepare(), { status: 1, stderr: /There is no program[\s\S]*npm ci && npm run build/ });
  mkdirSync(join(directory, 'node_modules/rolldown'), { recursive: true });
  t.equal(prepare().status, 0, 'with a compiler it succeeds');
  rmSync(join(directory, 'node_modules'), { recursive: true });
  cpSync('package.json', join(directory, 'build/dist/main.cjs'));
  t.equal(prepare().status, 0, 'with a built program it succeeds');
});
