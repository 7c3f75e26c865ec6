/**
 * Ends requests whose body has stopped coming. connections.ts has one for all bodies that are on their way.
 */
import type { IncomingMessage } from 'node:http';
import type { FieldpostError } from '../errors.js';
import { REQUEST_IDLE_MS } from '../limits.js';
import type { Clock } from '../system/clock.js';
import { idleBody } from './refusals.js';

/** A body on its way in. */
export interface Receiving {
  readonly req: IncomingMessage;
  /** Ends its request with an error. */
  readonly fail: (error: FieldpostError) => void;
  /** To be called with each chunk. */
  readonly came: () => void;
  /** True while we do not read: it is not the client who is slow. */
  isOurTurn: boolean;
  /** When its last chunk came, on the boot's clock. */
  cameMs: number;
}

/** From begin() until end() a body must bring a byte every REQUEST_IDLE_MS. */
export class BodyWatch {
  readonly #clock: Clock;
  readonly #all = new Set<Receiving>();
  #isWatching = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** `fail` is told when no more has come for too long. */
  begin(req: IncomingMessage, fail: (error: FieldpostError) => void): Receiving {
    const receiving: Receiving = {
      req,
      fail,
      came: () => {
        receiving.cameMs = this.#clock.bootMs();
      },
      isOurTurn: false,
      cameMs: this.#clock.bootMs(),
    };
    this.#all.add(receiving);
    if (!this.#isWatching) this.#watchFor(REQUEST_IDLE_MS);
    return receiving;
  }

  end(receiving: Receiving): void {
    this.#all.delete(receiving);
  }

  // One timer for all, and only while a body is on its way: one for each body would cost more than the rest.
  #watchFor(ms: number): void {
    this.#isWatching = true;
    this.#clock.after(ms, () => {
      this.#isWatching = false;
      const nowMs = this.#clock.bootMs();
      let nextMs = Number.POSITIVE_INFINITY;
      for (const receiving of this.#all) {
        if (receiving.isOurTurn) receiving.cameMs = nowMs;
        const leftMs = receiving.cameMs + REQUEST_IDLE_MS - nowMs;
        if (leftMs <= 0) receiving.fail(idleBody());
        else nextMs = Math.min(nextMs, leftMs);
      }
      if (nextMs < Number.POSITIVE_INFINITY) this.#watchFor(nextMs);
    });
  }
}
