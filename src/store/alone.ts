/**
 * One piece of work at a time, so that nobody writes while something else is written. Used by journal.ts and ledger.ts.
 */

/** Keeps others waiting while something is under way. */
export class Alone {
  readonly #whenOver: () => void;
  #running: Promise<void> | null = null;

  /** `whenOver` is called after each piece of work; it may begin the next. */
  constructor(whenOver: () => void) {
    this.#whenOver = whenOver;
  }

  /** True while nothing is under way. Then `run` begins at once. */
  get isFree(): boolean {
    return this.#running === null;
  }

  /** Resolves once nothing is under way. Never rejects. */
  async idle(): Promise<void> {
    while (this.#running) await this.#running;
  }

  /** Does `work` when its turn has come. Rejects like that. */
  async run(work: () => Promise<unknown>): Promise<void> {
    while (this.#running) await this.#running;
    const working = work();
    const over = () => {
      this.#running = null;
      this.#whenOver();
    };
    this.#running = working.then(over, over);
    await working;
  }
}
