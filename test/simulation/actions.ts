/**
 * What may happen in a simulated world, one function an action. Used by live.ts.
 */
import { DAY_MS, MINUTE_MS, SECOND_MS } from '../../src/limits.js';
import type { Chance } from './chance.js';
import { actAtCloud } from './cloudside.js';
import { die, restart } from './deaths.js';
import { AILMENTS } from './ill-disk.js';
import { weightsOf } from './link.js';
import type { Action } from './swarm.js';
import type { World } from './world.js';

/** Does it, or begins it, for an answer may take its time; then looks whether all is as promised. */
export async function act(world: World, action: Action, chance: Chance): Promise<void> {
  await begin(world, action, chance);
  await world.watch.look();
}

async function begin(world: World, action: Action, chance: Chance): Promise<void> {
  const programs = world.programs;
  const device = world.device;
  const open = () => world.posted((posted) => posted.id !== null && posted.final === null);
  switch (action) {
    case 'post':
      return void programs.post(1, false);
    case 'post batch':
      return void programs.post(1 + chance.below(20), chance.is(0.3));
    case 'post with key':
      return void programs.post(1, true);
    case 'post again':
      return void programs.postAgain();
    case 'post form':
      return void programs.postForm(chance.is(0.3), false);
    case 'cut form':
      return void programs.postForm(chance.is(0.5), true);
    case 'cancel': {
      const known = open();
      if (known.length > 0) void programs.cancel([chance.one(known)]);
      return;
    }
    case 'cancel all':
      return void programs.cancel(open());
    case 'retry': {
      const known = world.posted(({ id }) => id !== null);
      if (known.length > 0) void programs.retry(chance.one(known));
      return;
    }
    case 'flush':
    case 'hold':
    case 'release':
      return void programs.steer(action);
    case 'look': {
      const known = world.posted(({ id }) => id !== null);
      if (known.length > 0) void programs.look(chance.one(known));
      void programs.state();
      return;
    }
    case 'reload':
      return await reload(world, chance);
    case 'purge':
      return void programs.steer('purge');
    case 'drop failed': {
      const failed = world.posted(({ final }) => final === 'failed');
      if (failed.length > 0) void programs.cancel([chance.one(failed)]);
      return;
    }
    case 'rush':
      return await rush(world, chance);
    case 'survey':
      return await world.watch.listen();
    case 'relay mood':
      world.watch.weather.upset();
      chance.one(world.relays).mood = chance.is(0.4) ? 'well' : chance.one(world.swarm.moods);
      return world.tell(`relays are ${world.relays.map(({ mood }) => mood)}`);
    case 'link mood':
      world.watch.weather.upset();
      world.link.isUp = chance.is(0.6);
      world.link.weights = chance.is(0.4) ? weightsOf({}) : world.swarm.fates;
      return world.tell(
        `the link is ${world.link.isUp ? 'up' : 'down'}, ${JSON.stringify(world.link.weights)}`,
      );
    case 'disk trouble':
      return await troubleDisk(world, chance);
    case 'power cut':
      return die(world, 'power cut', chance);
    case 'kill':
      return die(world, 'kill', chance);
    case 'restart':
      return await restart(world);
    case 'leap':
      device.clock.leap(
        chance.is(0.3) ? -chance.span(MINUTE_MS, 400 * DAY_MS) : chance.span(MINUTE_MS, 400 * DAY_MS),
      );
      return;
    case 'suspend':
      world.watch.weather.upset();
      device.clock.suspend(chance.span(MINUTE_MS, 5 * DAY_MS));
      return;
    default:
      world.watch.weather.shortMs = null;
      return await actAtCloud(world, action, chance);
  }
}

async function reload(world: World, chance: Chance): Promise<void> {
  const { program } = world.device;
  if (program === null || world.device.clock.isAsleep) return;
  world.sender++;
  world.settings = {
    ...world.settings,
    ...(chance.is(0.5) && { FIELDPOST_RELAY_CONNECTIONS: String(1 + chance.below(4)) }),
    ...(chance.is(0.2) && { FIELDPOST_RETRY_MIN: `${Math.round(chance.span(1, 600))}s` }),
    ...(chance.is(0.2) && { FIELDPOST_BACKOFF_MAX: `${Math.round(chance.span(10, 600))}s` }),
    ...(chance.is(0.2) && { FIELDPOST_MAX_QUEUE: String(5 + chance.below(400)) }),
  };
  if (chance.is(0.5)) world.route = chance.some(world.relays.map((_, i) => i));
  world.watch.weather.upset();
  world.watch.offers.hurried();
  await world.awaited(program.reload(world.config()));
}

/** The disk gets ill, or well; perhaps while the queue drains, and perhaps with a reload soon after. */
async function troubleDisk(world: World, chance: Chance): Promise<void> {
  if (chance.is(0.4)) await world.awaited(world.programs.post(5 + chance.below(20), false));
  world.setDiskTrouble(chance.is(0.5) ? 'none' : chance.one(AILMENTS));
  if (!chance.is(0.3)) return;
  await world.pass(chance.below(MINUTE_MS));
  await reload(world, chance);
}

/** A burst of messages, and people who steer the queue while it drains. */
async function rush(world: World, chance: Chance): Promise<void> {
  const { programs } = world;
  await world.awaited(programs.post(2 + chance.below(30), false));
  const young = world.posted(({ id, final }) => id !== null && final === null).slice(-30);
  if (young.length === 0) return;
  for (let i = 1 + chance.below(8); i > 0; i--) {
    const what = chance.weighted({ cancel: 6, hold: 1, release: 2, flush: 1, retry: 1, look: 1 });
    if (what === 'cancel') void programs.cancel(chance.some(young));
    else if (what === 'retry') void programs.retry(chance.one(young));
    else if (what === 'look') void programs.look(chance.one(young));
    else void programs.steer(what);
    await world.pass(chance.below(SECOND_MS));
  }
}
