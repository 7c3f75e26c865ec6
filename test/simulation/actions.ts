/**
 * What may happen in a simulated world, one function an action. Used by live.ts.
 */
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/limits.js';
import type { Chance } from './chance.js';
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
    case 'add destination':
      return void world.people.add();
    case 'edit destination':
      return void world.people.edit();
    case 'remove destination':
      return void world.people.remove();
    case 'cloud adds':
    case 'cloud edits':
    case 'cloud removes':
      if (world.swarm.hasCloud) void world.people.screen(action.slice(6) as 'adds' | 'edits' | 'removes');
      return;
    case 'look': {
      const known = world.posted(({ id }) => id !== null);
      if (known.length > 0) void programs.look(chance.one(known));
      void programs.state();
      return;
    }
    case 'reload':
      return await reload(world, chance);
    case 'network changed':
      return;
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
    case 'cloud dies':
      if (!world.swarm.hasCloud || world.cloud.program === null) return;
      world.cloud.die('kill');
      world.cloud.renew({ isBoot: true });
      world.model.ended(true, 8, world.timeline.nowMs);
      return void world.timeline.after(chance.span(SECOND_MS, HOUR_MS), () => void world.start(world.cloud));
  }
}

/** The device dies, and is back some time later. */
function die(world: World, death: 'kill' | 'power cut', chance: Chance): void {
  const device = world.device;
  if (device.program === null && !device.isStarting) return;
  device.die(death);
  world.model.ended(death === 'power cut', world.underWay, world.timeline.nowMs);
  const wallMs = chance.is(0.2) ? chance.below(DAY_MS) : undefined;
  const offMs = death === 'kill' ? 5 * SECOND_MS : chance.span(SECOND_MS, 3 * DAY_MS);
  world.watchDisk();
  world.offUntilMs = world.timeline.nowMs + offMs;
  world.timeline.after(offMs, () => {
    device.renew({
      isBoot: death === 'power cut',
      ...(death === 'power cut' && wallMs !== undefined && { wallMs }),
    });
    void world.start(device);
  });
}

async function restart(world: World): Promise<void> {
  const device = world.device;
  const { program } = device;
  if (program === null || device.clock.isAsleep) return;
  await world.awaited(program.stop().catch((error) => world.tell(`a stop failed: ${error}`)));
  world.model.ended(false, world.underWay, world.timeline.nowMs);
  device.die('kill');
  world.watchDisk();
  device.renew({ isBoot: false });
  void world.start(device);
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
