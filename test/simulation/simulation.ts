/** Runs simulated worlds as scripts/simulate does. Used by the tests here. */
import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import type { Test } from 'tap';

/** How a run ended. */
export interface Told {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** The root, from where the compiler takes its paths. */
const TOP = new URL('../..', import.meta.url).pathname;

/** True in the long variant. */
export const IS_LONG = process.env.FIELDPOST_TEST_LONG === '1';

/** Starts a script with Node.js. */
export function start(args: readonly string[]): {
  readonly child: ChildProcess;
  readonly told: Promise<Told>;
} {
  const child = spawn(process.execPath, args, { cwd: TOP, env: { PATH: process.env.PATH } });
  const told = new Promise<Told>((resolve) => {
    let stdout = '';
    let stderr = '';
    child.stdout.on('data', (chunk) => {
      stdout += chunk;
    });
    child.stderr.on('data', (chunk) => {
      stderr += chunk;
    });
    child.on('close', (status) => resolve({ status, stdout, stderr }));
  });
  return { child, told };
}

/** Compiles the simulation, with a fault planted where one is named; gives what starts it. */
export async function simulation(t: Test, plant: readonly string[] = []) {
  const directory = t.testdir();
  const { status, stderr } = await start(['test/simulation/compile.mjs', directory, ...plant]).told;
  t.equal(status, 0, stderr);
  return (...args: string[]) => start([join(directory, 'simulate.cjs'), ...args]);
}
