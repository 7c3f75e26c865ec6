/**
 * Compiles TypeScript into a few files that Node.js runs: `node scripts/compile.mjs ENTRY DIRECTORY`, or from another
 * script. What is imported at once comes into one file, what a start does not need stays in others. They are CommonJS,
 * which starts faster and loads node's own modules no sooner than the file that names them. White space goes, names
 * stay: a stack trace tells functions.
 */
import { pathToFileURL } from 'node:url';
import { build } from 'rolldown';

/** node:crypto takes 4 ms of a start, and many devices never use it: it is loaded with the first function that is wanted. */
const lateCrypto = {
  name: 'late-crypto',
  resolveId: (id) => (id === 'node:crypto' ? '\0late-crypto' : null),
  async load(id) {
    if (id !== '\0late-crypto') return null;
    const names = JSON.stringify(Object.keys(await import('node:crypto')));
    const one =
      "Object.defineProperty(exports, name, { get: () => require('crypto')[name], enumerable: true })";
    return `for (const name of ${names}) ${one};`;
  },
};

/** Compiles `entries` (a path, or paths by the names of their output) into `directory`. `packages` stay outside. */
export async function compile(entries, directory, packages = []) {
  await build({
    input: entries,
    platform: 'node',
    external: packages,
    transform: { target: 'node20' },
    plugins: [lateCrypto],
    output: {
      dir: directory,
      format: 'cjs',
      // What is asked for late shall not bring Node's loader of ES modules along.
      dynamicImportInCjs: false,
      entryFileNames: '[name].cjs',
      chunkFileNames: '[name].cjs',
      minify: { compress: false, mangle: false, codegen: { removeWhitespace: true } },
    },
  });
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [entry, directory, ...packages] = process.argv.slice(2);
  await compile(entry, directory, packages);
}
