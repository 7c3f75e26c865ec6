/**
 * Ends requests whose body has stalled.
 */
import type { IncomingMessage } from 'node:http';
import type { FieldpostError } from '../errors.js';
import { REQUEST_IDLE_MS } from '../limits.js';
import { Alarm } from '../retry/alarm.js';
import type { Clock } from '../system/clock.js';
import { idleBody } from './refusals.js';

/** A body that is being received. */
export interface Receiving {
  readonly req: IncomingMessage;
  readonly fail: (error: FieldpostError) => void;
  /** The caller calls it for each chunk, once it is taken. */
  readonly came: (bytes: number) => void;
  /** Bytes so far. */
  bytes: number;
  /** True while the daemon does not read: then the client is not to blame. */
  isOurTurn: boolean;
  /** When its last chunk arrived, on the boot's clock. */
  cameMs: number;
}

/** Between begin() and end() a byte must arrive every REQUEST_IDLE_MS. */
export class BodyWatch {
  readonly #clock: Clock;
  readonly #all = new Set<Receiving>();
  // One alarm for all bodies: a timer for each would cost more than the rest of the watch.
  readonly #alarm: Alarm;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#alarm = new Alarm(clock, () => this.#look());
  }

  begin(req: IncomingMessage, fail: (error: FieldpostError) => void): Receiving {
    const receiving: Receiving = {
      req,
      fail,
      came: (bytes) => {
        receiving.cameMs = this.#clock.bootMs();
        receiving.bytes += bytes;
      },
      bytes: 0,
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

  #look(): void {
    const nowMs = this.#clock.bootMs();
    let nextMs = Number.POSITIVE_INFINITY;
    for (const receiving of this.#all) {
      if (receiving.isOurTurn) receiving.cameMs = nowMs;
      const idleMs = receiving.cameMs + REQUEST_IDLE_MS;
      if (idleMs <= nowMs) receiving.fail(idleBody(missing(receiving)));
      else nextMs = Math.min(nextMs, idleMs);
    }
    this.#alarm.at(nextMs);
  }
}

/** How many of the announced bytes have not come; 0 if none are announced. */
function missing({ req, bytes }: Receiving): number {
  return Math.max(0, Number(req.headers['content-length'] ?? 0) - bytes);
}
