/**
 * Compiles TypeScript into what Node.js runs: `node scripts/compile.mjs ENTRY DIRECTORY [--whole | PACKAGE…]`, or from
 * another script. What is imported at once comes into one file, what a start does not need stays in others; packages
 * that are named stay outside. It is CommonJS, which starts faster and loads node's own modules no sooner than the file
 * that names them. White space goes, names stay: a stack trace tells functions.
 */
import { pathToFileURL } from 'node:url';
import { build } from 'rolldown';

/** Modules of node's that take long to load, and that many devices never use: loaded with the first function that is wanted. */
const late = (modules) => ({
  name: 'late',
  resolveId: (id) => (modules.includes(id) ? `\0late:${id.slice('node:'.length)}` : null),
  load(id) {
    if (!id.startsWith('\0late:')) return null;
    const name = id.slice('\0late:'.length);
    // Behind an empty object that whoever imports it may copy: so no names need be known.
    return `module.exports = Object.create(new Proxy({}, { get: (_, member) => require('${name}')[member] }));`;
  },
});

/** One character beyond ASCII would have V8 keep the whole file at twice its size. */
const ascii = {
  name: 'ascii',
  generateBundle(_, chunks) {
    const escaped = (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`;
    for (const chunk of Object.values(chunks)) chunk.code = chunk.code.replace(/[^\0-\x7f]/g, escaped);
  },
};

/**
 * Compiles `entries` (a path, or paths by the names of their output) into `directory`. `whole`: each into one single
 * file, which then names at its head all that is ever loaded.
 */
export async function compile(entries, directory, { packages = [], whole = false } = {}) {
  const modules = ['node:crypto'];
  if (whole) modules.push('node:https', 'node:tls', 'node:child_process', 'node:v8', 'node:vm');
  await build({
    input: entries,
    platform: 'node',
    external: packages,
    // Tree shaking takes calls such as decodeURIComponent(text) for free of effects, and removes the check they are.
    treeshake: false,
    transform: { target: 'node20' },
    plugins: [late(modules), ascii],
    output: {
      dir: directory,
      format: 'cjs',
      // What is asked for late shall not bring Node's loader of ES modules along.
      dynamicImportInCjs: false,
      codeSplitting: !whole,
      entryFileNames: '[name].cjs',
      chunkFileNames: '[name].cjs',
      minify: { compress: false, mangle: false, codegen: { removeWhitespace: true } },
    },
  });
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const [entry, directory, ...packages] = process.argv.slice(2);
  await compile(entry, directory, packages[0] === '--whole' ? { whole: true } : { packages });
}
