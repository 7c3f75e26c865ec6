/**
 * What is to happen in a simulated world, drawn before it begins: what it is like, and its steps. A step stands at a
 * moment of its own and has a seed of its own, so that any may be left out.
 */
import { Chance } from './chance.js';
import { type Action, drawSwarm, pauseMs, type Swarm } from './swarm.js';

/** One thing that happens. */
export interface Step {
  readonly number: number;
  readonly atMs: number;
  readonly action: Action;
  readonly seed: number;
}

/** What a world is like, without what only the drawing of its steps needs. */
export type Nature = Omit<Swarm, 'livesMs' | 'everyMs' | 'weights'>;

/** A world before it begins. Nothing but this decides what happens in it. */
export interface Plan {
  /** Seeds everything that is drawn in the world. */
  readonly seed: number;
  readonly nature: Nature;
  /** In the order of their moments. After the last the world becomes calm. */
  readonly steps: readonly Step[];
}

/** Draws the plan of a seed; with `isBook` of one about the address book. */
export function drawPlan(seed: number, isBook = false): Plan {
  const chance = new Chance(seed);
  const { livesMs, everyMs, weights, ...nature } = drawSwarm(chance.fork(), isBook);
  const steps: Step[] = [];
  for (let atMs = 0; atMs < livesMs; ) {
    atMs = Math.round(atMs + pauseMs(everyMs, chance));
    const action = chance.weighted(weights);
    steps.push({ number: steps.length + 1, atMs, action, seed: chance.below(2 ** 32) });
  }
  return { seed: chance.below(2 ** 32), nature, steps };
}

/** The plan with only these steps, by number. */
export function only(plan: Plan, numbers: readonly number[]): Plan {
  const kept = new Set(numbers);
  return { ...plan, steps: plan.steps.filter(({ number }) => kept.has(number)) };
}
