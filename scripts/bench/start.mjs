/**
 * From the start of the process to its first answer, and its memory 1 s later: empty, and with 10,000 queued. A device
 * starts again and again, so the target is that of a start with the state of an earlier one. The kill comes at the worst
 * moment.
 */
import { cp, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { residentMiB } from './process.mjs';
import { againstBefore, before, compare, interleave } from './rounds.mjs';
import { scaled } from './scale.mjs';
import { fill, startServer } from './server.mjs';

/** Not scaled: fewer need no checkpoint. */
const QUEUED = 10_000;
const SETTLE_MS = scaled(1000);
const STEP = 100;
/** How long a checkpoint takes at most. */
const CHECKPOINT_MS = 100;

/** Resolves with the rows. */
export async function start(plan) {
  const stopped = await ended('fieldpost', join(plan.base, 'stopped'), QUEUED, 'SIGTERM');
  const ours = await statesOf('fieldpost', plan);
  const theirs = await before((kind) => statesOf(kind, plan)).before;
  const resident = { again: [], stopped: [], killed: [], killedBefore: [] };
  const first = (kind, template, memory) => async (stateDir) => {
    if (template)
      await cp(template, stateDir, { recursive: true, filter: (path) => !path.endsWith('/lock') });
    const server = await startServer(kind, stateDir);
    if (memory) {
      await pause(SETTLE_MS);
      memory.push(await residentMiB(server.pid));
    }
    await server.end();
    return server.firstAnswerMs;
  };
  const found = await interleave(plan, {
    bare: first('bare'),
    first: first('fieldpost'),
    again: first('fieldpost', ours.again, resident.again),
    stopped: first('fieldpost', stopped, resident.stopped),
    killed: first('fieldpost', ours.killed, resident.killed),
    ...before((kind) => first(kind, theirs?.again)),
    ...before((kind) => first(kind, theirs?.killed, resident.killedBefore), 'killedBefore'),
  });
  const bare = { name: 'bare', numbers: found.bare };
  const empty = { name: 'ours, empty', numbers: found.again };
  const emptyMemory = { name: 'ours, empty', numbers: resident.again };
  return [
    compare('start, empty, second', 'ms', found.again, bare, { atMost: 1.6 }),
    compare('start, empty, first', 'ms', found.first, bare),
    compare('start, 10,000 after a clean stop', 'ms', found.stopped, empty, { atMost: 1.3 }),
    compare('start, 10,000 after a kill', 'ms', found.killed, empty, { atMost: 1.7 }),
    compare('resident then, clean stop', 'MiB', resident.stopped, emptyMemory, { moreAtMost: 12 }),
    compare('resident then, kill', 'MiB', resident.killed, emptyMemory, { moreAtMost: 12 }),
    ...againstBefore('start, empty, second', 'ms', found.again, found.before),
    ...againstBefore('start, 10,000 after a kill', 'ms', found.killed, found.killedBefore),
    ...againstBefore('resident then, kill', 'MiB', resident.killed, found.before && resident.killedBefore),
  ];
}

/** The state directories of this build's own: to an earlier one the snapshots of a later one can be damaged. */
async function statesOf(kind, { base }) {
  return {
    again: await ended(kind, join(base, `again-${kind}`), 0, 'SIGTERM'),
    killed: await killedLate(kind, join(base, `killed-${kind}`)),
  };
}

/** A state directory with so many queued, whose daemon was ended by this signal. */
async function ended(kind, stateDir, queued, signal) {
  const server = await startServer(kind, stateDir);
  if (queued > 0) await fill(server.port, queued);
  await server.end(signal);
  return stateDir;
}

/**
 * A state directory with at least QUEUED messages, whose daemon was killed when the next message would have led to a
 * checkpoint: no start has more of the journal to read. A first daemon finds out how many messages that are.
 */
async function killedLate(kind, stateDir) {
  const server = await startServer(kind, stateDir);
  await fill(server.port, QUEUED);
  let queued = QUEUED;
  const before = await checkpointOf(stateDir);
  for (; before === (await checkpointOf(stateDir)); queued += STEP) await fill(server.port, STEP);
  await server.end();
  await rm(stateDir, { recursive: true });
  return await ended(kind, stateDir, queued - STEP, 'SIGKILL');
}

/** When the newest checkpoint was made. */
async function checkpointOf(stateDir) {
  await pause(CHECKPOINT_MS);
  return (await stat(join(stateDir, 'store.json'))).mtimeMs;
}
