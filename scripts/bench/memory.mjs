/** Resident memory: idle, after 10,000 requests delivered, and after accepting 10,000. start.mjs has the memory of a start with 10,000 queued. */
import { setTimeout as pause } from 'node:timers/promises';
import { residentMiB } from './process.mjs';
import { startRelay } from './relay.mjs';
import { againstBefore, before, compare, interleave } from './rounds.mjs';
import { scaled } from './scale.mjs';
import { load, startServer } from './server.mjs';

const REQUESTS = scaled(10_000);
const SETTLE_MS = scaled(1000);

/** Resolves with the rows. */
export async function memory(plan) {
  let delivered = 0;
  const relay = await startRelay(() => {
    delivered += 1;
  });
  const idle = { fieldpost: [], bare: [], before: [] };
  const resident = (kind, delivers) => async (stateDir) => {
    delivered = 0;
    const server = await startServer(kind, stateDir, delivers ? relay.port : undefined);
    await pause(SETTLE_MS);
    if (delivers || kind === 'bare') idle[kind].push(await residentMiB(server.pid));
    await load(server.port, { connections: 32, count: REQUESTS });
    while (delivers && delivered < REQUESTS) await pause(50);
    await pause(SETTLE_MS);
    const miB = await residentMiB(server.pid);
    await server.end('SIGKILL');
    return miB;
  };
  const found = await interleave(plan, {
    bare: resident('bare', false),
    fieldpost: resident('fieldpost', true),
    ...before((kind) => resident(kind, true)),
    queued: resident('fieldpost', false),
  });
  relay.close();
  const bareAfter = { name: 'bare', numbers: found.bare };
  return [
    compare('resident, idle', 'MiB', idle.fieldpost, { name: 'bare', numbers: idle.bare }, { moreAtMost: 6 }),
    compare('resident, after 10,000 delivered', 'MiB', found.fieldpost, bareAfter, { moreAtMost: 4 }),
    compare('resident, 10,000 accepted and queued', 'MiB', found.queued, {
      name: 'ours, idle',
      numbers: idle.fieldpost,
    }),
    ...againstBefore('resident, idle', 'MiB', idle.fieldpost, found.before && idle.before),
    ...againstBefore('resident, after 10,000 delivered', 'MiB', found.fieldpost, found.before),
  ];
}
