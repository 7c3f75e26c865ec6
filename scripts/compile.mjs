/**
 * Compiles TypeScript to JavaScript: `node scripts/compile.mjs ENTRY… DIRECTORY`, or from another script. Each entry
 * becomes one file, with the packages that it uses in it. So a running program needs no other file, even if an upgrade
 * replaces or removes files. The output is CommonJS, which starts faster. White space is removed and variables get short
 * names. Functions and classes keep theirs, because stack traces name them. Beside each program is its source map, for
 * trace.mjs.
 */
import { execFileSync } from 'node:child_process';
import { dirname, relative, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'rolldown';
import { jsonText } from './embedded.mjs';
import { late } from './late.mjs';
import { pages } from './pages.mjs';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

/** A plugin: the programs know of package.json the version alone, and that of their build. */
const about = {
  name: 'about',
  load(id) {
    if (id !== `${ROOT}package.json`) return null;
    const version = execFileSync('bash', [`${ROOT}scripts/version`], { encoding: 'utf8' }).trim();
    return { code: JSON.stringify({ version }), moduleType: 'json' };
  },
};

/**
 * Compiles the file `entry` to `directory`/NAME.cjs, by default under its own name; `external` packages stay outside,
 * further `plugins` come first. `readable` keeps lines and names.
 */
export async function compile(
  entry,
  directory,
  { name = '[name]', external = [], plugins = [], readable = false } = {},
) {
  const { plugin, codeSplitting } = readable ? { plugin: null, codeSplitting: false } : late();
  await build({
    input: entry,
    platform: 'node',
    external,
    // Tree shaking would remove calls such as decodeURIComponent(text), because it does not know that they throw.
    treeshake: false,
    transform: { target: 'node20' },
    // What one program starts with may be late code of another, and a busy machine is slow.
    checks: { ineffectiveDynamicImport: false, bundlerTimings: false, pluginTimings: false },
    plugins: [...plugins, pages, jsonText, readable ? null : about, plugin],
    output: {
      dir: directory,
      format: 'cjs',
      codeSplitting,
      // Node's loader of ES modules would cost memory.
      dynamicImportInCjs: false,
      entryFileNames: `${name}.cjs`,
      chunkFileNames: '[name].cjs',
      // With one character beyond Latin-1 V8 would keep the whole file at twice its size, 0.5 MiB more.
      charset: 'ascii',
      minify: {
        compress: false,
        mangle: !readable && { toplevel: true, keepNames: true },
        codegen: { removeWhitespace: !readable },
      },
      sourcemap: true,
      sourcemapExcludeSources: true,
      // The same wherever it was built.
      ...(!readable && {
        sourcemapPathTransform: (path, map) => relative(ROOT, resolve(dirname(map), path)),
      }),
    },
  });
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const words = process.argv.slice(2);
  const directory = words.pop();
  for (const entry of words) await compile(entry, directory);
}
