/** The actions of a simulated world, but for those of cloudside.ts. */
import { DAY_MS, MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import type { Chance } from './chance.js';
import { actAtCloud, type Deed } from './cloudside.js';
import { die, restart } from './deaths.js';
import { AILMENTS } from './ill-disk.js';
import { weightsOf } from './link.js';
import type { Posted } from './model.js';
import type { Action, CloudAction } from './swarm.js';
import { tellTruth } from './truth.js';
import type { World } from './world.js';

/** Starts the action, without waiting for answers to programs. Then checks the promises. */
export async function act(world: World, action: Action, chance: Chance): Promise<void> {
  if (action in DEEDS) await DEEDS[action as keyof typeof DEEDS](world, chance);
  else {
    world.watch.weather.shortMs = null;
    await actAtCloud(world, action as CloudAction, chance);
  }
  await world.watch.look();
}

const DEEDS: Readonly<Record<Exclude<Action, CloudAction>, Deed>> = {
  post: ({ programs }) => void programs.post(1, false),
  'post batch': ({ programs }, chance) => void programs.post(1 + chance.below(20), chance.is(0.3)),
  'post with key': ({ programs }) => void programs.post(1, true),
  'post again': ({ programs }) => void programs.postAgain(),
  'post form': ({ programs }, chance) => void programs.postForm(chance.is(0.3), false),
  'post to several': ({ programs }, chance) => void programs.postToSeveral(chance.is(0.3)),
  'post ready-made': ({ programs }, chance) => void programs.postReadyMade(chance.is(0.3)),
  'cut form': ({ programs }, chance) => void programs.postForm(chance.is(0.5), true),
  cancel: (world, chance) => ofThese(openIn(world), chance, (one) => world.programs.cancel([one])),
  'cancel all': (world) => void world.programs.cancel(openIn(world)),
  retry: (world, chance) => ofThese(knownIn(world), chance, (one) => world.programs.retry(one)),
  flush: ({ programs }) => void programs.steer('flush'),
  hold: ({ programs }) => void programs.steer('hold'),
  release: ({ programs }) => void programs.steer('release'),
  look: (world, chance) => {
    ofThese(knownIn(world), chance, (one) => world.programs.look(one));
    void world.programs.state();
  },
  reload,
  purge: ({ programs }) => void programs.steer('purge'),
  'drop failed': (world, chance) => {
    const failed = world.posted(({ final }) => final === 'failed');
    ofThese(failed, chance, (one) => world.programs.cancel([one]));
  },
  rush,
  survey: (world) => tellTruth(world, false),
  'relay mood': (world, chance) => {
    world.watch.weather.upset();
    chance.one(world.relays).mood = chance.is(0.4) ? 'well' : chance.one(world.swarm.moods);
    world.tell(`relays are ${world.relays.map(({ mood }) => mood)}`);
  },
  'link mood': (world, chance) => {
    const { link, swarm } = world;
    world.watch.weather.upset();
    link.isUp = chance.is(0.6);
    link.weights = chance.is(0.4) ? weightsOf({}) : swarm.fates;
    world.tell(`the link is ${link.isUp ? 'up' : 'down'}, ${JSON.stringify(link.weights)}`);
  },
  'disk trouble': troubleDisk,
  'power cut': (world, chance) => die(world, 'power cut', chance),
  kill: (world, chance) => die(world, 'kill', chance),
  restart: (world) => restart(world),
  leap: ({ device }, chance) => {
    const sign = chance.is(0.3) ? -1 : 1;
    device.clock.leap(sign * chance.span(MINUTE_MS, 400 * DAY_MS));
  },
  suspend: ({ device, watch }, chance) => {
    watch.weather.upset();
    device.clock.suspend(chance.span(MINUTE_MS, 5 * DAY_MS));
  },
};

function knownIn(world: World): Posted[] {
  return world.posted(({ id }) => id !== null);
}

function openIn(world: World): Posted[] {
  return world.posted(({ id, final }) => id !== null && final === null);
}

/** Draws one of these, if there is any, and starts an action with it. */
function ofThese(all: readonly Posted[], chance: Chance, start: (one: Posted) => Promise<void>): void {
  if (all.length > 0) void start(chance.one(all));
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
  const young = openIn(world).slice(-30);
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
