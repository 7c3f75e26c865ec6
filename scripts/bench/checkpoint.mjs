/** What a checkpoint costs with a long queue: CPU, the longest piece of it between two turns of the event loop, and growth. */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { compile } from '../compile.mjs';
import { compare } from './rounds.mjs';
import { scaled } from './scale.mjs';

export const QUEUED = 15_000;
export const MANY_QUEUED = 100_000;

/** @typedef {{cpuMs: number, longestMs: number, peerMs: number}} Cost */

/**
 * The costs with 15,000 and with 100,000 messages queued, of a process each.
 * @param {string} base
 * @param {number} rounds
 * @returns {Promise<{few: Cost, many: Cost}>}
 */
export async function checkpointCosts(base, rounds) {
  await compile(fileURLToPath(new URL('./checkpoint.ts', import.meta.url)), base);
  const run = (/** @type {number} */ queued) =>
    JSON.parse(
      String(execFileSync(process.execPath, [join(base, 'checkpoint.cjs'), String(queued), String(rounds)])),
    );
  return { few: run(scaled(QUEUED)), many: run(scaled(MANY_QUEUED)) };
}

/** Resolves with the rows; the plan is that of rounds.mjs. */
export async function checkpoint({ rounds, base }) {
  const { few, many } = await checkpointCosts(base, rounds);
  const peer = (/** @type {Cost} */ cost) => ({ name: 'JSON.stringify', numbers: [cost.peerMs] });
  return [
    compare('checkpoint, 15,000 queued: CPU', 'ms', [few.cpuMs], peer(few), { ownAtMost: 25 }),
    compare('checkpoint, 15,000 queued: longest piece', 'ms', [few.longestMs], undefined, { ownAtMost: 5 }),
    compare('checkpoint, 100,000 queued: CPU', 'ms', [many.cpuMs], peer(many)),
    compare('checkpoint, 100,000 queued: longest piece', 'ms', [many.longestMs]),
  ];
}
