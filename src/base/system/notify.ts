/**
 * Notifies the service manager (sd_notify(3)): ready, reloading, stopping, signs of life, and a status line when it has
 * changed.
 *
 * Each notification is a child process. The package systemd-notify sends `ready` and the status; the same program sends
 * the rest. This file adds what the package lacks: notifications keep their order, one that hangs is given up, words
 * cannot become commands, and nothing rejects.
 */
import { execFile } from 'node:child_process';
import notify from 'systemd-notify';
import { wordsOf } from '../errors.js';
import { SECOND_MS } from '../limits.js';
import { Alarm } from '../retry/alarm.js';
import { oneLine } from '../text.js';
import { Turns } from '../turns.js';
import type { Clock } from './clock.js';

/** The status line changes at most this often, because each change costs a child process. */
export const STATUS_EVERY_MS = 5 * SECOND_MS;

/** A notification to systemd is given up after this long. systemd-notify itself waits 5 s. */
const NOTIFY_TIMEOUT_MS = 10 * SECOND_MS;
export const STATUS_CHARS_MAX = 500;

/** Notifications, sent in order. Each resolves when it has been sent or has failed; none rejects. */
export interface Notifier {
  /** After a start or a reload. */
  ready(status: string): Promise<void>;
  status(words: string): Promise<void>;
  reloading(): Promise<void>;
  stopping(): Promise<void>;
  /** A sign of life, to be sent more often than the manager's timeout. */
  watchdog(): Promise<void>;
}

/** What a notifier needs of the process. */
interface NotifierOptions {
  /** CLOCK_MONOTONIC, which the manager compares with its own. */
  monotonicUs(): bigint;
  /** A notification failed, or may have failed. */
  onFailure(reason: string): void;
  /** How long a notification may take; tests shorten it. */
  readonly timeoutMs?: number;
}

const PROGRAM = 'systemd-notify';

/** Sends to the NOTIFY_SOCKET of the environment. */
export function systemNotifier(options: NotifierOptions): Notifier {
  const { monotonicUs, onFailure, timeoutMs = NOTIFY_TIMEOUT_MS } = options;
  // The second of two simultaneous children may finish first: READY=1 of a reload would come before its RELOADING=1.
  const turns = new Turns();
  const inTurn = (tell: () => Promise<unknown>): Promise<void> =>
    turns.do(() => within(timeoutMs, tell())).catch((error) => onFailure(reasonOf(error)));
  const send = (...assignments: string[]) => inTurn(() => run(assignments, timeoutMs));
  return {
    ready: (status) => inTurn(() => notify({ ready: true, status: lineOf(status) })),
    status: (words) => inTurn(() => notify({ status: lineOf(words) })),
    reloading: () => send('RELOADING=1', `MONOTONIC_USEC=${monotonicUs()}`),
    stopping: () => send('STOPPING=1'),
    watchdog: () => send('WATCHDOG=1'),
  };
}

/** A line break would begin another assignment (`MAINPID=1`). An argument holds no NUL, and is limited in length. */
function lineOf(words: string): string {
  return oneLine(words, STATUS_CHARS_MAX);
}

function run(assignments: readonly string[], timeout: number): Promise<void> {
  return new Promise((resolve, reject) => {
    execFile(PROGRAM, assignments, { timeout, killSignal: 'SIGKILL' }, (error, _stdout, stderr) => {
      if (error === null) resolve();
      else reject(stderr.trim() === '' ? error : stderr.trim());
    });
  });
}

/** Gives up after `ms`. The package hides its child process, so one that hangs goes on. */
async function within(ms: number, telling: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${PROGRAM} does not end`)), ms);
    timer.unref();
  });
  try {
    await Promise.race([telling, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** The package rejects with the program's output, which may be empty. */
function reasonOf(error: unknown): string {
  const words = wordsOf(error).trim();
  return words === '' ? `${PROGRAM} failed` : words;
}

/** Gives the status line. It never rejects. */
type Words = () => string | Promise<string>;

/** Sends notifications from ready() until stop(). */
export class StateNotifier {
  readonly #notifier: Notifier;
  readonly #watchdogMs: number;
  #words: Words = () => '';
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
  async ready(words: Words): Promise<void> {
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
    this.#told = await this.#words();
    await this.#notifier.ready(this.#told);
  }

  // Each alarm is set only after its notification, so that notifications do not queue up for a slow manager.
  async #tellStatus(): Promise<void> {
    const words = await this.#words();
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
