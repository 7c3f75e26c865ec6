/** The compiler drops no check of the source from the built program. */
import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';

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
