/**
 * The first lines of the program: they tell a Node.js that is too old to run the rest.
 */
import { readFileSync } from 'node:fs';

const { engines } = JSON.parse(readFileSync('package.json', 'utf8'));
const LEAST = /^>=(\d+)$/.exec(engines.node)?.[1];
const WORDS = `Fieldpost needs Node.js ${LEAST} or later`;

/** Runs in any version that can read the program. EX_CONFIG: systemd need not try again. */
const CHECK =
  `if(parseInt(process.versions.node,10)<${LEAST}){` +
  `process.stderr.write("fieldpost: Node.js ${LEAST} or later is needed; this is "+process.versions.node+" ("+process.execPath+")\\n");` +
  'process.exit(78)}';

/** Before version 15 the file has a syntax error, here: Node.js prints the line with the first one. */
const PROBE = `void function(a){a??="${WORDS}"};`;

/** A plugin, for after the one that puts all code into one file. */
export const oldNode = {
  name: 'old-node',
  generateBundle(_, files) {
    for (const file of Object.values(files)) {
      if (file.type !== 'chunk' || !file.isEntry) continue;
      const [, shebang = '', code] = /^(#!.*\n)?([\s\S]*)$/.exec(file.code) ?? [];
      file.code = `${shebang}${CHECK}\n${PROBE}\n${code}`;
    }
  },
};
