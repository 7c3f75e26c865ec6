/**
 * How one peer is doing, a relay or the cloud, and when it may be tried again. Its trouble is counted here and charged to
 * no message. Used by cloud-transport.ts and smtp-transport.ts.
 */
import { Backoff, type BackoffOptions } from '../retry/backoff.js';
import { Proofs } from './proofs.js';

/** What a peer's health is measured with. */
export interface PeerOptions extends BackoffOptions {
  readonly clock: { bootMs(): number; wallMs(): number };
  /** Told of each change: why it fails now, or for how long it had failed (undefined: it had not). */
  readonly onFailing?: (reason: string) => void;
  readonly onOk?: (failedMs: number | undefined) => void;
}

/** Whether a peer works, since when, and when it may be tried again. */
export class Peer {
  readonly name: string;
  /** What it took and refused. */
  readonly proofs: Proofs;
  readonly #options: PeerOptions;
  readonly #backoff: Backoff;
  #state: 'unknown' | 'ok' | 'failing' = 'unknown';
  #sinceMs: number;
  #reason: string | null = null;
  #isProbed = false;
  #isReached = false;
  #hasRefused = false;

  constructor(name: string, options: PeerOptions) {
    this.name = name;
    this.proofs = new Proofs(options.clock);
    this.#options = options;
    this.#backoff = new Backoff(options);
    this.#sinceMs = options.clock.bootMs();
  }

  get state(): 'unknown' | 'ok' | 'failing' {
    return this.#state;
  }

  /** Null unless it fails, or may turn out to. */
  get reason(): string | null {
    return this.#reason;
  }

  /** Wall time at which the state began, also after the wall clock was put right. */
  get sinceMs(): number {
    const { clock } = this.#options;
    return clock.wallMs() - (clock.bootMs() - this.#sinceMs);
  }

  /** True if it may be used now. A peer not known to be well is used by one attempt at a time: the probe. */
  isAvailable(): boolean {
    return (this.#state === 'ok' || !this.#isProbed) && this.#options.clock.bootMs() >= this.readyMs;
  }

  /** When its pause is over, on the boot's clock. */
  get readyMs(): number {
    return this.#backoff.readyMs;
  }

  /** When it will be available by itself, on the boot's clock; Infinity while a probe will tell. */
  get nextMs(): number {
    return this.#isProbed ? Number.POSITIVE_INFINITY : this.readyMs;
  }

  /** An attempt begins. True if it is a probe, which must then be ended. */
  begin(): boolean {
    this.#backoff.begin();
    if (this.#state === 'ok') return false;
    this.#isProbed = true;
    return true;
  }

  endProbe(): void {
    this.#isProbed = false;
  }

  /** True if it has let us in since it last failed. Whether it takes messages the next one shows. */
  get isReached(): boolean {
    return this.#isReached;
  }

  /** It lets us in. */
  reached(): void {
    this.#isReached = true;
  }

  /** It took a message, or refused one for the message's own sake. */
  good(): void {
    this.#hasRefused = false;
    this.#backoff.good();
    this.#reason = null;
    if (this.#state === 'ok') return;
    const failedMs = this.#state === 'failing' ? this.#options.clock.bootMs() - this.#sinceMs : undefined;
    this.#become('ok');
    this.#options.onOk?.(failedMs);
  }

  /** A message goes behind the others because of it. True if that is news: the first time since it was good. */
  isNews(): boolean {
    const isNews = !this.#hasRefused;
    this.#hasRefused = true;
    return isNews;
  }

  /** It refused us over one message; the next ones show whether it does over all. The state may last, the reason is told. */
  suspected(reason: string): void {
    if (this.#state !== 'failing') this.#reason = reason;
  }

  /** It is to blame for what went wrong, and asks to be left alone for `retryAfterMs`. */
  failed(reason: string, retryAfterMs = 0): void {
    this.#backoff.failed(retryAfterMs);
    this.#isReached = false;
    this.#reason = reason;
    if (this.#state === 'failing') return;
    this.#become('failing');
    this.#options.onFailing?.(reason);
  }

  /** The network has changed for the better: it may be tried at once. */
  wake(): void {
    this.#backoff.wake();
  }

  #become(state: 'ok' | 'failing'): void {
    this.#state = state;
    this.#sinceMs = this.#options.clock.bootMs();
  }
}
