/**
 * Compiles a test file and the source it tests, as the program is compiled: what is tested is what ships. A source map
 * lets a failure name its place in the source.
 */
import { readFile } from 'node:fs/promises';
import { relative, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { compile } from '../../scripts/compile.mjs';

const DIRECTORY = 'build/test';
const { devDependencies } = JSON.parse(await readFile('package.json', 'utf8'));

/** Gives `import.meta.url` the path of the source, so that a test finds the files beside it. */
const places = {
  name: 'places',
  transform(code, id) {
    if (id.includes('/node_modules/') || !code.includes('import.meta.url')) return null;
    return { code: code.replaceAll('import.meta.url', JSON.stringify(pathToFileURL(id).href)), map: null };
  },
};

const ORDERLY = '\0orderly';
/**
 * tap removes a test's directory before it calls the teardowns, unless a teardown was there before the directory. Then the
 * removal fails because a daemon still writes into it, and the daemon is never ended. So each test begins with a teardown.
 */
const orderly = {
  name: 'orderly',
  resolveId(id, importer) {
    if (id !== 'tap') return null;
    return importer === ORDERLY ? { id, external: true } : ORDERLY;
  },
  load: (id) =>
    id === ORDERLY
      ? "const tap = require('tap'); tap.beforeEach((t) => t.teardown(() => {})); module.exports = tap;"
      : null,
};

/** Gives the path of the compiled file. */
export async function compileTest(file) {
  const name = relative('.', file).replaceAll('/', '-').replace(/\.ts$/, '');
  await compile(resolve(file), DIRECTORY, {
    name,
    external: Object.keys(devDependencies).filter((name) => name !== 'tap'),
    plugins: [places, orderly],
    readable: true,
  });
  return `${DIRECTORY}/${name}.cjs`;
}
