/**
 * A daemon with nothing to do, its queue empty or held with 1,000 messages: what it writes, and what CPU it takes.
 * BENCH_IDLE_S (20) seconds each; 600 for the target. Nothing to compare with, so a third of the rounds will do.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { cpuMs, orderQueue, writtenBytes } from './process.mjs';
import { compare, interleave } from './rounds.mjs';
import { fill, startServer } from './server.mjs';

const QUEUED = 1000;
const SETTLE_MS = 1000;

/** Resolves with the rows. */
export async function idle(plan) {
  const idleS = Number(process.env.BENCH_IDLE_S ?? 20);
  const written = { empty: [], held: [] };
  const cpuShare = (name, queued) => async (stateDir) => {
    const server = await startServer('fieldpost', stateDir);
    await orderQueue(server.port, 'hold');
    if (queued > 0) await fill(server.port, queued);
    await pause(SETTLE_MS);
    const before = [await writtenBytes(server.pid), await cpuMs(server.pid)];
    await pause(idleS * 1000);
    written[name].push((await writtenBytes(server.pid)) - before[0]);
    const spentMs = (await cpuMs(server.pid)) - before[1];
    await server.end('SIGKILL');
    return (spentMs / idleS) * 1000;
  };
  const cpu = await interleave(
    { ...plan, rounds: Math.ceil(plan.rounds / 3) },
    { empty: cpuShare('empty', 0), held: cpuShare('held', QUEUED) },
  );
  return [
    ['empty', 'empty'],
    ['held', '1,000 held'],
  ].flatMap(([name, words]) => [
    compare(`idle ${idleS} s, ${words}: written`, 'B', written[name], undefined, { ownAtMost: 0 }),
    compare(`idle ${idleS} s, ${words}: CPU`, 'µs/s', cpu[name], undefined, { ownAtMost: 2000 }),
  ]);
}
