/**
 * The end of a simulated world: the outside works again, and the device must keep every promise.
 */
import { DAY_MS, HOUR_MS } from '../../src/base/limits.js';
import { restart } from './deaths.js';
import { weightsOf } from './link.js';
import { checkRest } from './rest.js';
import { tellTruth } from './truth.js';
import type { World } from './world.js';

/** Both sides have the same address book after this long without a fault. */
const STEP_MS = 2 * HOUR_MS;
/** Every promise is kept after this long without a fault. */
const CALM_MS = DAY_MS;
/** Timers of programs, relays and the two daemons at rest. */
const TIMERS_MAX = 60;

/** Makes the whole outside well; a day later every promise must be kept. */
export async function endWell(world: World): Promise<void> {
  world.tell('from here on all is well');
  for (const relay of world.relays) relay.mood = 'well';
  world.link.isUp = true;
  world.link.weights = weightsOf({});
  world.setDiskTrouble('none');
  world.device.clock.wake();
  // A request on its way may still have cut the power.
  await world.pass(Math.max(0, world.offUntilMs - world.timeline.nowMs));
  if (world.isAway) {
    world.isAway = false;
    // It may be starting just now.
    await world.pass(HOUR_MS);
    await restart(world);
  }
  await world.pass(STEP_MS);
  await checkBook(world);
  const arrivals = world.bookWatch.arrivals;
  const before = await world.awaited(world.programs.state());
  // A release would wake whatever waits: only a queue that is held has one.
  if (before?.queue?.held === true) {
    const released = await world.awaited(world.programs.steer('release'));
    if (released?.status !== 202)
      world.model.violation(`a release is answered ${released?.status} ${released?.body}`);
  }
  // A world of the book has few messages and needs less time.
  await world.pass(world.swarm.isOfBook ? HOUR_MS : CALM_MS);
  await world.watch.look();
  await tellTruth(world, true);
  for (const posted of world.posted(({ id }) => id !== null)) {
    // The check of the list has set `final` of the listed ones.
    if (posted.final === null) await world.awaited(world.programs.look(posted));
    if (posted.final === null && !world.model.mayForget)
      world.model.violation(`${posted.token} (${posted.id}) is not final in the end`);
    if (posted.final === 'cancelled' && posted.cancelledMs === null && !posted.isCancelAsked)
      world.model.violation(`${posted.token} is cancelled, which nobody asked for`);
  }
  world.watch.offers.checkHanded();
  const state = await world.awaited(world.programs.state());
  if (state === null) return world.model.violation('nobody answers in the end');
  const { queue, storage, link } = state;
  for (const name of ['queued', 'sending', 'deferred'])
    if (queue?.[name] !== 0) world.model.violation(`${name} is ${queue?.[name]} in the end`);
  if (storage?.state !== 'ok') world.model.violation(`the storage is ${JSON.stringify(storage)} in the end`);
  const wanted = world.swarm.hasCloud ? 'online' : 'disabled';
  if (link?.state !== wanted) world.model.violation(`the link is ${JSON.stringify(link)} in the end`);
  await checkBook(world);
  if (world.bookWatch.arrivals > arrivals) world.model.violation('what was agreed is put again');
  if (world.timeline.waiting > TIMERS_MAX)
    world.model.violation(`${world.timeline.waiting} timers wait in the end`);
  await checkRest(world);
}

/** Checks that both sides are in sync, say so, and have lost nothing. */
async function checkBook(world: World): Promise<void> {
  const { people, swarm, model, bookWatch, notices } = world;
  await bookWatch.look();
  notices.look();
  const listed = await world.awaited(people.look());
  if (listed === null) return model.violation('nobody lists the address book in the end');
  if (!swarm.hasCloud) return;
  people.check(listed, (await bookWatch.document())?.destinations ?? null);
  const state = await world.awaited(world.programs.state());
  if (state?.destinations?.synced !== true)
    model.violation(`the book is ${JSON.stringify(state?.destinations)} in the end`);
}
