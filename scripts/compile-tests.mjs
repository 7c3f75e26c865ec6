/**
 * `node scripts/compile-tests.mjs FILE…`: compiles test files, and with each all of the source that it tests, as the
 * program is compiled (compile.mjs). They come into build/test, and their paths are printed. Used by scripts/test.
 */
import { readFile, rm } from 'node:fs/promises';
import { relative } from 'node:path';
import { compile } from './compile.mjs';

const { devDependencies } = JSON.parse(await readFile('package.json', 'utf8'));
// As deep below the top as the directories of the tests, so that paths relative to a file stay right.
const directory = 'build/test';

await rm(directory, { recursive: true, force: true });
for (const file of process.argv.slice(2)) {
  const name = relative('test', file).replaceAll('/', '-').replace(/\.ts$/, '');
  await compile(file, directory, { name, external: Object.keys(devDependencies) });
  console.log(`${directory}/${name}.cjs`);
}
