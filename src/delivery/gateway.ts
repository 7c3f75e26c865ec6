/**
 * The second way out: what is no email goes to the cloud. Each type has a carrier of its own, so that a call does not
 * wait behind 300 SMS, nor for a provider of SMS that is down. daemon.ts and the reference cloud build it.
 */
import { Carrier, type GatewayOptions } from './carrier.js';
import { type AgeingType, Expiry } from './expiry.js';

/** Calls first: they are the most urgent. */
const TYPES = [3, 4, 2] as const;

/** Sends what goes through the cloud, one message of each type at a time; idle until started. */
export class Gateway {
  readonly #options: GatewayOptions;
  readonly #carriers: readonly Carrier[];
  readonly #expiry: Expiry;

  constructor(options: GatewayOptions) {
    this.#options = options;
    this.#expiry = new Expiry({ ...options, reasonOf: (type) => this.#reasonOf(type) });
    this.#carriers = TYPES.map((type) => new Carrier(type, options, this.#expiry));
  }

  /** Why messages wait although the link is online; null if none does. */
  get reason(): string | null {
    return this.#carriers.map(({ reason }) => reason).find((reason) => reason !== null) ?? null;
  }

  start(): void {
    this.#expiry.start();
    for (const carrier of this.#carriers) carrier.start();
  }

  /** Something may be there to send, or to be left alone: after an accept, retry, flush, hold or release. */
  nudge(): void {
    this.#expiry.nudge();
    for (const carrier of this.#carriers) carrier.nudge();
  }

  /** The limits of age are new. */
  reloaded(): void {
    this.#expiry.lookAtAll();
  }

  /** The store has deferred it. */
  deferred(id: string): void {
    const message = this.#options.store.get(id);
    if (message) this.#expiry.expect(message);
    for (const carrier of this.#carriers) carrier.deferred(id);
  }

  /** There is room again for what becomes of messages. */
  relieved(): void {
    this.#expiry.lookAtAll();
    for (const carrier of this.#carriers) carrier.relieved();
  }

  /** The link is online (again), or it is wanted now: the back-off is over, unless the cloud asked for it. */
  wake(): void {
    this.#expiry.nudge();
    for (const carrier of this.#carriers) carrier.wake();
  }

  /** Finishes what is being sent, for at most STOP_SENDING_MS. */
  async stop(): Promise<void> {
    await Promise.all([this.#expiry.stop(), ...this.#carriers.map((carrier) => carrier.stop())]);
  }

  #reasonOf(type: AgeingType): string | null {
    return this.#carriers[TYPES.indexOf(type)]?.trouble ?? null;
  }
}
