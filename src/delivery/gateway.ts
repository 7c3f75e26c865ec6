/**
 * The second way out: what is no email goes to the cloud. Each type has a carrier of its own, so that a call does not
 * wait behind 300 SMS, nor for a provider of SMS that is down. daemon.ts and the reference cloud build it.
 */
import { Carrier, type GatewayOptions } from './carrier.js';

/** Sends what goes through the cloud, one message of each type at a time; idle until started. */
export class Gateway {
  readonly #carriers: readonly Carrier[];

  constructor(options: GatewayOptions) {
    // Calls first: they are the most urgent.
    this.#carriers = ([3, 4, 2] as const).map((type) => new Carrier(type, options));
  }

  /** Why messages wait although the link is online; null if none does. */
  get reason(): string | null {
    return this.#carriers.map(({ reason }) => reason).find((reason) => reason !== null) ?? null;
  }

  start(): void {
    for (const carrier of this.#carriers) carrier.start();
  }

  /** Something may be there to send, or to be left alone: after an accept, retry, flush, hold or release. */
  nudge(): void {
    for (const carrier of this.#carriers) carrier.nudge();
  }

  /** The store has deferred it. */
  deferred(id: string): void {
    for (const carrier of this.#carriers) carrier.deferred(id);
  }

  /** There is room again for what becomes of messages. */
  relieved(): void {
    for (const carrier of this.#carriers) carrier.relieved();
  }

  /** The link is online (again), or it is wanted now: the back-off is over, unless the cloud asked for it. */
  wake(): void {
    for (const carrier of this.#carriers) carrier.wake();
  }

  /** Finishes what is being sent, for at most STOP_SENDING_MS. */
  async stop(): Promise<void> {
    await Promise.all(this.#carriers.map((carrier) => carrier.stop()));
  }
}
