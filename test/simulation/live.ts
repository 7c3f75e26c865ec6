/**
 * Runs the world of one seed to its end. Used by simulate.ts and simulation.test.ts.
 */
import { HOUR_MS } from '../../src/limits.js';
import { act } from './actions.js';
import { endWell } from './calm.js';
import { pauseMs } from './swarm.js';
import { drained, World } from './world.js';

/** How a world ended. */
export interface Ended {
  readonly seed: number;
  /** What is wrong, in words; none if all is well. */
  readonly found: readonly string[];
  /** Of everything that was observed. */
  readonly hash: string;
  readonly livedMs: number;
  /** Timers that rang. */
  readonly events: number;
}

/** One seed, one history: runs it until something is wrong, or to its end. `onLine` is told of every line of it. */
export async function live(seed: number, onLine: (line: string) => void = () => undefined): Promise<Ended> {
  const world = new World(seed, onLine);
  const { swarm, timeline, model, chance } = world;
  world.tell(`a world of ${Math.round(swarm.livesMs / HOUR_MS)} h, ${JSON.stringify(swarm)}`);
  if (swarm.hasCloud) await world.awaited(world.start(world.cloud));
  await world.awaited(world.start(world.device));
  for (let number = 1; timeline.nowMs < swarm.livesMs && model.found.length === 0; number++) {
    await world.pass(pauseMs(swarm, chance));
    const action = chance.weighted(swarm.weights);
    world.tell(`${number}: ${action}`);
    await act(world, action, chance.fork());
    await drained();
  }
  if (model.found.length === 0) await endWell(world);
  return {
    seed,
    found: model.found,
    hash: world.hash(),
    livedMs: timeline.nowMs,
    events: timeline.passed,
  };
}
