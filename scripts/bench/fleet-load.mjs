/** The load generator of fleet.mjs, a separate process. It reads its orders as JSON from its argument, and prints its figures as JSON. */
import { pathToFileURL } from 'node:url';

const { directory, ...orders } = JSON.parse(process.argv[2] ?? '{}');
const { runOpenLoad } = await import(pathToFileURL(`${directory}/open-load.cjs`).href);
console.log(JSON.stringify(await runOpenLoad({ ...orders, random: Math.random })));
