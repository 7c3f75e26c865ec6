// @ts-nocheck: the functions below become text of the program, and get their members there.
/**
 * Keeps the code that only a dynamic `import()` needs inside the one file, as comments. V8 skips a comment 18 times as
 * fast as it parses code, and a start of the daemon needs two thirds of the code.
 *
 * The bundler writes such code as chunks of their own, each a CommonJS module. Here the program's file gets them, each
 * as the comment in an empty function, and compiles one when it is first required.
 */

/** Stands for the end of a comment within a chunk. */
const COMMENT_END = '*%:/';
const LOCAL_REQUIRE = /\brequire\("\.\/([^"]+)"\)/g;

/** The module `name`: the program, or a chunk, which is compiled when it is first required. It runs in the program. */
function __late(name) {
  __late.modules ??= { [__late.entry]: module };
  if (!(name in __late.modules)) {
    const chunk = { exports: {} };
    __late.modules[name] = chunk;
    const held = __late.chunks[name];
    const run = held.length > 0 ? held : __late.compile(name, held);
    run(chunk.exports, chunk, require, __late);
  }
  return __late.modules[name].exports;
}

/** A function with the code in the comment of `held`. */
function __compile(name, held) {
  const comment = held.toString().slice('()=>{/*'.length, -'*/}'.length);
  const code = comment.replaceAll(__late.commentEnd, '*/');
  const parameters = ['exports', 'module', 'require', '__late'];
  // The name of the chunk is for stack traces.
  return require('node:vm').compileFunction(code, parameters, { filename: `${__filename}#${name}` });
}

/** A plugin, and the setting of the bundler that goes with it. */
export function lateChunks() {
  const eager = new Set();
  const plugin = {
    name: 'late-chunks',
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
      const texts = chunks
        .filter((chunk) => chunk !== entry)
        .map(({ fileName, code }) => {
          delete files[fileName];
          // The bundler's own runtime: to compile it from a comment would load node:vm at each start.
          if (entry.imports.includes(fileName))
            return `${JSON.stringify(fileName)}:(exports,module)=>{${code}}`;
          if (code.includes(COMMENT_END)) throw new Error(`${fileName} contains ${COMMENT_END}`);
          return `${JSON.stringify(fileName)}:()=>{/*${localised(code).replaceAll('*/', COMMENT_END)}*/}`;
        });
      const [, shebang, code] = /^(#!.*\n)?([\s\S]*)$/.exec(entry.code);
      const facts = `entry:${JSON.stringify(entry.fileName)},commentEnd:${JSON.stringify(COMMENT_END)}`;
      const loader = `${__late};Object.assign(__late,{${facts},compile:${__compile},chunks:{${texts.join(',')}}});`;
      entry.code = `${shebang ?? ''}${loader}${localised(code)}`;
    },
  };
  // One group for all eager modules: code that runs often then reads its imports as local variables.
  const group = { name: (id) => (eager.has(id) ? 'eager' : null), debugName: 'eager' };
  return { plugin, codeSplitting: { groups: [group] } };
}

/** Chunks require each other through the loader. */
function localised(code) {
  return code.replace(LOCAL_REQUIRE, '__late("$1")');
}
