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

const ORDERLY = '\0orderly';
/**
 * tap removes the directory of a test before it calls the teardowns, unless there was one before the directory: a daemon
 * that still ran wrote into it, the removal failed, and nobody ended the daemon. So each test begins with a teardown.
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
