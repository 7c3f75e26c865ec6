/**
 * A clock that stands still until a test moves it. Timers fire in the order of their times, and between two of
 * them everything that can go on without time does.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { hasLeapt, isPlausible, startMsOf, type Trust } from '../../src/base/stamp.js';
import type { Clock, Timer } from '../../src/base/system/clock.js';

/** A boot id that no other boot of a test has unless it says so. */
const BOOT = 'b0070001';
/** 2026-11-20T09:00:00Z. */
const WALL_MS = Date.UTC(2026, 10, 20, 9);
/** How long after the boot our program starts. */
const BOOT_MS = 60_000;
const TURNS_QUIET = 4;

interface Waiting {
  readonly atMs: number;
  readonly wake: () => void;
  readonly isCounted: boolean;
}

/** A clock that tests move: how far its wall clock is trusted. */
export abstract class MovedClock implements Clock {
  abstract readonly boot: string;
  /** When the boot began, by the wall, as it was confirmed and as it was doubted last. */
  #confirmedMs: number | null = null;
  #doubtedMs: number | null = null;

  abstract wallMs(): number;
  abstract bootMs(): number;
  abstract awakeMs(): number;
  abstract after(ms: number, wake: () => void): Timer;

  trust(): Trust {
    const startMs = startMsOf(this);
    if (this.#confirmedMs !== null && !hasLeapt(this.#confirmedMs, startMs)) return 'confirmed';
    const isDoubted = this.#doubtedMs !== null && !hasLeapt(this.#doubtedMs, startMs);
    return isPlausible(this.wallMs()) && !isDoubted ? 'plausible' : 'wrong';
  }

  confirm(): void {
    this.#confirmedMs = startMsOf(this);
    this.#doubtedMs = null;
  }

  doubt(): void {
    this.#confirmedMs = null;
    this.#doubtedMs = startMsOf(this);
  }
}

export class FakeClock extends MovedClock {
  override readonly boot: string;
  /** Timers that fired: counts what an idle daemon does. */
  fired = 0;
  #bootMs: number;
  #wallMs: number;
  /** All suspends together. */
  #asleepMs = 0;
  // In the order they were set: of two for the same moment the first goes first.
  readonly #waiting = new Set<Waiting>();

  constructor({ boot = BOOT, bootMs = BOOT_MS, wallMs = WALL_MS } = {}) {
    super();
    this.boot = boot;
    this.#bootMs = bootMs;
    this.#wallMs = wallMs;
  }

  override wallMs(): number {
    return this.#wallMs;
  }

  override bootMs(): number {
    return this.#bootMs;
  }

  override awakeMs(): number {
    return this.#bootMs - this.#asleepMs;
  }

  override after(ms: number, wake: () => void): Timer {
    return this.#set(ms, wake, true);
  }

  /** This clock, for a room that the test is not about: its timers are neither `pending` nor `fired`. */
  get uncounted(): Clock {
    return {
      boot: this.boot,
      wallMs: () => this.wallMs(),
      bootMs: () => this.bootMs(),
      awakeMs: () => this.awakeMs(),
      after: (ms, wake) => this.#set(ms, wake, false),
      trust: () => this.trust(),
      confirm: () => this.confirm(),
      doubt: () => this.doubt(),
    };
  }

  /** Timers set and neither fired nor stopped. */
  get pending(): number {
    return [...this.#waiting].filter(({ isCounted }) => isCounted).length;
  }

  /** How long until the next timer fires; null if none is set. */
  get nextInMs(): number | null {
    const next = this.#next();
    return next === null ? null : next.atMs - this.#bootMs;
  }

  /** Lets time pass. Resolves when all due timers have fired and promises have settled. */
  async advance(ms: number): Promise<void> {
    const untilMs = this.#bootMs + ms;
    await settled();
    for (let next = this.#next(); next !== null && next.atMs <= untilMs; next = this.#next()) {
      this.#moveTo(next.atMs);
      this.#waiting.delete(next);
      if (next.isCounted) this.fired++;
      next.wake();
      await settled();
    }
    this.#moveTo(untilMs);
  }

  /** Moves the wall clock alone, as ntp or a dead battery does. */
  leap(ms: number): void {
    this.#wallMs += ms;
  }

  /** Lets time pass while nothing runs. Timers that come due meanwhile fire at the next advance. */
  suspend(ms: number): void {
    this.#asleepMs += ms;
    this.#moveTo(this.#bootMs + ms);
  }

  /** Lets time pass while this process alone stands still. Its timers fire late, as above. */
  stall(ms: number): void {
    this.#moveTo(this.#bootMs + ms);
  }

  /** The clock of the next boot, after `offMs` without power; its wall has run on, unless it shows `wallMs`. */
  reboot({ offMs = 0, wallMs = this.#wallMs + offMs }: { offMs?: number; wallMs?: number } = {}): FakeClock {
    const boot = (Number.parseInt(this.boot, 16) + 1).toString(16);
    return new FakeClock({ boot, bootMs: BOOT_MS, wallMs: wallMs + BOOT_MS });
  }

  #set(ms: number, wake: () => void, isCounted: boolean): Timer {
    const timer = { atMs: this.#bootMs + Math.max(0, ms), wake, isCounted };
    this.#waiting.add(timer);
    return { stop: () => this.#waiting.delete(timer) };
  }

  #next(): Waiting | null {
    let next: Waiting | null = null;
    for (const timer of this.#waiting) if (next === null || timer.atMs < next.atMs) next = timer;
    return next;
  }

  #moveTo(bootMs: number): void {
    // A timer set for the past goes off now; time never runs backwards.
    const stepMs = Math.max(0, bootMs - this.#bootMs);
    this.#bootMs += stepMs;
    this.#wallMs += stepMs;
  }
}

/** This clock, but pauses of 1 ms pass by themselves, once what is on its way in this process has arrived. */
export function withoutPauses(clock: FakeClock): Clock {
  return {
    ...clock.uncounted,
    after(ms, wake) {
      if (ms > 1) return clock.after(ms, wake);
      let isStopped = false;
      void settled().then(() => {
        if (!isStopped) wake();
      });
      return {
        stop() {
          isStopped = true;
        },
      };
    },
  };
}

/**
 * Resolves once all promises that depend on nothing but each other, and callbacks already queued, are done. What
 * waits for a socket or a file must be awaited by its own event.
 */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < TURNS_QUIET; turn++) await nextTurn();
}
