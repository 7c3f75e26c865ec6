/**
 * How old an email is: only time in which a relay could be reached counts, so that weeks without a network
 * expire nothing. Pure; times are the boot's. What is not remembered, as after a restart, does not count: a
 * message may live longer, never shorter.
 */
import assert from 'node:assert';

/** Far more changes than a message sees in its days. */
const SPANS_MAX = 1000;

interface Span {
  readonly fromMs: number;
  toMs: number;
}

/** The times in which a relay was reachable: from one word of it to the next, unless it was missed in between. */
export class Reachability {
  readonly #spans: Span[] = [];
  readonly #gapMaxMs: number;
  #current: Span | null = null;

  /** Between words further apart than `gapMaxMs` anything may have been. */
  constructor(gapMaxMs: number) {
    this.#gapMaxMs = gapMaxMs;
  }

  /** A relay has answered. */
  contact(nowMs: number): void {
    if (this.#current && nowMs - this.#current.toMs <= this.#gapMaxMs) {
      this.#current.toMs = nowMs;
      return;
    }
    this.#current = { fromMs: nowMs, toMs: nowMs };
    this.#spans.push(this.#current);
    if (this.#spans.length > SPANS_MAX) this.#spans.shift();
  }

  /** No relay could be reached. */
  missed(): void {
    this.#current = null;
  }

  /** How much of the time since `fromMs` a relay was reachable. */
  sinceMs(fromMs: number): number {
    return this.#spans.reduce((sum, span) => sum + Math.max(0, span.toMs - Math.max(span.fromMs, fromMs)), 0);
  }
}

/** True if a message that has just been offered in vain shall not be offered again. */
export function isExpired(ageMs: number, ageMaxMs: number): boolean {
  assert(ageMs >= 0);
  return ageMs >= ageMaxMs;
}
