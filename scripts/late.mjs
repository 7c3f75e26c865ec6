// @ts-nocheck: the functions below become text of the program, and get their members there.
/**
 * Lets a start wait for nothing that it does not need: the code behind a dynamic `import()`, and three modules of Node.js.
 *
 * The bundler writes such code as chunks of their own, each a CommonJS module. Here they go to the head of the program's
 * file: each is a comment in an empty function, on lines of its own, and is compiled when it is first required. V8 skips a
 * comment 18 times as fast as it parses code: of 82 ms of CPU a start saves 7, and a command 20 to 25, with 2 to 3 MB of its
 * peak. No code moves within its line. So a stack trace names a place in the file, and the source maps need only be put
 * together.
 */
import { FIRST_LINES } from './first-lines.mjs';

/** Many devices never use these: each is loaded with the first use of a member. They have 0.5 MiB in memory. */
const DELAYED = /(?<==)require(?=\("node:(?:crypto|https|tls)"\))/g;
const LOCAL_REQUIRE = /\brequire\("\.\//g;
const MAP_COMMENT = /\n\/\/# sourceMappingURL=.*\n?$/;

/** Stands for a module of Node.js. Its name has the length of `require`. */
function delayed(name) {
  return new Proxy({}, { get: (_, member) => require(name)[member] });
}

/** The module `name`: the program, or a chunk, which runs in the program. Its name has the length of `require("./`. */
function lateChunk(name) {
  if (!(name in lateChunk.modules)) {
    const chunk = { exports: {} };
    lateChunk.modules[name] = chunk;
    const [lineOffset, held] = lateChunk.chunks[name];
    const code = held.toString().slice('()=>{/*\n'.length, -'*/}'.length).replaceAll('*\x7f', '*/');
    const parameters = ['exports', 'module', 'require', 'lateChunk', 'delayed'];
    const run = require('node:vm').compileFunction(code, parameters, { filename: __filename, lineOffset });
    run(chunk.exports, chunk, require, lateChunk, delayed);
  }
  return lateChunk.modules[name].exports;
}

/** A plugin, and the setting of the bundler that goes with it. */
export function late() {
  const eager = new Set();
  const plugin = {
    name: 'late',
    buildEnd() {
      const add = (id) => {
        if (eager.has(id)) return;
        eager.add(id);
        for (const next of this.getModuleInfo(id)?.importedIds ?? []) add(next);
      };
      for (const id of this.getModuleIds()) if (this.getModuleInfo(id).isEntry) add(id);
    },
    generateBundle(_, files) {
      const chunks = Object.values(files).filter(({ type }) => type === 'chunk');
      const entry = chunks.find(({ isEntry }) => isEntry);
      const [, shebang = '', code] = /^(#!.*\n)?([\s\S]*)$/.exec(entry.code);
      const sections = [];
      // What the bundler adds has no source.
      const add = (line, map) => map && sections.push({ offset: { line, column: 0 }, map });
      let text = `${shebang}${FIRST_LINES}\n${delayed}\n${lateChunk}\n`;
      text += `lateChunk.modules={${JSON.stringify(entry.fileName)}:module};lateChunk.chunks={};\n`;
      const line = () => text.split('\n').length - 1;
      for (const chunk of chunks) {
        if (chunk === entry) continue;
        text += `lateChunk.chunks[${JSON.stringify(chunk.fileName)}]=[${line() + 1},()=>{/*\n`;
        add(line(), chunk.map);
        text += `${loading(chunk.code).replaceAll('*/', '*\x7f')}*/}];\n`;
        delete files[chunk.fileName];
        delete files[chunk.sourcemapFileName];
      }
      add(line() - (shebang === '' ? 0 : 1), entry.map);
      // Node.js wants to see `sources`.
      const source = JSON.stringify({ version: 3, sources: [], sections });
      const fileName = `${entry.fileName}.map`;
      entry.code = `${text}${loading(code)}\n//# sourceMappingURL=${fileName}\n`;
      delete files[fileName];
      this.emitFile({ type: 'asset', fileName, source });
    },
  };
  // One group for all eager modules: code that runs often then reads its imports as local variables.
  const isEager = (id) => eager.has(id) || id.startsWith('\0rolldown/');
  const group = { name: (id) => (isEager(id) ? 'eager' : null), debugName: 'eager' };
  return { plugin, codeSplitting: { groups: [group] } };
}

/** The code of a chunk, with its calls of `require` as the loader needs them. */
function loading(code) {
  if (/\blateChunk\b|\bdelayed\(|\x7f/.test(code)) throw new Error('a name of the loader is taken');
  return code.replace(MAP_COMMENT, '').replace(LOCAL_REQUIRE, 'lateChunk("').replace(DELAYED, 'delayed');
}
