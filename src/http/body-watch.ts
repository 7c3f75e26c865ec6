/**
 * Ends requests whose body has stopped coming. connections.ts has one for all bodies that are on their way.
 */
import type { IncomingMessage } from 'node:http';
import type { FieldpostError } from '../errors.js';
import { REQUEST_IDLE_MS } from '../limits.js';
import { Alarm } from '../retry/alarm.js';
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
  // One for all, and only while a body is on its way: a timer for each body would cost more than the rest.
  readonly #alarm: Alarm;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#alarm = new Alarm(clock, () => this.#look());
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
    if (!this.#alarm.isSet) this.#alarm.in(REQUEST_IDLE_MS);
    return receiving;
  }

  end(receiving: Receiving): void {
    this.#all.delete(receiving);
  }

  /** Ends those that are over time, and sets the alarm for the next that may be. */
  #look(): void {
    const nowMs = this.#clock.bootMs();
    let nextMs = Number.POSITIVE_INFINITY;
    for (const receiving of this.#all) {
      if (receiving.isOurTurn) receiving.cameMs = nowMs;
      const idleMs = receiving.cameMs + REQUEST_IDLE_MS;
      if (idleMs <= nowMs) receiving.fail(idleBody());
      else nextMs = Math.min(nextMs, idleMs);
    }
    this.#alarm.at(nextMs);
  }
}
