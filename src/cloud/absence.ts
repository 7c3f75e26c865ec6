/**
 * For how long the cloud has said that it has no document although it had one. A gateway that is being deployed says so
 * too, for a moment. Used by sync.ts.
 */
import { SYNC_ABSENT_MS } from '../limits.js';
import type { Clock } from '../system/clock.js';

/** Adds up the time between such answers, without the time in which the link may have been down. */
export class Absence {
  readonly #clock: Pick<Clock, 'bootMs'>;
  #lastedMs = 0;
  /** When the last such answer came; null: none since the link came back. */
  #atMs: number | null = null;

  constructor(clock: Pick<Clock, 'bootMs'>) {
    this.#clock = clock;
  }

  /** Another such answer. `isBelieved`: they have come for long enough. `isNews`: this is the first one believed. */
  said(): { readonly isBelieved: boolean; readonly isNews: boolean } {
    const nowMs = this.#clock.bootMs();
    const wasBelieved = this.#lastedMs >= SYNC_ABSENT_MS;
    this.#lastedMs += nowMs - (this.#atMs ?? nowMs);
    this.#atMs = nowMs;
    const isBelieved = this.#lastedMs >= SYNC_ABSENT_MS;
    return { isBelieved, isNews: isBelieved && !wasBelieved };
  }

  /** The link may have been down since the last such answer. */
  interrupt(): void {
    this.#atMs = null;
  }

  /** There is a document. */
  end(): void {
    this.#lastedMs = 0;
    this.#atMs = null;
  }
}
