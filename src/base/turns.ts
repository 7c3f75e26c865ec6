/**
 * Work in order: one piece at a time, or several workers on one list.
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

/** Does `act` for each item, for at most so many at a time. Resolves when all are done; rejects with the first rejection. */
export async function inLanes<Item>(
  lanes: number,
  items: Iterable<Item>,
  act: (item: Item) => Promise<void>,
): Promise<void> {
  const rest = items[Symbol.iterator]();
  const lane = async (first: Item) => {
    await act(first);
    for (let next = rest.next(); !next.done; next = rest.next()) await act(next.value);
  };
  const busy: Promise<void>[] = [];
  // Most lists are short: no lane without an item.
  for (let next = rest.next(); !next.done; next = rest.next()) {
    busy.push(lane(next.value));
    if (busy.length === lanes) break;
  }
  await Promise.all(busy);
}
