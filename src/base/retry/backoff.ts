/**
 * How long to leave a failing peer alone: a relay, the cloud, its document, its messages. And the jitter of other waits.
 * Pure.
 */
import { assert } from '../errors.js';
import { MINUTE_MS } from '../limits.js';

/** A back-off starts anew after its peer has been good for this long. */
export const PEER_GOOD_MS = MINUTE_MS;

/** Jitter, as a part of a wait. */
const SPREAD = 0.1;

/** How pauses grow. */
export interface Pauses {
  /** The ceilings of the first and the longest pause. */
  readonly backoffMinMs: number;
  readonly backoffMaxMs: number;
  /** No ceiling is lower. 0 if left out. */
  readonly floorMs?: number;
  /** Each pause lasts at least this part of its ceiling. 0 if left out: full jitter. */
  readonly leastShare?: number;
}

/**
 * The pause after the `failures`th failure in a row: jitter below a ceiling that doubles with each failure. Never 0: no
 * loop can spin on it. `random` is in [0, 1).
 */
export function pauseMs(failures: number, random: number, pauses: Pauses): number {
  const { backoffMinMs, backoffMaxMs, floorMs = 0, leastShare = 0 } = pauses;
  const grownMs = failures === 0 ? 0 : Math.min(backoffMinMs * 2 ** (failures - 1), backoffMaxMs);
  const ms = Math.ceil(Math.max(grownMs, floorMs) * (1 - random * (1 - leastShare)));
  assert(ms >= 1);
  return ms;
}

/** True if the peer, good since `goodMs` (null: it fails), has earned the shortest pause for its next failure. */
export function startsAnew(goodMs: number | null, nowMs: number): boolean {
  return goodMs !== null && nowMs - goodMs >= PEER_GOOD_MS;
}

/**
 * How long to wait for a Retry-After of `askedMs`: up to a tenth longer, because a fleet that is told one date must not
 * come back in the same second. `random` is in [0, 1).
 */
export function patienceMs(askedMs: number, random: number): number {
  return Math.ceil(askedMs * (1 + SPREAD * random));
}

/** `ms` ± 10 %, so that devices that began together do not come back together. `random` is in [0, 1). */
export function spread(ms: number, random: number): number {
  return Math.round(ms * (1 + SPREAD * (2 * random - 1)));
}

/** The settings, clock and jitter of a back-off. */
export interface BackoffOptions {
  /** Read at each failure, because a reload may change it. */
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
  /** wake() was called since the last try began. */
  #isWanted = false;

  constructor(options: BackoffOptions) {
    this.#options = options;
  }

  /** True from a failed try to the next good one. */
  get isFailing(): boolean {
    return this.#failures > 0 && this.#goodMs === null;
  }

  get readyMs(): number {
    return Math.max(this.#retryMs, this.#notBeforeMs);
  }

  begin(): void {
    this.#isWanted = false;
  }

  /** A try has worked. The shortest pause comes back only once the peer has worked for a minute. */
  good(): void {
    this.#goodMs ??= this.#options.clock.bootMs();
    this.#retryMs = 0;
    this.#isWanted = false;
  }

  /** A try has failed, and the peer asks for `retryAfterMs`. Tries that fail together count once. */
  failed(retryAfterMs = 0): void {
    const { clock, config, random } = this.#options;
    const nowMs = clock.bootMs();
    this.#notBeforeMs = Math.max(this.#notBeforeMs, nowMs + patienceMs(retryAfterMs, random()));
    if (this.isFailing && nowMs < this.#retryMs) return;
    if (startsAnew(this.#goodMs, nowMs)) this.#failures = 0;
    this.#goodMs = null;
    this.#failures++;
    // This try began before wake(), perhaps on another network: try again at once.
    this.#retryMs = this.#isWanted ? nowMs : nowMs + pauseMs(this.#failures, random(), config);
  }

  /** Ends the pause, but not a Retry-After. If a try under way fails, the next one follows at once. */
  wake(): void {
    this.#retryMs = 0;
    this.#isWanted = true;
  }
}
