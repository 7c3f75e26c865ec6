/**
 * What may happen in a simulated world, one function an action. Used by live.ts.
 */
import { DAY_MS, MINUTE_MS } from '../../src/limits.js';
import type { Chance } from './chance.js';
import { actAtCloud } from './cloudside.js';
import { die, restart } from './deaths.js';
import { weightsOf } from './link.js';
import type { Action } from './swarm.js';
import type { World } from './world.js';

/** Does it, or begins it: an answer may take its time. */
export async function act(world: World, action: Action, chance: Chance): Promise<void> {
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
    case 'relay mood':
      chance.one(world.relays).mood = chance.is(0.4) ? 'well' : chance.one(world.swarm.moods);
      return world.tell(`relays are ${world.relays.map(({ mood }) => mood)}`);
    case 'link mood':
      world.link.isUp = chance.is(0.6);
      world.link.weights = chance.is(0.4) ? weightsOf({}) : world.swarm.fates;
      return world.tell(
        `the link is ${world.link.isUp ? 'up' : 'down'}, ${JSON.stringify(world.link.weights)}`,
      );
    case 'disk trouble':
      return world.setDiskTrouble(chance.is(0.5) ? 'none' : chance.one(['refusing', 'full'] as const));
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
      device.clock.suspend(chance.span(MINUTE_MS, 5 * DAY_MS));
      return;
    default:
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
  };
  await world.awaited(program.reload(world.config()));
}
