/**
 * Compiles TypeScript to JavaScript: `node scripts/compile.mjs ENTRY DIRECTORY`, or from another script. Each entry
 * becomes one file, with the packages that it uses in it. So a running program needs no other file, even if an upgrade
 * replaces or removes files. The output is CommonJS, which starts faster. White space is removed and variables get
 * short names. Functions and classes keep theirs, because stack traces name them.
 */
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { deflateRawSync } from 'node:zlib';
import { build } from 'rolldown';
import { lateChunks } from './late-chunks.mjs';
import { oldNode } from './old-node.mjs';
import { pages } from './pages.mjs';

/** Modules of Node.js that load slowly, and that many devices never use: the first use of a member loads them. */
const LATE = [
  'node:child_process',
  'node:crypto',
  'node:dns/promises',
  'node:https',
  'node:tls',
  'node:v8',
  'node:vm',
];

const late = {
  name: 'late',
  resolveId: (id) => (LATE.includes(id) ? `\0late:${id.slice('node:'.length)}` : null),
  load(id) {
    if (!id.startsWith('\0late:')) return null;
    const name = id.slice('\0late:'.length);
    // A proxy behind an empty object, which an import may copy: so the names of members need not be known.
    return `module.exports = Object.create(new Proxy({}, { get: (_, member) => require('${name}')[member] }));`;
  },
};

/**
 * `import text from './x.json?text'` gives the text of the file without white space. It is deflated, because it stays in the
 * program's file: the description of the API takes 9 KB in place of 42.
 */
const jsonText = {
  name: 'json-text',
  resolveId: (id, importer) => (id.endsWith('.json?text') ? join(dirname(importer), id) : null),
  async load(id) {
    if (!id.endsWith('.json?text')) return null;
    const value = JSON.parse(await readFile(id.slice(0, -'?text'.length), 'utf8'));
    const deflated = deflateRawSync(JSON.stringify(value), { level: 9 }).toString('base64');
    const code = `import { inflateRawSync } from 'node:zlib';
      export default inflateRawSync(Buffer.from('${deflated}', 'base64')).toString();`;
    return { code, moduleType: 'js' };
  },
};

/** With one character beyond ASCII V8 would keep the whole file at twice its size. */
const ascii = {
  name: 'ascii',
  generateBundle(_, chunks) {
    const escaped = (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`;
    for (const chunk of Object.values(chunks)) {
      if (chunk.type === 'chunk') chunk.code = chunk.code.replace(/[^\0-\x7f]/g, escaped);
    }
  },
};

/**
 * Compiles the file `entry` to `directory`/NAME.cjs, by default under its own name; `external` packages stay outside,
 * further `plugins` come first. `readable` keeps lines, and maps them to the source.
 */
export async function compile(
  entry,
  directory,
  { name = '[name]', external = [], plugins = [], readable = false } = {},
) {
  // A source map cannot tell what is in a comment.
  const { plugin, codeSplitting } = readable ? { plugin: null, codeSplitting: false } : lateChunks();
  await build({
    input: entry,
    platform: 'node',
    external,
    // Tree shaking would remove calls such as decodeURIComponent(text), because it does not know that they throw.
    treeshake: false,
    transform: { target: 'node20' },
    // A source map cannot tell of added lines.
    plugins: [...plugins, pages, jsonText, late, plugin, readable ? null : oldNode, ascii],
    output: {
      dir: directory,
      format: 'cjs',
      codeSplitting,
      // Node's loader of ES modules would cost memory.
      dynamicImportInCjs: false,
      entryFileNames: `${name}.cjs`,
      chunkFileNames: '[name].cjs',
      minify: {
        compress: false,
        mangle: !readable && { toplevel: true, keepNames: true },
        codegen: { removeWhitespace: !readable },
      },
      sourcemap: readable,
    },
  });
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const [entry, directory] = process.argv.slice(2);
  await compile(entry, directory);
}
