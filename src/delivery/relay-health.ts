/**
 * How one relay is doing, and when it may be tried again. Relay trouble charges no message: it is counted here.
 * The loop tells what it met; the state endpoint shows it.
 */
import type { RelayConfig } from '../config.js';
import { Backoff, type Pauses } from '../retry/backoff.js';
import type { Clock } from '../system/clock.js';
import type { Log } from '../system/log.js';
import type { RelayView } from '../views.js';
import { Refusals } from './refusals.js';

/** What the health of a relay is measured with. */
export interface HealthOptions {
  readonly config: Pauses;
  readonly clock: Clock;
  /** In [0, 1). */
  readonly random: () => number;
  readonly log: Log;
}

/** Whether a relay works, since when, and when it may be tried again. */
export class RelayHealth {
  readonly relay: RelayConfig;
  readonly name: string;
  /** What it took and refused. */
  readonly refusals: Refusals;
  readonly #options: HealthOptions;
  #state: 'unknown' | 'ok' | 'failing' = 'unknown';
  #sinceMs: number;
  #reason: string | null = null;
  readonly #backoff: Backoff;
  #isProbed = false;
  #isReached = false;
  #hasRefused = false;

  constructor(relay: RelayConfig, options: HealthOptions) {
    this.relay = relay;
    this.name = `${relay.host}:${relay.port}`;
    this.refusals = new Refusals(options.clock);
    this.#options = options;
    this.#sinceMs = options.clock.bootMs();
    this.#backoff = new Backoff(options);
  }

  get state(): 'unknown' | 'ok' | 'failing' {
    return this.#state;
  }

  /** Names the relay: there may be several. Null unless it fails, or may turn out to. */
  get reason(): string | null {
    return this.#reason === null ? null : `${this.name}: ${this.#reason}`;
  }

  /** Wall time at which the state began, also after the wall clock was put right. */
  get sinceMs(): number {
    const { clock } = this.#options;
    return clock.wallMs() - (clock.bootMs() - this.#sinceMs);
  }

  /** True if it may be used now. A relay not known to be well is used by one attempt at a time: the probe. */
  isAvailable(): boolean {
    return this.#state === 'ok' || (!this.#isProbed && this.#options.clock.bootMs() >= this.#backoff.readyMs);
  }

  /** When it will be available by itself, on the boot's clock; Infinity while a probe will tell. */
  get nextMs(): number {
    return this.#isProbed ? Number.POSITIVE_INFINITY : this.#backoff.readyMs;
  }

  /** An attempt begins. True if it is a probe, which must then be ended. */
  begin(): boolean {
    this.#backoff.begin();
    if (this.#state === 'ok') return false;
    this.#isProbed = true;
    return true;
  }

  /** True if it has let us in since it last failed. Whether it takes mails the next one shows. */
  get isReached(): boolean {
    return this.#isReached;
  }

  /** It lets us in. */
  reached(): void {
    this.#isReached = true;
  }

  endProbe(): void {
    this.#isProbed = false;
  }

  /** It took a message, or refused one for the message's own sake. */
  good(): void {
    this.#hasRefused = false;
    this.#backoff.good();
    if (this.#state === 'ok') {
      this.#reason = null;
      return;
    }
    const { log, clock } = this.#options;
    const failedMs = this.#state === 'failing' ? clock.bootMs() - this.#sinceMs : undefined;
    this.#become('ok', null);
    log.info('relay ok', { relay: this.name, failedMs });
  }

  /** A mail goes behind the others for its sake. True if that is news: the first time since it was good. */
  refused(): boolean {
    const isNews = !this.#hasRefused;
    this.#hasRefused = true;
    return isNews;
  }

  /** It refused us over one message; whether it does over all the next ones show. The state may last, its reason is told. */
  suspected(reason: string): void {
    if (this.#state !== 'failing') this.#reason = reason;
  }

  /** It is to blame for what went wrong. */
  failed(reason: string): void {
    this.#backoff.failed();
    this.#isReached = false;
    if (this.#state === 'failing') {
      this.#reason = reason;
      return;
    }
    this.#become('failing', reason);
    this.#options.log.warn('relay failing', { relay: this.name, reason });
  }

  /** The network has changed for the better: it may be tried at once. */
  wake(): void {
    this.#backoff.wake();
  }

  #become(state: 'ok' | 'failing', reason: string | null): void {
    this.#state = state;
    this.#sinceMs = this.#options.clock.bootMs();
    this.#reason = reason;
  }
}

/** All relays as one state: that of the best, with the reasons of all that fail. `startedMs` is wall time. */
export function overallState(relays: readonly RelayHealth[], startedMs: number): RelayView {
  const by = (state: RelayView['state']) => relays.find((health) => health.state === state);
  // A relay that nobody needed yet says nothing of how mail fares.
  const best = by('ok') ?? by('failing') ?? by('unknown');
  if (best === undefined) return { state: 'none', sinceMs: startedMs, reason: null };
  const reasons = relays.map(({ reason }) => reason).filter((reason) => reason !== null);
  return {
    state: best.state,
    sinceMs: best.sinceMs,
    reason: reasons.length === 0 ? null : reasons.join('; '),
  };
}
