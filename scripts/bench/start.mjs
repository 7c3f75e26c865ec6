/** From the start of the process to its first answer, and its memory then: empty, and with 10,000 queued. */
import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { residentMiB } from './process.mjs';
import { againstBefore, before, compare, interleave } from './rounds.mjs';
import { fill, startServer } from './server.mjs';

const QUEUED = 10_000;

/** Resolves with the rows. */
export async function start(plan) {
  const stopped = await filled(join(plan.base, 'stopped'), 'SIGTERM');
  const killed = await filled(join(plan.base, 'killed'), 'SIGKILL');
  const resident = { empty: [], stopped: [], killed: [], killedBefore: [] };
  const first = (kind, template, memory) => async (stateDir) => {
    if (template)
      await cp(template, stateDir, { recursive: true, filter: (path) => !path.endsWith('/lock') });
    const server = await startServer(kind, stateDir);
    memory?.push(await residentMiB(server.pid));
    await server.end();
    return server.firstAnswerMs;
  };
  const found = await interleave(plan, {
    bare: first('bare'),
    empty: first('fieldpost', null, resident.empty),
    stopped: first('fieldpost', stopped, resident.stopped),
    killed: first('fieldpost', killed, resident.killed),
    ...before((kind) => first(kind)),
    ...before((kind) => first(kind, killed, resident.killedBefore), 'killedBefore'),
  });
  const bare = { name: 'bare', numbers: found.bare };
  const empty = { name: 'ours, empty', numbers: found.empty };
  const emptyMemory = { name: 'ours, empty', numbers: resident.empty };
  return [
    compare('start, empty', 'ms', found.empty, bare, { atMost: 1.5 }),
    compare('start, 10,000 after a clean stop', 'ms', found.stopped, empty, { atMost: 1.3 }),
    compare('start, 10,000 after a kill', 'ms', found.killed, empty, { atMost: 1.7 }),
    compare('resident then, clean stop', 'MiB', resident.stopped, emptyMemory, { moreAtMost: 10 }),
    compare('resident then, kill', 'MiB', resident.killed, emptyMemory, { moreAtMost: 10 }),
    ...againstBefore('start, empty', 'ms', found.empty, found.before),
    ...againstBefore('start, 10,000 after a kill', 'ms', found.killed, found.killedBefore),
    ...againstBefore('resident then, kill', 'MiB', resident.killed, found.before && resident.killedBefore),
  ];
}

/** A state directory with 10,000 queued, whose daemon was ended by this signal. */
async function filled(stateDir, signal) {
  const server = await startServer('fieldpost', stateDir);
  await fill(server.port, QUEUED);
  await server.end(signal);
  return stateDir;
}
