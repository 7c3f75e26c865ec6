/**
 * Runs many worlds, as many at a time as there are processes. The result does not depend on which process ran which world.
 */
import { createHash } from 'node:crypto';
import { Hand, type Lived } from './crew.js';
import type { Plan } from './plan.js';
import type { Count } from './progress.js';

/** One world to be lived. */
export interface Task {
  /** For the reader, and for the command that replays it. */
  readonly name: string;
  readonly plan: Plan;
}

/** The result of a run. */
export interface Outcome {
  readonly count: Count;
  /** Of the hashes of all worlds, in the order of the tasks. */
  readonly hash: string;
  /** The first task that failed. */
  readonly failed: { readonly task: Task; readonly lived: Lived } | null;
}

export class Run {
  readonly #tasks: Iterator<Task>;
  readonly #hands: Hand[];
  /** By the order of the tasks. */
  readonly #lived: { readonly task: Task; readonly lived: Lived }[] = [];
  #begun = 0;
  /** The order of the first task that failed; none after it counts. */
  #end = Number.POSITIVE_INFINITY;
  #isOver = false;
  /** The order of the task of each process. */
  readonly #under = new Map<Hand, number>();

  constructor(tasks: Iterable<Task>, processes: number) {
    this.#tasks = tasks[Symbol.iterator]();
    this.#hands = Array.from({ length: processes }, () => new Hand());
  }

  /** The work so far, worlds in progress included. */
  get count(): Count {
    const count = { ...this.#sum() };
    for (const { livedMs, events } of this.#hands) {
      count.livedMs += livedMs;
      count.events += events;
    }
    return count;
  }

  /** Ends the run and aborts the worlds in progress. */
  stop(): void {
    this.#isOver = true;
    for (const hand of this.#hands) hand.close();
  }

  /** Resolves once all tasks are done, the first failure is certain, or the run was ended. */
  async done(): Promise<Outcome> {
    await Promise.all(this.#hands.map((hand) => this.#work(hand)));
    for (const hand of this.#hands) hand.close();
    const hash = createHash('sha256');
    for (const [order, each] of this.#lived.entries())
      if (each !== undefined && order <= this.#end) hash.update(each.lived.hash);
    return {
      count: this.#sum(),
      hash: hash.digest('hex').slice(0, 16),
      failed: this.#lived[this.#end] ?? null,
    };
  }

  async #work(hand: Hand): Promise<void> {
    // Tasks before a failed one run to their end: one of them may be the first that fails.
    while (!this.#isOver && this.#begun <= this.#end) {
      const order = this.#begun;
      const { value: task, done } = this.#tasks.next();
      if (done === true) return;
      this.#begun++;
      this.#under.set(hand, order);
      const lived = await hand.live(task.plan);
      if (lived === null) return;
      this.#lived[order] = { task, lived };
      if (lived.found.length > 0 && order < this.#end) this.#fail(order);
    }
  }

  /** Aborts the worlds after that task. */
  #fail(order: number): void {
    this.#end = order;
    for (const [hand, other] of this.#under) if (other > order) hand.close();
  }

  #sum(): { worlds: number; livedMs: number; events: number } {
    const sum = { worlds: 0, livedMs: 0, events: 0 };
    for (const [order, each] of this.#lived.entries()) {
      if (each === undefined || order > this.#end) continue;
      sum.worlds++;
      sum.livedMs += each.lived.livedMs;
      sum.events += each.lived.events;
    }
    return sum;
  }
}
