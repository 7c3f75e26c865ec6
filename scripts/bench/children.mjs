/** The processes of a run, so that none outlives it if a figure fails halfway. */

/** @import {ChildProcess} from 'node:child_process' */

/** @type {Set<ChildProcess>} */
const running = new Set();

/**
 * Remembers a process until it ends.
 * @template {ChildProcess} T
 * @param {T} child
 */
export function remembered(child) {
  running.add(child);
  child.once('exit', () => running.delete(child));
  return child;
}

/** Kills all that still run. */
export function endChildren() {
  for (const child of running) child.kill('SIGKILL');
}
