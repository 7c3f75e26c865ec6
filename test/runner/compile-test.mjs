/**
 * Compiles test files and the source they test, as the program is compiled: what is tested is what ships. A source map
 * lets a failure name its place in the source.
 */
import { readFile } from 'node:fs/promises';
import { basename, relative, resolve } from 'node:path';
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

/**
 * tap removes a test's directory before it calls the teardowns, unless a teardown was there before the directory. Then the
 * removal fails because a daemon still writes into it, and the daemon is never ended. So each test begins with a teardown.
 */
const ORDERLY = "const tap = require('tap'); tap.beforeEach((t) => t.teardown(() => {}));";
const TAP = '\0tap';
const ROOM = '\0room';

/**
 * What the test files see as tap. In a room, the program of several files, it is the test that stands for the file in
 * progress: what a file sets up for all of its tests ends with the file.
 */
const TAP_OF = {
  file: `${ORDERLY} module.exports = tap;`,
  room: `${ORDERLY}
    const room = { t: tap };
    const memberOf = (t, name) => (typeof t[name] === 'function' ? t[name].bind(t) : t[name]);
    // An import by name finds only what the target has.
    const file = new Proxy({ t: null, test: null }, {
      get: (_, name) => (name === 't' ? file : name === 'room' ? room : memberOf(room.t, name)),
    });
    module.exports = file;`,
};

/** Compiles the program of `files`: each is loaded once the tests of those before it have ended. */
const tapFor = (files) => ({
  name: 'tap-for',
  resolveId(id, importer) {
    if (id === ROOM) return ROOM;
    if (id !== 'tap') return null;
    return importer === TAP ? { id, external: true } : TAP;
  },
  load(id) {
    if (id === TAP) return files.length > 1 ? TAP_OF.room : TAP_OF.file;
    if (id !== ROOM) return null;
    const loads = files.map((file) => {
      // A short name, because it becomes a part of the names of directories.
      const [name, path] = [basename(file, '.test.ts'), resolve(file)].map((text) => JSON.stringify(text));
      return `tap.test(${name}, { timeout }, async (t) => {
        room.t = t;
        require(${path});
      });`;
    });
    return `const { room } = require('tap');
      const tap = room.t;
      const timeout = Number(process.env.FIELDPOST_TEST_SECONDS) * 1000;
      ${loads.join('\n')}`;
  },
});

/** Compiles test files to one program: a file as it is, several as a room. Gives the path of the program. */
export async function compileTests(files) {
  const name = `${relative('.', files[0])
    .replaceAll('/', '-')
    .replace(/\.test\.ts$/, '')}${files.length > 1 ? '-on' : '.test'}`;
  await compile(files.length > 1 ? ROOM : resolve(files[0]), DIRECTORY, {
    name,
    external: Object.keys(devDependencies).filter((name) => name !== 'tap'),
    plugins: [places, tapFor(files)],
    readable: true,
  });
  return `${DIRECTORY}/${name}.cjs`;
}
