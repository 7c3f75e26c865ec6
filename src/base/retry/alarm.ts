/**
 * One timer for the next thing to do, for every object that knows when it has to act next.
 */
import type { Clock, Timer } from '../system/clock.js';

/** Rings once at the moment it was last set to. All moments are on the boot's clock. */
export class Alarm {
  readonly #clock: Pick<Clock, 'bootMs' | 'after'>;
  readonly #ring: () => void;
  #timer: Timer | null = null;
  /** When the timer fires; Infinity: there is none. */
  #timerMs = Number.POSITIVE_INFINITY;
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

  /**
   * Rings at `whenMs` and not at the moment set before. A moment in the past is in 1 ms; Infinity is never. Cheap if the
   * moment moves back: the timer stays, and is set again when it fires.
   */
  at(whenMs: number): void {
    if (this.#isEnded) return;
    if (whenMs === Number.POSITIVE_INFINITY) {
      this.off();
      return;
    }
    this.#whenMs = whenMs;
    if (whenMs >= this.#timerMs) return;
    this.#timer?.stop();
    this.#setTimer();
  }

  #setTimer(): void {
    this.#timerMs = this.#whenMs;
    // Never 0: a loop whose timer fires 1 ms early would spin.
    const inMs = Math.max(1, this.#whenMs - this.#clock.bootMs());
    this.#timer = this.#clock.after(inMs, () => this.#fire());
  }

  #fire(): void {
    if (this.#whenMs - this.#clock.bootMs() > 1) {
      this.#setTimer();
      return;
    }
    this.off();
    this.#ring();
  }

  /** Rings in `ms` and not at the moment set before. To keep an earlier moment, ask isSet first. */
  in(ms: number): void {
    this.at(this.#clock.bootMs() + ms);
  }

  /** Does not ring until it is set again. */
  off(): void {
    this.#timer?.stop();
    this.#timer = null;
    this.#timerMs = Number.POSITIVE_INFINITY;
    this.#whenMs = Number.POSITIVE_INFINITY;
  }

  /** Never rings again, even if it is set. */
  end(): void {
    this.#isEnded = true;
    this.off();
  }
}
