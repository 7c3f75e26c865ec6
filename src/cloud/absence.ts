/**
 * How long the cloud has said that it has no document although there was one. A gateway that is being deployed says so
 * as well, for a moment. Used by sync.ts.
 */
import { SYNC_ABSENT_MS } from '../limits.js';
import type { Clock } from '../system/clock.js';

/** Counts the time between such answers, but for that in which the link may have been down. */
export class Absence {
  readonly #clock: Pick<Clock, 'bootMs'>;
  #lastedMs = 0;
  /** When it was said last; null: not since the link has come. */
  #atMs: number | null = null;

  constructor(clock: Pick<Clock, 'bootMs'>) {
    this.#clock = clock;
  }

  /** It is said again. `isBelieved`: for long enough. `isNews`: it was not believed before. */
  said(): { readonly isBelieved: boolean; readonly isNews: boolean } {
    const nowMs = this.#clock.bootMs();
    const wasBelieved = this.#lastedMs >= SYNC_ABSENT_MS;
    this.#lastedMs += nowMs - (this.#atMs ?? nowMs);
    this.#atMs = nowMs;
    const isBelieved = this.#lastedMs >= SYNC_ABSENT_MS;
    return { isBelieved, isNews: isBelieved && !wasBelieved };
  }

  /** The link may have been down since it was said last. */
  interrupt(): void {
    this.#atMs = null;
  }

  /** There is a document. */
  end(): void {
    this.#lastedMs = 0;
    this.#atMs = null;
  }
}
