/**
 * The clocks of the device and its timers. Intervals are measured on the boot's clock, which runs through suspend and never
 * leaps. The wall clock is only for what people read.
 */
import { readFileSync, statSync } from 'node:fs';
import { uptime } from 'node:os';
import { MINUTE_MS, SECOND_MS } from '../limits.js';
import { hasLeapt, isPlausible, startMsOf, type Trust } from '../stamp.js';
import { randomBytes } from './random.js';

/** The clocks of this device. */
export interface Clock {
  /** Milliseconds since 1970, as the device believes; may leap either way at any time. */
  wallMs(): number;
  /** Milliseconds since this boot, suspend included; never goes back. */
  bootMs(): number;
  /** Milliseconds since some moment of this run, suspend not included: how long the other programs could run, too. */
  awakeMs(): number;
  /** The first eight hex digits of the kernel's boot id. */
  readonly boot: string;
  trust(): Trust;
  /** A trusted source says that the wall clock is right now. That holds until it leaps. */
  confirm(): void;
  /** Call it when a trusted source says that the wall clock is wrong. That holds until it leaps, or is confirmed. */
  doubt(): void;
  /**
   * Calls back once, unless stopped first, when `ms` have passed on the boot's clock. After a suspend it may be a
   * minute late. It does not keep the process alive.
   */
  after(ms: number, wake: () => void): Timer;
}

/** One call to come. */
export interface Timer {
  stop(): void;
}

// The uptime is read from a file; between two looks the process's own clock tells the difference.
const LOOK_MS = SECOND_MS;
// If the wall clock and the process's clock differ by this much more, there was a suspend or a leap.
const MOVED_MS = 100;
// Timers run on the process's clock, so after a suspend they are late by at most this.
const SLEEP_MS_MAX = MINUTE_MS;

/** Where the clocks come from. */
export interface ClockSource {
  /** Seconds since boot, suspends included. */
  uptimeS(): number;
  /** A finer clock that misses suspends. */
  processMs(): number;
  wallMs(): number;
  /** When a time server last set the clock, on the wall as it was then; null if none has in this boot. */
  synchronizedMs(): number | null;
  /** The kernel's boot id; null if it is hidden. */
  bootId(): string | null;
}

const SYSTEM: ClockSource = {
  uptimeS: uptime,
  processMs: () => performance.now(),
  wallMs: () => Date.now(),
  synchronizedMs() {
    try {
      // systemd-timesyncd touches it each time it has set the clock; /run does not outlive the boot.
      return statSync('/run/systemd/timesync/synchronized', { throwIfNoEntry: false })?.mtimeMs ?? null;
    } catch {
      return null;
    }
  },
  bootId() {
    try {
      return readFileSync('/proc/sys/kernel/random/boot_id', 'latin1');
    } catch {
      return null;
    }
  },
};

/** The real clocks of this device. `source` replaces parts of them. */
export function systemClock(source: Partial<ClockSource> = {}): Clock {
  return new SystemClock({ ...SYSTEM, ...source });
}

/** Resolves after `ms` of the process's clock, and keeps the process alive meanwhile. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, ms));
}

class SystemClock implements Clock {
  readonly boot: string;
  readonly #source: ClockSource;
  /** The uptime from which this boot counts. */
  readonly #bornMs: number;
  /** The process's clock at the last look at the uptime, and how far wall and boot clock were ahead of it. */
  #lookedMs = Number.NEGATIVE_INFINITY;
  #wallAheadMs = 0;
  #bootAheadMs = Number.NEGATIVE_INFINITY;
  /** When the boot began, by the wall, at its last confirmation; null before the first. */
  #confirmedMs: number | null = null;
  /** The same at the last doubt(); null without one. */
  #doubtedMs: number | null = null;
  /** Boot times: when the wall clock last agreed with its confirmation, and when the time server's file was last checked. */
  #heldMs = 0;
  #askedMs = Number.NEGATIVE_INFINITY;

  constructor(source: ClockSource) {
    this.#source = source;
    const id = source.bootId();
    this.boot = (id ?? randomBytes(4).toString('hex')).slice(0, 8);
    // Without an id every start counts as another boot, which begins now: ages restart, nothing expires early.
    this.#bornMs = id === null ? source.uptimeS() * SECOND_MS : 0;
  }

  wallMs(): number {
    return this.#source.wallMs();
  }

  bootMs(): number {
    let processMs = this.#source.processMs();
    const aheadMs = this.#source.wallMs() - processMs;
    if (processMs - this.#lookedMs >= LOOK_MS || Math.abs(aheadMs - this.#wallAheadMs) > MOVED_MS) {
      // Only a suspend moves the difference, and only up. If /proc is hidden, the uptime is in whole seconds: the
      // difference is too low, never too high. So the highest seen is the best, and time never goes back.
      const uptimeMs = this.#source.uptimeS() * SECOND_MS - this.#bornMs;
      processMs = this.#source.processMs();
      this.#lookedMs = processMs;
      this.#wallAheadMs = this.#source.wallMs() - this.#lookedMs;
      this.#bootAheadMs = Math.max(this.#bootAheadMs, uptimeMs - this.#lookedMs);
    }
    return Math.round(processMs + this.#bootAheadMs);
  }

  awakeMs(): number {
    return Math.round(this.#source.processMs());
  }

  trust(): Trust {
    const bootMs = this.bootMs();
    const startMs = startMsOf(this);
    if (!this.#isConfirmed(startMs) && this.#isSynchronized(startMs, bootMs)) this.#confirmedMs = startMs;
    if (this.#isConfirmed(startMs)) {
      this.#heldMs = bootMs;
      return 'confirmed';
    }
    const isDoubted = this.#doubtedMs !== null && !hasLeapt(this.#doubtedMs, startMs);
    return isPlausible(this.wallMs()) && !isDoubted ? 'plausible' : 'wrong';
  }

  confirm(): void {
    this.#confirmedMs = startMsOf(this);
    this.#doubtedMs = null;
  }

  doubt(): void {
    const startMs = startMsOf(this);
    const heardMs = (this.#source.synchronizedMs() ?? Number.NaN) - startMs;
    // A time server has set the clock since the wall last leapt, and is trusted more.
    if (heardMs >= -LOOK_MS && heardMs <= this.bootMs() + LOOK_MS) return;
    this.#confirmedMs = null;
    this.#doubtedMs = startMs;
  }

  after(ms: number, wake: () => void): Timer {
    const dueMs = this.bootMs() + ms;
    let timer: NodeJS.Timeout;
    const sleep = (leftMs: number) => {
      timer = setTimeout(
        () => {
          // A timer may fire 1 ms early, because the clock is rounded.
          const stillMs = dueMs - this.bootMs();
          if (stillMs > 1) sleep(stillMs);
          else wake();
        },
        Math.min(Math.max(0, leftMs), SLEEP_MS_MAX),
      );
      timer.unref();
    };
    sleep(ms);
    return { stop: () => clearTimeout(timer) };
  }

  #isConfirmed(startMs: number): boolean {
    return this.#confirmedMs !== null && !hasLeapt(this.#confirmedMs, startMs);
  }

  /** True if a time server has set the clock since the wall last leapt. */
  #isSynchronized(startMs: number, bootMs: number): boolean {
    if (bootMs - this.#askedMs < LOOK_MS) return false;
    this.#askedMs = bootMs;
    const synchronizedMs = this.#source.synchronizedMs();
    if (synchronizedMs === null) return false;
    // If the wall has leapt since, that moment lies before the last good look, or in the future.
    const heardMs = synchronizedMs - startMs;
    return heardMs >= this.#heldMs - LOOK_MS && heardMs <= bootMs + LOOK_MS;
  }
}
