/**
 * One timer for the next thing to do, for every object that knows when it has to act next.
 */
import type { Clock, Timer } from '../system/clock.js';

/** Rings once at the moment it was last set to. All moments are on the boot's clock. */
export class Alarm {
  readonly #clock: Pick<Clock, 'bootMs' | 'after'>;
  readonly #ring: () => void;
  #timer: Timer | null = null;
  #whenMs = Number.POSITIVE_INFINITY;
  #isEnded = false;

  /** `ring` may set the alarm again. It may come 1 ms early. */
  constructor(clock: Pick<Clock, 'bootMs' | 'after'>, ring: () => void) {
    this.#clock = clock;
    this.#ring = ring;
  }

  /** False while it rings. */
  get isSet(): boolean {
    return this.#timer !== null;
  }

  /** Rings at `whenMs` and not at the moment set before. A moment in the past is in 1 ms; Infinity is never. */
  at(whenMs: number): void {
    if (this.#isEnded || whenMs === this.#whenMs) return;
    this.off();
    if (whenMs === Number.POSITIVE_INFINITY) return;
    this.#whenMs = whenMs;
    // Never 0: a loop whose timer fires 1 ms early would spin.
    const inMs = Math.max(1, whenMs - this.#clock.bootMs());
    this.#timer = this.#clock.after(inMs, () => {
      this.off();
      this.#ring();
    });
  }

  /** Rings in `ms` and not at the moment set before. To keep an earlier moment, ask isSet first. */
  in(ms: number): void {
    this.at(this.#clock.bootMs() + ms);
  }

  /** Does not ring until it is set again. */
  off(): void {
    this.#timer?.stop();
    this.#timer = null;
    this.#whenMs = Number.POSITIVE_INFINITY;
  }

  /** Never rings again, even if it is set. */
  end(): void {
    this.#isEnded = true;
    this.off();
  }
}
