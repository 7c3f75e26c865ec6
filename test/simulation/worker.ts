/**
 * A process that runs worlds, one after the other. crew.ts starts it, sends it plans and gets the results. Earlier worlds
 * do not change the result of a later one.
 */
import { PowerCutError } from '../support/faulty-disk.js';
import { type Ended, live } from './live.js';
import type { Plan } from './plan.js';
import { seal } from './seal.js';

/** An order to a worker. */
export interface Job {
  readonly plan: Plan;
  /** Every line of the history is printed. */
  readonly isTraced: boolean;
}

/** A report of a worker: the progress of a world, or its end. */
export type Word =
  | { readonly kind: 'step'; readonly livedMs: number; readonly events: number; readonly number: number }
  | { readonly kind: 'ended'; readonly ended: Ended; readonly last: readonly string[] };

/** Lines of a history that are kept until it ends. */
const LAST_LINES = 40;
/** Reports about steps are at least this far apart. */
const TOLD_EVERY_MS = 100;

/** Runs jobs until the parent process is gone. */
export function work(): void {
  const tell = (word: Word, then?: () => void) => process.send?.(word, undefined, undefined, then);
  let touched: string[] = [];
  let last: string[] = [];
  let steps = { livedMs: 0, events: 0, lastStep: 0 };
  seal((what) => touched.push(`the outside is touched: ${what}`));
  // Ctrl-C goes to all processes of a terminal; the one that started this one ends it.
  process.on('SIGINT', () => undefined);
  process.on('disconnect', () => process.exit());
  // Pending calls of a dead machine reject. Any other unhandled rejection would end the daemon.
  const fall = (error: unknown) => {
    if (error instanceof PowerCutError) return;
    const found = [...touched, `nobody catches ${(error as Error)?.stack ?? error}`];
    tell({ kind: 'ended', ended: { found, hash: '', ...steps }, last }, () => process.exit(1));
  };
  process.on('unhandledRejection', fall);
  process.on('uncaughtException', fall);

  process.on('message', ({ plan, isTraced }: Job) => {
    touched = [];
    last = [];
    steps = { livedMs: 0, events: 0, lastStep: 0 };
    // A trace of calls costs an eighth of the time, as many requests are meant to fail.
    Error.stackTraceLimit = isTraced ? 20 : 0;
    let toldMs = 0;
    const onLine = (line: string) => {
      if (isTraced) console.log(line);
      if (last.push(line) > 2 * LAST_LINES) last = last.slice(-LAST_LINES);
    };
    const onStep = (livedMs: number, events: number, number: number) => {
      steps = { livedMs, events, lastStep: number };
      if (performance.now() - toldMs < TOLD_EVERY_MS) return;
      toldMs = performance.now();
      tell({ kind: 'step', livedMs, events, number });
    };
    live(plan, onLine, onStep).then((ended) => {
      const found = [...touched, ...ended.found];
      tell({ kind: 'ended', ended: { ...ended, found }, last: last.slice(-LAST_LINES) });
    }, fall);
  });
}
