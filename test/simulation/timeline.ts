/**
 * The time of a simulated world: all its timers in one list, and the clocks that its machines read. A machine has its own
 * boot and its own wall clock, which may be wrong. Its timers die with it.
 */
import type { Timer } from '../../src/base/system/clock.js';
import { MovedClock } from '../support/clock.js';

interface Moment {
  readonly atMs: number;
  readonly wake: () => void;
  isOff: boolean;
}

/** All timers, by when they are due. */
export class Timeline {
  /** How many timers have fired. */
  passed = 0;
  #nowMs = 0;
  /** The latest first. Of two at one time the one set last comes first. */
  readonly #moments: Moment[] = [];

  get nowMs(): number {
    return this.#nowMs;
  }

  /** How many timers wait. */
  get waiting(): number {
    return this.#moments.filter(({ isOff }) => !isOff).length;
  }

  at(atMs: number, wake: () => void): Timer {
    const moment = { atMs: Math.max(Math.ceil(atMs), this.#nowMs), wake, isOff: false };
    const later = this.#moments.findLastIndex((other) => other.atMs > moment.atMs);
    this.#moments.splice(later + 1, 0, moment);
    return {
      stop() {
        moment.isOff = true;
      },
    };
  }

  after(ms: number, wake: () => void): Timer {
    return this.at(this.#nowMs + Math.max(0, ms), wake);
  }

  /** Goes on to the next moment, but not beyond `untilMs`. False if there was none up to then. */
  next(untilMs: number): boolean {
    for (;;) {
      const first = this.#moments.at(-1);
      if (first === undefined || first.atMs > untilMs) {
        this.#nowMs = Math.max(this.#nowMs, untilMs);
        return false;
      }
      this.#moments.pop();
      if (first.isOff) continue;
      this.#nowMs = first.atMs;
      first.isOff = true;
      this.passed++;
      first.wake();
      return true;
    }
  }
}

/** The clocks of one machine in one boot. */
export class MachineClock extends MovedClock {
  override readonly boot: string;
  readonly #timeline: Timeline;
  readonly #bornMs: number;
  #wallAheadMs: number;
  #isDead = false;
  /** Timers that came due while nothing of this machine ran. */
  readonly #missed = new Set<() => void>();
  /** Timers that are set. */
  waiting = 0;
  /** Nothing of this machine runs before then. */
  #asleepUntilMs = 0;
  /** When the present suspend began; null: it is awake. */
  #asleepFromMs: number | null = null;
  /** All suspends before. */
  #asleepMs = 0;

  /** `boot`: its number. `upMs`: how long it has been up. `wallMs`: what its wall shows now. */
  constructor(timeline: Timeline, { boot, upMs, wallMs }: { boot: number; upMs: number; wallMs: number }) {
    super();
    this.boot = boot.toString(16).padStart(8, '0');
    this.#timeline = timeline;
    this.#bornMs = timeline.nowMs - upMs;
    this.#wallAheadMs = wallMs - timeline.nowMs;
  }

  override wallMs(): number {
    return this.#timeline.nowMs + this.#wallAheadMs;
  }

  override bootMs(): number {
    return this.#timeline.nowMs - this.#bornMs;
  }

  override awakeMs(): number {
    return (this.#asleepFromMs ?? this.#timeline.nowMs) - this.#bornMs - this.#asleepMs;
  }

  override after(ms: number, wake: () => void): Timer {
    const ring = () => {
      if (this.#isDead) return;
      if (this.isAsleep) this.#missed.add(ring);
      else {
        over();
        wake();
      }
    };
    let isOver = false;
    const over = () => {
      if (!isOver) this.waiting--;
      isOver = true;
    };
    this.waiting++;
    const timer = this.#timeline.after(ms, ring);
    return {
      stop: () => {
        over();
        timer.stop();
        this.#missed.delete(ring);
      },
    };
  }

  /** Moves the wall clock alone, as NTP or a dead battery does. */
  leap(ms: number): void {
    this.#wallAheadMs += ms;
  }

  /** Nothing of this machine runs for this long; its time goes on. */
  suspend(ms: number): void {
    this.#asleepFromMs ??= this.#timeline.nowMs;
    this.#asleepUntilMs = Math.max(this.#asleepUntilMs, Math.ceil(this.#timeline.nowMs + ms));
    this.#timeline.at(this.#asleepUntilMs, () => this.#rouse());
  }

  /** Ends a suspend. */
  wake(): void {
    this.#asleepUntilMs = 0;
    this.#rouse();
  }

  /** What came due while the machine slept rings now. */
  #rouse(): void {
    if (this.isAsleep) return;
    this.#asleepMs += this.#timeline.nowMs - (this.#asleepFromMs ?? this.#timeline.nowMs);
    this.#asleepFromMs = null;
    for (const ring of this.#missed) {
      this.#missed.delete(ring);
      ring();
    }
  }

  get isAsleep(): boolean {
    return this.#timeline.nowMs < this.#asleepUntilMs;
  }

  /** Continues the suspend of the process before in the same boot. */
  inherit(before: MachineClock): void {
    if (before.isAsleep) this.suspend(before.#asleepUntilMs - this.#timeline.nowMs);
  }

  /** No timer of this machine rings any more. */
  die(): void {
    this.#isDead = true;
  }
}
