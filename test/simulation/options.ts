/** The command line of scripts/simulate. */
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import { REGRESSIONS } from './regressions.js';

/** What is asked of a run. */
export type Options = ReturnType<typeof readOptions>;

/** A wrong command line. */
export class UsageError extends Error {}

const SEED_END = 2 ** 32;
const UNITS: Readonly<Record<string, number>> = { s: SECOND_MS, m: MINUTE_MS, h: HOUR_MS };

/** Reads the command line. Throws UsageError. */
export function readOptions(args: readonly string[]) {
  const { values } = parsed(args);
  const { seed, seeds, for: span, jobs, book, only, trace, plan, regression } = values;
  if (regression !== undefined && REGRESSIONS.every(({ name }) => name !== regression))
    throw new UsageError(`--regression ${regression}: there is none of that name (regressions.ts)`);
  const isOne = seed !== undefined && seeds === undefined && span === undefined;
  for (const [name, isGiven] of Object.entries({ only: only !== undefined, trace, plan }))
    if (isGiven && !isOne && regression === undefined)
      throw new UsageError(`--${name} is for one world: give --seed, and neither --seeds nor --for`);
  return {
    seed: seed === undefined ? Math.floor(Math.random() * SEED_END) : whole('seed', seed, 0),
    seeds: seeds === undefined ? (isOne ? 1 : span === undefined ? 100 : SEED_END) : whole('seeds', seeds, 1),
    forMs: span === undefined ? null : msOf(span),
    processes: jobs === undefined ? availableParallelism() : whole('jobs', jobs, 1),
    isBook: book,
    only: only === undefined ? null : stepsOf(only),
    isTraced: trace,
    isPlan: plan,
    shrinks: !values['no-shrink'],
    regression: regression ?? null,
  };
}

function parsed(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      options: {
        seed: { type: 'string' },
        seeds: { type: 'string' },
        for: { type: 'string' },
        jobs: { type: 'string' },
        book: { type: 'boolean', default: false },
        only: { type: 'string' },
        trace: { type: 'boolean', default: false },
        plan: { type: 'boolean', default: false },
        'no-shrink': { type: 'boolean', default: false },
        regression: { type: 'string' },
      },
    });
  } catch (error) {
    throw new UsageError(/^[^\n.]*/.exec((error as Error).message)?.[0]);
  }
}

function whole(name: string, text: string, low: number): number {
  const value = /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN;
  if (!(value >= low && value <= SEED_END))
    throw new UsageError(`--${name} ${text}: a whole number from ${low} to ${SEED_END} is needed`);
  return value;
}

function msOf(text: string): number {
  const [, count, unit = ''] = /^(\d{1,6})([smh])$/.exec(text) ?? [];
  if (count === undefined) throw new UsageError(`--for ${text}: a time such as 30s, 5m or 1h is needed`);
  return Number(count) * (UNITS[unit] as number);
}

/** The step numbers in a text such as `3,7,9-40`. */
function stepsOf(text: string): readonly number[] {
  return text.split(',').flatMap((part) => {
    const [, low, high = low] = /^(\d{1,6})(?:-(\d{1,6}))?$/.exec(part) ?? [];
    if (low === undefined) throw new UsageError(`--only ${text}: step numbers such as 3,7,9-40 are needed`);
    return Array.from({ length: Math.max(0, Number(high) - Number(low) + 1) }, (_, i) => Number(low) + i);
  });
}
