/**
 * Long polls: requests whose answer waits for an event. Their connections need no place meanwhile, so that other clients
 * are served.
 */
import { POLLS_MAX } from '../limits.js';
import type { Clock } from '../system/clock.js';
import type { Connection } from './connection.js';

/** The long polls of a service. */
export class LongPolls {
  readonly #clock: Clock;
  readonly #freed: () => void;
  readonly #ends = new Set<() => void>();
  #stopped = false;

  /** `freed` is called when a connection leaves its place to others. */
  constructor(clock: Clock, freed: () => void) {
    this.#clock = clock;
    this.#freed = freed;
  }

  /**
   * Resolves with true when `until` does. Its signal tells it to resolve early: after `ms`, when the client ends its side or
   * sends its next request, and at the stop. Resolves with false, at once, if the request cannot wait.
   */
  async wait(
    connection: Connection,
    ms: number,
    until: (signal: AbortSignal) => Promise<void>,
  ): Promise<boolean> {
    const { socket, closing, queue } = connection;
    // A paused socket (queue) would not tell that the client has left.
    const isLast = closing || queue.length > 0 || socket.readableEnded || socket.destroyed;
    if (this.#stopped || isLast || this.#ends.size >= POLLS_MAX) return false;
    const early = new AbortController();
    const end = () => early.abort();
    const deadline = this.#clock.after(ms, end);
    // A client that is killed and one that only ends its side (nc -N) look alike: the second one gets its answer now.
    for (const event of ['end', 'close']) socket.once(event, end);
    connection.endPoll = end;
    const { timeout = 0 } = socket;
    socket.setTimeout(0);
    this.#ends.add(end);
    this.#freed();
    try {
      await until(early.signal);
    } finally {
      this.#ends.delete(end);
      connection.endPoll = null;
      for (const event of ['end', 'close']) socket.off(event, end);
      deadline.stop();
      socket.setTimeout(timeout);
    }
    return true;
  }

  /** Ends all waits, and allows no more. */
  stop(): void {
    this.#stopped = true;
    for (const end of this.#ends) end();
  }
}
