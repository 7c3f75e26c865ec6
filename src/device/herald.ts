/**
 * Tells the service manager that the daemon runs, reloads or stops, that its event loop is alive, and its status line when
 * it has changed.
 */
import { STATUS_EVERY_MS } from '../base/limits.js';
import { Alarm } from '../base/retry/alarm.js';
import type { Clock } from '../base/system/clock.js';
import type { Notifier } from '../base/system/notify.js';

/** Sends notifications from ready() until stop(). */
export class Herald {
  readonly #notifier: Notifier;
  readonly #watchdogMs: number;
  #words: () => string = () => '';
  #told = '';
  readonly #status: Alarm;
  readonly #watchdog: Alarm;

  /** `watchdogMs`: the interval of keep-alives; null: none. */
  constructor(options: { notifier: Notifier; clock: Clock; watchdogMs: number | null }) {
    this.#notifier = options.notifier;
    this.#watchdogMs = options.watchdogMs ?? Number.POSITIVE_INFINITY;
    this.#status = new Alarm(options.clock, () => void this.#tellStatus());
    this.#watchdog = new Alarm(options.clock, () => void this.#tellWatchdog());
  }

  /** The daemon runs; `words` gives its status line. */
  async ready(words: () => string): Promise<void> {
    this.#words = words;
    await this.#again();
    this.#status.in(STATUS_EVERY_MS);
    this.#watchdog.in(this.#watchdogMs);
  }

  /** Does a reload between its two notifications. */
  async reloading(reload: () => Promise<void>): Promise<void> {
    await this.#notifier.reloading();
    await reload();
    await this.#again();
  }

  /** The daemon is about to stop. Keep-alives continue. */
  async stopping(): Promise<void> {
    this.#status.end();
    await this.#notifier.stopping();
  }

  stop(): void {
    this.#status.end();
    this.#watchdog.end();
  }

  async #again(): Promise<void> {
    this.#told = this.#words();
    await this.#notifier.ready(this.#told);
  }

  // Each alarm is set only after its notification, so that notifications do not queue up for a slow manager.
  async #tellStatus(): Promise<void> {
    const words = this.#words();
    if (words !== this.#told) {
      this.#told = words;
      await this.#notifier.status(words);
    }
    this.#status.in(STATUS_EVERY_MS);
  }

  async #tellWatchdog(): Promise<void> {
    await this.#notifier.watchdog();
    this.#watchdog.in(this.#watchdogMs);
  }
}

/**
 * The interval of keep-alives from the process `pid`: half of systemd's timeout (sd_watchdog_enabled(3)). Null if systemd
 * wants none, or wants them from another process.
 */
export function watchdogMsOf(env: Readonly<Record<string, string | undefined>>, pid: number): number | null {
  const timeoutUs = Number(env.WATCHDOG_USEC);
  if (!Number.isFinite(timeoutUs) || timeoutUs <= 0) return null;
  if (env.WATCHDOG_PID !== undefined && env.WATCHDOG_PID !== String(pid)) return null;
  return timeoutUs / 2000;
}
