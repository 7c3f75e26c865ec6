/**
 * A queue of work: one piece at a time, in order.
 */

/** Does one piece of work after another, in the order of the calls. */
export class Turns {
  #unfinished = 0;
  #last: Promise<unknown> = Promise.resolve();

  /** True while no work runs or waits. It is true again before the caller of the last `do` goes on. */
  get isFree(): boolean {
    return this.#unfinished === 0;
  }

  /** Runs `work` after all earlier work, never within this call. Settles as `work` does; a failure stops no later work. */
  do<T>(work: () => Promise<T>): Promise<T> {
    this.#unfinished++;
    const done = this.#last.then(work);
    const over = () => {
      this.#unfinished--;
    };
    this.#last = done.then(over, over);
    return done;
  }

  /** Resolves once no work runs or waits. Never rejects. */
  async idle(): Promise<void> {
    while (!this.isFree) await this.#last;
  }
}
