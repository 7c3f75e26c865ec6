/**
 * Runs one simulated world to its end.
 */
import { HOUR_MS } from '../../src/base/limits.js';
import { act } from './actions.js';
import { endWell } from './calm.js';
import { Chance } from './chance.js';
import { WITNESS } from './people.js';
import type { Plan } from './plan.js';
import { drained, World } from './world.js';

/** How a world ended. */
export interface Ended {
  /** Every broken promise, in words. */
  readonly found: readonly string[];
  /** A hash of everything that was observed. */
  readonly hash: string;
  readonly livedMs: number;
  /** Timers that fired. */
  readonly events: number;
  /** The number of the last step that was done. */
  readonly lastStep: number;
}

/** Runs a plan until a promise is broken, or to its end. `onLine` gets each line of the history. */
export async function live(
  plan: Plan,
  onLine: (line: string) => void,
  onStep: (livedMs: number, events: number, number: number) => void,
): Promise<Ended> {
  const world = new World(plan, onLine);
  const { swarm, timeline, model, chance } = world;
  const hours = Math.round((plan.steps.at(-1)?.atMs ?? 0) / HOUR_MS);
  world.tell(`a world of ${hours} h and ${plan.steps.length} steps, ${JSON.stringify(swarm)}`);
  if (swarm.hasCloud) await world.awaited(world.start(world.cloud));
  await world.awaited(world.start(world.device));
  await world.awaited(world.people.add(WITNESS, 'en'));
  let lastStep = 0;
  for (const { number, atMs, action, seed } of plan.steps) {
    await world.pass(Math.max(0, atMs - timeline.nowMs));
    if (model.found.length > 0) break;
    world.tell(`${number}: ${action}`);
    chance.restart(seed);
    await act(world, action, new Chance(seed));
    await drained();
    await world.bookWatch.look();
    world.notices.look();
    lastStep = number;
    onStep(timeline.nowMs, timeline.passed, number);
    if (model.found.length > 0) break;
  }
  await world.pass(Math.max(0, world.offUntilMs - timeline.nowMs));
  if (model.found.length === 0) await endWell(world);
  const { found } = model;
  return { found, hash: world.hash(), livedMs: timeline.nowMs, events: timeline.passed, lastStep };
}
