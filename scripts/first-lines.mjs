/**
 * The first lines of each program: they tell a Node.js that is too old to run the rest.
 */
import { readFileSync } from 'node:fs';

const { engines } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
const LEAST = /^>=(\d+)$/.exec(engines.node)?.[1];

/** Runs in any version that can read the program. EX_CONFIG: systemd need not try again. */
const CHECK =
  `if(parseInt(process.versions.node,10)<${LEAST}){` +
  `process.stderr.write("fieldpost: Node.js ${LEAST} or later is needed; this is "+process.versions.node+" ("+process.execPath+")\\n");` +
  'process.exit(78)}';

/** Before version 15 the file has a syntax error, here: Node.js prints the line with the first one. */
const PROBE = `void function(a){a??="Fieldpost needs Node.js ${LEAST} or later"};`;

export const FIRST_LINES = `${CHECK}\n${PROBE}`;
