// @ts-nocheck: the functions below become text of the program, and get their members there.
/**
 * Lets a start wait for nothing that it does not need: the code behind a dynamic `import()`, and three modules of Node.js.
 *
 * The bundler writes such code as chunks of their own, each a CommonJS module. Here they go to the end of the program's
 * file: each is a comment in an empty function, on lines of its own, and is compiled when it is first required. V8 skips a
 * comment 18 times as fast as it parses code. No code moves within its line. So a stack trace names a place in the file,
 * and the source maps need only be put together.
 */

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
      const sections = [];
      let text = '';
      const nextLine = () => text.split('\n').length;
      const add = ({ code, map }) => {
        if (/\blateChunk\b|\bdelayed\(|\x7f/.test(code)) throw new Error('a name of the loader is taken');
        sections.push({ offset: { line: nextLine() - 1, column: 0 }, map });
        return code
          .replace(MAP_COMMENT, '')
          .replace(LOCAL_REQUIRE, 'lateChunk("')
          .replace(DELAYED, 'delayed');
      };
      text += add(entry);
      text += `\n${delayed}\n${lateChunk}\n`;
      text += `lateChunk.modules={${JSON.stringify(entry.fileName)}:module};lateChunk.chunks={};`;
      for (const chunk of chunks) {
        if (chunk === entry) continue;
        text += `\nlateChunk.chunks[${JSON.stringify(chunk.fileName)}]=[${nextLine() + 1},()=>{/*\n`;
        text += `${add(chunk).replaceAll('*/', '*\x7f')}*/}];`;
        delete files[chunk.fileName];
        delete files[chunk.sourcemapFileName];
      }
      entry.code = `${text}\n//# sourceMappingURL=${entry.sourcemapFileName}\n`;
      // Node.js wants to see `sources`.
      const map = { version: 3, sources: [], sections };
      files[entry.sourcemapFileName].source = JSON.stringify(map);
    },
  };
  // One group for all eager modules: code that runs often then reads its imports as local variables.
  const isEager = (id) => eager.has(id) || id.startsWith('\0rolldown/');
  const group = { name: (id) => (isEager(id) ? 'eager' : null), debugName: 'eager' };
  return { plugin, codeSplitting: { groups: [group] } };
}
