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

// The uptime is read from a file; between two looks the process's own clock tells the difference.
const UPTIME_FRESH_MS = 1000;
// The longest time setTimeout takes; a longer wait is woken early and asks again.
const TIMEOUT_MS_MAX = 2 ** 31 - 1;

/** Where the boot's clock comes from: seconds since boot with suspends, and a finer clock that may miss them. */
interface BootSource {
  uptimeS(): number;
  processMs(): number;
}

const SYSTEM: BootSource = { uptimeS: uptime, processMs: () => performance.now() };

/** The real clocks of this device; `source` is another only in its test. */
export function systemClock(source: BootSource = SYSTEM): Clock {
  let lookedMs = Number.NEGATIVE_INFINITY;
  let offsetMs = Number.NEGATIVE_INFINITY;
  return {
    wallMs: () => Date.now(),
    bootMs() {
      if (source.processMs() - lookedMs >= UPTIME_FRESH_MS) {
        const uptimeMs = source.uptimeS() * 1000;
        lookedMs = source.processMs();
        // Only a suspend moves the offset, and only up; an uptime in coarse steps (whole seconds where /proc is
        // hidden) tells it too low, never too high. So the highest seen is the best, and time never goes back.
        offsetMs = Math.max(offsetMs, uptimeMs - lookedMs);
      }
      return Math.round(source.processMs() + offsetMs);
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
