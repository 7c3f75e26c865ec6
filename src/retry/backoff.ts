/**
 * How long to leave a peer alone that fails: a relay, the cloud, its document, its messages. Pure. Whoever retries a
 * peer holds a Backoff; the link's state machine (link-state.ts) applies the same rules to a state of its own.
 */
import { assert } from '../errors.js';
import { PEER_GOOD_MS } from '../limits.js';

/** The most that is added to a Retry-After, as a part of it. */
const SPREAD = 0.1;

/** How pauses grow. */
export interface Pauses {
  /** The ceiling of the first pause, and of the longest. */
  readonly backoffMinMs: number;
  readonly backoffMaxMs: number;
  /** No ceiling is lower. 0 if left out. */
  readonly floorMs?: number;
  /** The part of its ceiling that each pause lasts at least. 0 if left out: full jitter. */
  readonly leastShare?: number;
}

/**
 * How long to leave a peer alone after its `failures`th failure in a row: jitter below a ceiling that doubles with each
 * failure. Never 0, so that no loop can spin on it. `random` is in [0, 1).
 */
export function pauseMs(failures: number, random: number, pauses: Pauses): number {
  const { backoffMinMs, backoffMaxMs, floorMs = 0, leastShare = 0 } = pauses;
  const grownMs = failures === 0 ? 0 : Math.min(backoffMinMs * 2 ** (failures - 1), backoffMaxMs);
  const ms = Math.ceil(Math.max(grownMs, floorMs) * (1 - random * (1 - leastShare)));
  assert(ms >= 1);
  return ms;
}

/** True if a peer that has been good since `goodMs` (null: it is not) starts anew with the shortest pause. */
export function startsAnew(goodMs: number | null, nowMs: number): boolean {
  return goodMs !== null && nowMs - goodMs >= PEER_GOOD_MS;
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
  readonly config: Pauses;
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

  /** The peer works, and a wish is granted. The pauses start anew only when it has worked for a while. */
  good(): void {
    this.#goodMs ??= this.#options.clock.bootMs();
    this.#retryMs = 0;
    this.#isWanted = false;
  }

  /** A try has failed; the peer asks to be left alone for `retryAfterMs`. Tries that fail together count once. */
  failed(retryAfterMs = 0): void {
    const { clock, config, random } = this.#options;
    const nowMs = clock.bootMs();
    this.#notBeforeMs = Math.max(this.#notBeforeMs, nowMs + patienceMs(retryAfterMs, random()));
    if (this.isFailing && nowMs < this.#retryMs) return;
    if (startsAnew(this.#goodMs, nowMs)) this.#failures = 0;
    this.#goodMs = null;
    this.#failures++;
    // What began before the network was mended says nothing of the network there is now.
    this.#retryMs = this.#isWanted ? nowMs : nowMs + pauseMs(this.#failures, random(), config);
  }

  /** A try is wanted now: the pause is over, but for what the peer has asked for. A try under way need not end well. */
  wake(): void {
    this.#retryMs = 0;
    this.#isWanted = true;
  }
}
