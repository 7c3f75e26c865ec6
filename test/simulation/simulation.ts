/** Runs simulated worlds as scripts/simulate does. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { Test } from 'tap';

/** The root, from where the compiler takes its paths. */
const TOP = new URL('../..', import.meta.url).pathname;

/** True in the long variant. */
export const IS_LONG = process.env.FIELDPOST_TEST_LONG === '1';

/** Starts a script with Node.js. */
export function start(args: readonly string[]) {
  const child = spawn(process.execPath, args, { cwd: TOP, env: { PATH: process.env.PATH } });
  const ended = Promise.all([once(child, 'close'), text(child.stdout), text(child.stderr)]);
  const told = ended.then(([[status], stdout, stderr]) => ({
    status: status as number | null,
    stdout,
    stderr,
  }));
  return { child, told };
}

/** Compiles the simulation, with a fault planted where one is named; gives what starts it. */
export async function simulation(t: Test, plant: readonly string[] = []) {
  const directory = t.testdir();
  const { status, stderr } = await start(['test/simulation/compile.mjs', directory, ...plant]).told;
  t.equal(status, 0, stderr);
  return (...args: string[]) => start([join(directory, 'simulate.cjs'), ...args]);
}
