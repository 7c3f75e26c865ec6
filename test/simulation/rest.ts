/**
 * A device at rest, at the end of a simulated world: what it holds is bounded, and neither a stop nor a kill changes
 * what it knows.
 */

import { JOURNAL_BYTES_MIN, KIB, MIB, MINUTE_MS, SEGMENT_BYTES } from '../../src/base/limits.js';
import { CHECKPOINT_BYTES_MIN, COMPACT_BYTES_MIN, DONE_FACTOR } from '../../src/mail/store/checkpoints.js';
import { STATE_DIR } from './settings.js';
import type { World } from './world.js';

/** A program is at rest this long after its start. */
const STARTED_MS = 5 * MINUTE_MS;
/** The segment being written and one that is prepared, each by two descriptors; and one that is read. */
const HANDLES_MAX = 5;
/** Ours at rest: of the relays, of three types of message, of the store, of the link and of the address book. */
const TIMERS_MAX = 12;
/** Segments that are done with, and not yet so many that a sweep makes a checkpoint. */
const DONE_BYTES_MAX = DONE_FACTOR * CHECKPOINT_BYTES_MIN;
/** No file of a mail takes more (mail.ts). */
const FILE_BYTES_MAX = 20 * KIB;
/** Snapshots, which are small, and copies of damage. */
const OTHER_BYTES_MAX = MIB;

/** Checks a device that has delivered everything and has no calls. */
export async function checkRest(world: World): Promise<void> {
  await checkBounds(world);
  if (world.model.found.length > 0) return;
  await checkEnds(world);
}

async function checkBounds(world: World): Promise<void> {
  const { device, relays, programs, model } = world;
  const most = (what: string, found: number, max: number) => {
    if (found > max) model.violation(`at rest there are ${found} ${what}, of at most ${max}`);
  };
  const { disk } = device;
  const files = await disk.list(`${STATE_DIR}/spool`);
  const list = (await world.awaited(programs.list())) ?? [];
  const kept = list.filter(({ final, status }) => !final || status === 'failed');
  const dropped = new Set(world.posted(({ cancelledMs }) => cancelledMs !== null).map(({ id }) => id));
  const attachments = kept.filter(({ id }) => !dropped.has(id)).flatMap((listed) => listed.attachments);
  const readyMade = new Set(world.posted(({ isReadyMade }) => isReadyMade === true).map(({ id }) => id));
  const mails = kept.filter(({ id }) => readyMade.has(id) && !dropped.has(id)).length;
  most('files in the spool', files.length, attachments.length + mails);
  most('open files', disk.handles, HANDLES_MAX);
  most('timers of the device', device.clock.waiting, TIMERS_MAX);
  most('requests without an answer', device.asking, 0);
  most('bytes on the disk', disk.usedBytes, bytesMax(kept.length, files.length));
  for (const relay of relays) most('sessions at a relay', relay.open, 0);
}

/** The limit for a device that keeps this many messages and files. */
function bytesMax(kept: number, files: number): number {
  // Each message may hold a segment: those that the snapshots need, and older ones up to where their content is moved.
  const heldBytes = Math.min(kept * SEGMENT_BYTES, DONE_BYTES_MAX + COMPACT_BYTES_MIN);
  return JOURNAL_BYTES_MIN + DONE_BYTES_MAX + heldBytes + files * FILE_BYTES_MAX + OTHER_BYTES_MAX;
}

/** Checks that a restart after a stop, and one after a kill, change nothing that a client sees. */
async function checkEnds(world: World): Promise<void> {
  const { device, contentDrops } = world;
  const before = await knownIn(world);
  await world.awaited(device.program?.stop() ?? Promise.resolve());
  await begin(world);
  const stopped = await knownIn(world);
  // A start removes what has been kept long enough.
  if (world.contentDrops === contentDrops) compare(world, 'a stop', before, stopped);
  await begin(world);
  const killed = await knownIn(world);
  if (world.contentDrops === contentDrops) compare(world, 'a kill', before, killed);
}

/** Another process. */
async function begin(world: World): Promise<void> {
  const { device } = world;
  device.die('kill');
  world.deviceEnded(false);
  device.renew({ isBoot: false });
  world.watchDisk();
  await world.awaited(world.start(device));
  await world.pass(STARTED_MS);
}

/** All that a client sees of the device's messages, line by line. */
async function knownIn(world: World): Promise<readonly string[]> {
  const list = await world.awaited(world.programs.list());
  const state = await world.awaited(world.programs.state());
  if (list === null || state === null) return ['nobody answers'];
  const { queued, deferred, failed, held, used } = state.queue as Readonly<Record<string, unknown>>;
  const { messages, memoryBytes } = used as { messages: number; memoryBytes: number };
  return [
    JSON.stringify({ queued, deferred, failed, held, messages, memoryBytes }),
    ...list.map(({ acceptedAt, ...rest }) => JSON.stringify(rest)),
  ];
}

function compare({ model }: World, what: string, before: readonly string[], after: readonly string[]): void {
  if (before.join() === after.join()) return;
  const at = before.findIndex((line, i) => line !== after[i]);
  model.violation(`${what} makes ${before[at] ?? 'nothing'} ${after[at] ?? 'nothing'}`);
}
