/**
 * How long a peer in trouble is left alone: a relay, the cloud, its document, its messages. Pure. Used by
 * relay-health.ts, gateway.ts, sync.ts and link-state.ts.
 */
import { assert } from '../errors.js';
import { PEER_GOOD_MS } from '../limits.js';

/** By how much more than asked for a peer is left alone, at most. */
const SPREAD = 0.1;

/**
 * How long to leave a peer alone after its `failures`th trouble in a row (from 1): full jitter below `minMs`
 * doubling up to `maxMs`. Never nothing, so that no loop can spin on it. `random` is in [0, 1).
 */
export function backoffMs(failures: number, random: number, minMs: number, maxMs: number): number {
  assert(failures >= 1 && random >= 0 && random < 1);
  const ceilingMs = Math.min(minMs * 2 ** (failures - 1), maxMs);
  return Math.ceil((1 - random) * ceilingMs);
}

/**
 * How long to wait where a peer asks for `askedMs` (Retry-After): that, and up to a tenth more. A fleet that is told
 * one date must not come back in the same second. `random` is in [0, 1).
 */
export function patienceMs(askedMs: number, random: number): number {
  return Math.ceil(askedMs * (1 + SPREAD * random));
}

/** What a back-off goes by. */
export interface BackoffOptions {
  /** Read at each failure: a reload may change them. */
  readonly config: { readonly backoffMinMs: number; readonly backoffMaxMs: number };
  readonly clock: { bootMs(): number };
  /** In [0, 1). */
  readonly random: () => number;
}

/**
 * When one peer may be tried again. Each try begins with begin() and ends with good() or failed(). All moments are on
 * the boot's clock.
 */
export class Backoff {
  readonly #options: BackoffOptions;
  #failures = 0;
  /** Since when it has been good; null while it fails, and before the first try. */
  #goodMs: number | null = null;
  #retryMs = 0;
  #notBeforeMs = 0;
  /** Somebody has called wake() since the last try began. */
  #isWanted = false;

  constructor(options: BackoffOptions) {
    this.#options = options;
  }

  /** True from a failed try to the next good one. */
  get isFailing(): boolean {
    return this.#failures > 0 && this.#goodMs === null;
  }

  /** When the next try may begin. */
  get readyMs(): number {
    return Math.max(this.#retryMs, this.#notBeforeMs);
  }

  /** A try begins. */
  begin(): void {
    this.#isWanted = false;
  }

  /** The peer works. The pauses start anew only when it has done so for a while. */
  good(): void {
    this.#goodMs ??= this.#options.clock.bootMs();
    this.#retryMs = 0;
  }

  /** A try has failed; the peer asks to be left alone for `retryAfterMs`. Tries that fail together count once. */
  failed(retryAfterMs = 0): void {
    const { clock, config, random } = this.#options;
    const nowMs = clock.bootMs();
    this.#notBeforeMs = Math.max(this.#notBeforeMs, nowMs + patienceMs(retryAfterMs, random()));
    if (this.isFailing && nowMs < this.#retryMs) return;
    if (this.#goodMs !== null && nowMs - this.#goodMs >= PEER_GOOD_MS) this.#failures = 0;
    this.#goodMs = null;
    this.#failures++;
    // What began before the network was mended says nothing of the network there is now.
    this.#retryMs = this.#isWanted
      ? nowMs
      : nowMs + backoffMs(this.#failures, random(), config.backoffMinMs, config.backoffMaxMs);
  }

  /** A try is wanted now: the pause is over, but for what the peer has asked for. A try under way need not end well. */
  wake(): void {
    this.#retryMs = 0;
    this.#isWanted = true;
  }
}
