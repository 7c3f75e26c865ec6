/**
 * The writes and the CPU of two daemons without work: one with an empty queue, one that holds 1,000 messages. BENCH_IDLE_S
 * (20) seconds; 600 for the target. The figures hardly vary, so a third of the rounds is enough.
 */
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { cpuMs, ioOf, orderQueue } from './process.mjs';
import { compare } from './rounds.mjs';
import { scaled } from './scale.mjs';
import { fill, startServer } from './server.mjs';

/** A daemon writes its last page, the file `synced`, 1 s after the last append. */
const SETTLE_MS = scaled(2000);

/** Resolves with the rows; the plan is that of rounds.mjs. */
export async function idle({ rounds, base }) {
  const idleS = Number(process.env.BENCH_IDLE_S ?? scaled(20));
  /** @type {Awaited<ReturnType<typeof watch>>[][]} */
  const [empty = [], held = []] = [[], []];
  for (let round = 0; round < Math.ceil(rounds / 3); round++) {
    const directory = join(base, `idle-${round}`);
    const [one, other] = await Promise.all([
      watch(`${directory}-empty`, 0, idleS),
      watch(`${directory}-held`, 1000, idleS),
    ]);
    empty.push(one);
    held.push(other);
  }
  const row = (words, unit, found, of, ownAtMost) =>
    compare(`idle ${idleS} s, ${words}`, unit, found.map(of), undefined, { ownAtMost });
  return [
    ['empty', empty],
    ['1,000 held', held],
  ].flatMap(([words, found]) => [
    row(`${words}: written`, 'B', found, ({ bytes }) => bytes, 0),
    // 0.2 % of a core.
    row(`${words}: CPU`, 'µs/s', found, ({ cpuUsPerS }) => cpuUsPerS, 2000),
  ]);
}

/** Resolves with what a held daemon with so many messages took in `idleS` seconds: {bytes, cpuUsPerS}. */
async function watch(stateDir, queued, idleS) {
  const { port, pid, end } = await startServer('fieldpost', stateDir);
  await orderQueue(port, 'hold');
  if (queued > 0) await fill(port, queued);
  await pause(SETTLE_MS);
  const before = { bytes: (await ioOf(pid)).diskBytes, ms: await cpuMs(pid) };
  await pause(idleS * 1000);
  const bytes = (await ioOf(pid)).diskBytes - before.bytes;
  const cpuUsPerS = (((await cpuMs(pid)) - before.ms) * 1000) / idleS;
  await end('SIGKILL');
  return { bytes, cpuUsPerS };
}
