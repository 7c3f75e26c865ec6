/**
 * Two clocks and one sleep. Intervals are measured on the boot's clock, which runs through suspend and never
 * leaps; the wall is only for what people read.
 */
import { readFileSync } from 'node:fs';
import { uptime } from 'node:os';

export interface Clock {
  /** Milliseconds since 1970, as the device believes; may leap either way at any time. */
  wallMs(): number;
  /** Milliseconds since this boot, suspend included; never goes back. */
  bootMs(): number;
  /** The first eight hex digits of the kernel's boot id: equal if and only if the same boot. */
  readonly boot: string;
  /** Calls back once after `ms`, unless stopped first. Does not keep the process alive. */
  after(ms: number, wake: () => void): Timer;
}

export interface Timer {
  stop(): void;
}

// os.uptime() reads a file; between two looks the process's own clock tells the difference.
const UPTIME_FRESH_MS = 1000;
// The longest time setTimeout takes; a longer wait is woken early and asks again.
const TIMEOUT_MS_MAX = 2 ** 31 - 1;

/** The real clocks of this device. */
export function systemClock(): Clock {
  let anchorMs = Number.NEGATIVE_INFINITY;
  let offsetMs = 0;
  let lastMs = 0;
  return {
    wallMs: () => Date.now(),
    bootMs() {
      const nowMs = performance.now();
      if (nowMs - anchorMs > UPTIME_FRESH_MS) {
        anchorMs = nowMs;
        offsetMs = uptime() * 1000 - nowMs;
      }
      lastMs = Math.max(lastMs, Math.round(nowMs + offsetMs));
      return lastMs;
    },
    boot: readBootId(),
    after(ms, wake) {
      const timer = setTimeout(wake, Math.min(Math.max(0, ms), TIMEOUT_MS_MAX));
      timer.unref();
      return { stop: () => clearTimeout(timer) };
    },
  };
}

function readBootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').slice(0, 8);
  } catch {
    // Without one every start counts as another boot: ages restart, nothing expires early.
    return Math.floor(Math.random() * 2 ** 32)
      .toString(16)
      .padStart(8, '0');
  }
}
