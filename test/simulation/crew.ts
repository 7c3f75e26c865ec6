/**
 * The processes that live worlds side by side.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { MINUTE_MS } from '../../src/base/limits.js';
import type { Ended } from './live.js';
import type { Plan } from './plan.js';
import type { Job, Word } from './worker.js';

/** A process that reports nothing for this long hangs. */
const HANGS_MS = 5 * MINUTE_MS;

/** The result of a plan. */
export interface Lived extends Ended {
  /** The last lines of the history. */
  readonly last: readonly string[];
}

/** One process, and the world in it. */
export class Hand {
  /** The plan that runs now. */
  livedMs = 0;
  events = 0;
  #child: ChildProcess | null = null;
  #giveUp: () => void = () => undefined;

  /** Runs a plan; null if it is closed meanwhile. A process that ends or hangs counts as a fault of the plan. */
  async live(plan: Plan, isTraced = false): Promise<Lived | null> {
    this.#child ??= fork(process.argv[1] as string, ['worker']);
    const child = this.#child;
    let number = 0;
    let watchdog: NodeJS.Timeout | undefined;
    const lived = await new Promise<Lived | null>((resolve) => {
      this.#giveUp = () => resolve(null);
      const wrong = (words: string) => {
        const { livedMs, events } = this;
        child.kill('SIGKILL');
        resolve({ found: [words], hash: '', livedMs, events, lastStep: number, last: [] });
      };
      const hangs = () => wrong(`nothing more happens after step ${number}`);
      watchdog = setTimeout(hangs, HANGS_MS);
      child.removeAllListeners();
      child.on('exit', (code, signal) => {
        this.#child = null;
        wrong(`the process ends with ${signal ?? code} after step ${number}`);
      });
      child.on('message', (word: Word) => {
        clearTimeout(watchdog);
        if (word.kind === 'ended') return resolve({ ...word.ended, last: word.last });
        watchdog = setTimeout(hangs, HANGS_MS);
        ({ number, livedMs: this.livedMs, events: this.events } = word);
      });
      child.send({ plan, isTraced } satisfies Job);
    });
    clearTimeout(watchdog);
    // A broken world could affect the next one in this process.
    if (lived !== null && lived.found.length > 0) this.close();
    this.livedMs = 0;
    this.events = 0;
    return lived;
  }

  /** Ends the process, and its world. */
  close(): void {
    this.#child?.removeAllListeners();
    this.#child?.kill('SIGKILL');
    this.#child = null;
    this.#giveUp();
  }
}
