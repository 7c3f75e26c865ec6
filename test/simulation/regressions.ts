/**
 * Histories that once broke a promise. Every run replays them first. A history is kept as its shrunk plan and not as its
 * seed, because a seed draws another world whenever the drawing changes. What an action itself draws may still change:
 * so each names the plant that turns its mend back (plants.mjs), and simulation.test.ts shows that with it the history
 * fails. Where it does not any more, `scripts/simulate --plant NAME` finds another one. Used by simulate.ts.
 */
import type { Plan } from './plan.js';

export interface Regression {
  readonly name: string;
  /** What was wrong. */
  readonly why: string;
  /** Turns the mend back. */
  readonly plant: string;
  /** As `scripts/simulate --seed S --only … --plan` prints it. */
  readonly plan: Plan;
}

export const REGRESSIONS: readonly Regression[] = [];
