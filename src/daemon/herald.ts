/**
 * Tells the service manager how the daemon is doing: that it runs, reloads and stops; that its event loop turns;
 * and what is to be seen in `systemctl status`, when that has changed. Made by main.ts.
 */
import { STATUS_EVERY_MS } from '../limits.js';
import type { Clock, Timer } from '../system/clock.js';
import type { Notifier } from '../system/notify.js';

type Topic = 'status' | 'watchdog';

/** Speaks from ready() on, until stop(). */
export class Herald {
  readonly #notifier: Notifier;
  readonly #clock: Clock;
  readonly #watchdogMs: number | null;
  #words: () => string = () => '';
  #told = '';
  readonly #timers = new Map<Topic, Timer>();
  readonly #silent = new Set<Topic>();

  /** `watchdogMs`: how often the manager wants a sign of life; null: never. */
  constructor(options: { notifier: Notifier; clock: Clock; watchdogMs: number | null }) {
    this.#notifier = options.notifier;
    this.#clock = options.clock;
    this.#watchdogMs = options.watchdogMs;
  }

  /** The daemon runs; `words` says how it does. */
  async ready(words: () => string): Promise<void> {
    this.#words = words;
    await this.#again();
    this.#every('status', STATUS_EVERY_MS, () => this.#tellStatus());
    if (this.#watchdogMs !== null) this.#every('watchdog', this.#watchdogMs, () => this.#notifier.watchdog());
  }

  /** Does a reload between the two notifications that belong around it. */
  async reloading(reload: () => Promise<void>): Promise<void> {
    await this.#notifier.reloading();
    await reload();
    await this.#again();
  }

  /** The daemon is about to stop. Signs of life go on. */
  async stopping(): Promise<void> {
    this.#hush('status');
    await this.#notifier.stopping();
  }

  stop(): void {
    this.#hush('status');
    this.#hush('watchdog');
  }

  async #again(): Promise<void> {
    this.#told = this.#words();
    await this.#notifier.ready(this.#told);
  }

  async #tellStatus(): Promise<void> {
    const words = this.#words();
    if (words === this.#told) return;
    this.#told = words;
    await this.#notifier.status(words);
  }

  /** Does it each time so long after it was last done: a slow manager gets no pile of notifications. */
  #every(topic: Topic, ms: number, act: () => Promise<void>): void {
    if (this.#silent.has(topic)) return;
    const wake = () => void act().then(() => this.#every(topic, ms, act));
    this.#timers.set(topic, this.#clock.after(ms, wake));
  }

  #hush(topic: Topic): void {
    this.#silent.add(topic);
    this.#timers.get(topic)?.stop();
  }
}

/**
 * How often systemd wants a sign of life from the process `pid`: twice within its patience (sd_watchdog_enabled(3)).
 * Null if it wants none, or from another process.
 */
export function watchdogMsOf(env: Readonly<Record<string, string | undefined>>, pid: number): number | null {
  const patienceUs = Number(env.WATCHDOG_USEC);
  if (!Number.isFinite(patienceUs) || patienceUs <= 0) return null;
  if (env.WATCHDOG_PID !== undefined && env.WATCHDOG_PID !== String(pid)) return null;
  return patienceUs / 2000;
}
