/**
 * Lives one world of people to its end, and has it judged.
 */
import { PowerCutError } from '../support/faulty-disk.js';
import { judge } from './judge.js';
import type { Plan } from './plan.js';
import { World } from './world.js';

/** How a world ended. */
export interface Ended {
  /** Every broken rule, in words. */
  readonly found: readonly string[];
  /** Messages that people got. */
  readonly messages: number;
  /** What the judge has looked for, by the kind of judgement. */
  readonly judged: ReadonlyMap<string, number>;
}

/** Lives a plan. `onLine` gets each line of its history. */
export async function live(plan: Plan, onLine: (line: string) => void): Promise<Ended> {
  const world = new World(plan, onLine);
  const fall = (error: unknown) => {
    if (!(error instanceof PowerCutError))
      world.found.push(`nobody catches ${(error as Error)?.stack ?? error}`);
  };
  process.on('unhandledRejection', fall);
  try {
    await world.begin();
    for (const { atMs, deed, number } of plan.steps) {
      await world.pass(Math.max(0, atMs - world.timeline.nowMs));
      if (world.found.length > 0) break;
      world.tell(`${number}: ${JSON.stringify(deed)}`);
      world.chance.restart(number);
      world.act(deed);
    }
    await world.pass(Math.max(0, plan.forMs - world.timeline.nowMs));
  } finally {
    process.off('unhandledRejection', fall);
  }
  world.history.endMs = world.timeline.nowMs;
  const { found, judged } = judge(world.history);
  return { found: [...world.found, ...found], messages: world.history.messages.length, judged };
}
