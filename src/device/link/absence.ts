/**
 * For how long the cloud has answered 404 although it had a document. A gateway also answers 404 for a moment, while the
 * cloud is deployed.
 */
import { SYNC_ABSENT_MS } from '../../base/limits.js';
import type { Clock } from '../../base/system/clock.js';

/** Adds up the time between these answers. The time in which the link may have been down does not count. */
export class Absence {
  readonly #clock: Pick<Clock, 'bootMs'>;
  #lastedMs = 0;
  /** When the last 404 came; null: none since the link came back. */
  #atMs: number | null = null;

  constructor(clock: Pick<Clock, 'bootMs'>) {
    this.#clock = clock;
  }

  /** Another 404 came. `isBelieved`: the cloud has answered 404 for long enough. `isNews`: for the first time. */
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

  /** The cloud has a document. */
  end(): void {
    this.#lastedMs = 0;
    this.#atMs = null;
  }
}
