/**
 * For how long the cloud has answered 404 although it had a document. A gateway answers so too, for a moment, while it is
 * being deployed. Used by sync.ts.
 */
import { SYNC_ABSENT_MS } from '../limits.js';
import type { Clock } from '../system/clock.js';

/** Adds up the time between these answers, without the time in which the link may have been down. */
export class Absence {
  readonly #clock: Pick<Clock, 'bootMs'>;
  #lastedMs = 0;
  /** When the last of them came; null: none since the link came back. */
  #atMs: number | null = null;

  constructor(clock: Pick<Clock, 'bootMs'>) {
    this.#clock = clock;
  }

  /** Another one came. `isBelieved`: the time is long enough. `isNews`: this is the first one believed. */
  said(): { readonly isBelieved: boolean; readonly isNews: boolean } {
    const nowMs = this.#clock.bootMs();
    const wasBelieved = this.#lastedMs >= SYNC_ABSENT_MS;
    this.#lastedMs += nowMs - (this.#atMs ?? nowMs);
    this.#atMs = nowMs;
    const isBelieved = this.#lastedMs >= SYNC_ABSENT_MS;
    return { isBelieved, isNews: isBelieved && !wasBelieved };
  }

  /** The link may have been down. */
  interrupt(): void {
    this.#atMs = null;
  }

  /** There is a document. */
  end(): void {
    this.#lastedMs = 0;
    this.#atMs = null;
  }
}
