/**
 * Compiles a test file, and with it all of the source that it tests, as the program is compiled: what is tested is what
 * ships. Lines are kept, and mapped to the source, so that a failure names the place where it was written. Used by run.mjs.
 */
import { readFile } from 'node:fs/promises';
import { relative, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { compile } from '../../scripts/compile.mjs';

const DIRECTORY = 'build/test';
const { devDependencies } = JSON.parse(await readFile('package.json', 'utf8'));

/** A test finds other files from where its source is, not from where it was compiled to. */
const places = {
  name: 'places',
  transform(code, id) {
    if (id.includes('/node_modules/') || !code.includes('import.meta.url')) return null;
    return { code: code.replaceAll('import.meta.url', JSON.stringify(pathToFileURL(id).href)), map: null };
  },
};

/** Gives the path of the compiled file. */
export async function compileTest(file) {
  const name = relative('.', file).replaceAll('/', '-').replace(/\.ts$/, '');
  await compile(resolve(file), DIRECTORY, {
    name,
    external: Object.keys(devDependencies),
    plugins: [places],
    readable: true,
  });
  return `${DIRECTORY}/${name}.cjs`;
}
