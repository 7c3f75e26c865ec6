/**
 * The state of one peer, a relay or the cloud, and when it may be tried again. Its failures are counted here, and charged
 * to no message. And the choice among several peers.
 *
 * | state    | means                                                      | ends with                       |
 * |----------|------------------------------------------------------------|---------------------------------|
 * | unknown  | not tried yet                                              | good(), failed() or refused()   |
 * | ok       | it takes messages                                          | failed() or refused()           |
 * | failing  | it cannot be reached, or has trouble of its own            | good() or refused()             |
 * | refusing | it refuses this device or its account, such as for a quota | good() or failed()              |
 *
 * In any state but `ok` it gets one attempt at a time: the probe.
 */
import { HOUR_MS, SECOND_MS } from '../../base/limits.js';
import { Backoff, type BackoffOptions } from '../../base/retry/backoff.js';
import { startMsOf } from '../../base/stamp.js';
import { span } from '../../base/text.js';

/** A message that is under way for longer than this keeps others waiting. */
export const SLOW_OFFER_MS = 30 * SECOND_MS;
/** How much of a pause after a refusal jitter leaves. */
const REFUSED_LEAST_SHARE = 0.9;

type PeerState = 'unknown' | 'ok' | 'failing' | 'refusing';

/** The first and the longest pause of a peer that refuses this device. */
export interface RefusalPauses {
  readonly firstMs: number;
  readonly maxMs: number;
}

/** Why the state has changed; of `ok`: how long the peer had failed or refused, undefined if it had not. */
type Why = { readonly reason: string } | { readonly failedMs: number | undefined };

/** What a peer needs. */
export interface PeerOptions extends BackoffOptions {
  readonly clock: { bootMs(): number; wallMs(): number };
  /** Called when the state changes. */
  readonly onChange?: (state: PeerState, why: Why) => void;
}

/** Whether a peer works, since when, and when it may be tried again. */
export class Peer {
  readonly name: string;
  /** True if a session was opened since the last failure. Only a message shows whether the peer takes messages. */
  isReached = false;
  readonly #options: PeerOptions;
  readonly #backoff: Backoff;
  /** Between probes of a peer that refuses. */
  readonly #refusals: Backoff;
  readonly #pauses = { backoffMinMs: HOUR_MS, backoffMaxMs: HOUR_MS, leastShare: REFUSED_LEAST_SHARE };
  #state: PeerState = 'unknown';
  #sinceMs: number;
  #reason: string | null = null;
  #isProbed = false;
  #hasRefused = false;
  /** When the messages that are under way were offered, on the boot's clock, the oldest first. */
  readonly #offers = new Set<{ readonly sinceMs: number }>();

  constructor(name: string, options: PeerOptions) {
    this.name = name;
    this.#options = options;
    this.#backoff = new Backoff(options);
    this.#refusals = new Backoff({ ...options, config: this.#pauses });
    this.#sinceMs = options.clock.bootMs();
  }

  get state(): PeerState {
    return this.#state;
  }

  /** True if only a probe may show that it works again. */
  get isDown(): boolean {
    return this.#state === 'failing' || this.#state === 'refusing';
  }

  /** Why the peer is down, or is suspected to be, or keeps messages waiting; else null. */
  get reason(): string | null {
    const { offeredSinceMs } = this;
    if (this.#reason !== null || offeredSinceMs === null) return this.#reason;
    const underWayMs = this.#options.clock.bootMs() - offeredSinceMs;
    return underWayMs < SLOW_OFFER_MS ? null : `a message has been under way for ${span(underWayMs)}`;
  }

  /** Since when the oldest of the messages under way is offered, on the boot's clock; null: none is. */
  get offeredSinceMs(): number | null {
    for (const { sinceMs } of this.#offers) return sinceMs;
    return null;
  }

  /** A message is offered. Call the result when its outcome is known. */
  offering(): () => void {
    const offer = { sinceMs: this.#options.clock.bootMs() };
    this.#offers.add(offer);
    return () => void this.#offers.delete(offer);
  }

  /** Wall time at which the state began, by the wall clock as it is now. */
  get sinceMs(): number {
    return startMsOf(this.#options.clock) + this.#sinceMs;
  }

  /** True if it may be used now. */
  isAvailable(): boolean {
    return (this.#state === 'ok' || !this.#isProbed) && this.#options.clock.bootMs() >= this.readyMs;
  }

  /** Boot time at which its pause ends. */
  get readyMs(): number {
    return Math.max(this.#backoff.readyMs, this.#refusals.readyMs);
  }

  /** Boot time at which it will be available; Infinity during a probe, whose end decides. */
  get nextMs(): number {
    return this.#isProbed ? Number.POSITIVE_INFINITY : this.readyMs;
  }

  /** An attempt begins. Returns true if it is a probe: then call endProbe() after it. */
  begin(): boolean {
    this.#backoff.begin();
    this.#refusals.begin();
    if (this.#state === 'ok') return false;
    this.#isProbed = true;
    return true;
  }

  endProbe(): void {
    this.#isProbed = false;
  }

  /** It took a message, or refused one that was at fault itself. */
  good(): void {
    this.#hasRefused = false;
    this.#backoff.good();
    this.#refusals.good();
    this.#reason = null;
    this.#become('ok', { failedMs: this.isDown ? this.#options.clock.bootMs() - this.#sinceMs : undefined });
  }

  /** A message moves to the end because of this peer. Returns true the first time since the peer was good. */
  isNews(): boolean {
    const isNews = !this.#hasRefused;
    this.#hasRefused = true;
    return isNews;
  }

  /** It refused this device for one message; later ones show whether it refuses all. Keeps the state, stores the reason. */
  suspected(reason: string): void {
    if (!this.isDown) this.#reason = reason;
  }

  /** It is to blame for a failure, and asks for a pause of `retryAfterMs`. */
  failed(reason: string, retryAfterMs = 0): void {
    this.#backoff.failed(retryAfterMs);
    this.isReached = false;
    this.#reason = reason;
    this.#become('failing', { reason });
  }

  /** It refuses this device or its account. Each further pause is twice as long. */
  refused(reason: string, pauses: RefusalPauses): void {
    this.#pauses.backoffMinMs = pauses.firstMs;
    this.#pauses.backoffMaxMs = pauses.maxMs;
    this.#refusals.failed();
    this.#reason = reason;
    this.#become('refusing', { reason });
  }

  /** The network has changed, or a person asks: it may be tried at once. */
  wake(): void {
    this.#backoff.wake();
    this.#refusals.wake();
  }

  #become(state: PeerState, why: Why): void {
    if (state === this.#state) return;
    this.#state = state;
    this.#sinceMs = this.#options.clock.bootMs();
    this.#options.onChange?.(state, why);
  }
}

/**
 * The peer to use now: the first, in the order of the configuration, that is not down. If all are: the first whose
 * back-off is over. Null if there is none; a later peer does not step in during the first try of an earlier one. A peer
 * that was never tried comes before a second try of peers that are down: else slow ones would always be due again first.
 */
export function choosePeer(peers: readonly Peer[]): Peer | null {
  const next = peers.find(({ isDown }) => !isDown);
  const candidates = next === undefined ? peers : [next];
  return candidates.find((peer) => peer.isAvailable()) ?? null;
}

/** A peer that is down, may be tried now and comes before the one that works; null if there is none. */
export function chooseProbe(peers: readonly Peer[]): Peer | null {
  const next = peers.findIndex(({ isDown }) => !isDown);
  if (peers[next]?.state !== 'ok') return null;
  return peers.slice(0, next).find((peer) => peer.isAvailable()) ?? null;
}

/** Boot time at which choosePeer may find a peer; Infinity during a probe, whose end decides. */
export function nextPeerMs(peers: readonly Peer[]): number {
  const next = peers.find(({ isDown }) => !isDown);
  return next?.nextMs ?? Math.min(...peers.map(({ nextMs }) => nextMs));
}
