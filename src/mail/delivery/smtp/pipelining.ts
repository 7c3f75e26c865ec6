/**
 * Whether pipelining saves time with one relay: when its replies come decides, never why they are late. A relay with Nagle's
 * algorithm sends the first of several replies at once. The others wait for our kernel's acknowledgement, which comes after
 * 40 ms because we have nothing to send.
 */
import { STALL_MS, STALLED_WRITES_MAX, TRICKLE_MS } from '../../../base/limits.js';

/** Watches the replies of one connection. */
export class Pipelining {
  /** The shortest time from a write to the first reply. */
  #roundTripMs = Number.POSITIVE_INFINITY;
  /** The last write, or the last reply to it. */
  #lastMs = 0;
  /** Replies to the last write, and the waits between them. */
  #replies = 0;
  #shortestMs = 0;
  #longestMs = 0;
  /** Stalled writes in a row. */
  #stalled = 0;
  #pays = true;

  /** False once it has cost more than it saved. This holds for as long as the connection. */
  get pays(): boolean {
    return this.#pays;
  }

  /** It is not to be used. */
  end(): void {
    this.#pays = false;
  }

  /** One or more commands go out in one write. */
  wrote(nowMs: number): void {
    this.#lastMs = nowMs;
    this.#replies = 0;
    this.#shortestMs = Number.POSITIVE_INFINITY;
    this.#longestMs = 0;
  }

  /** One of them is answered; `isLast`: all of them are. */
  replied(nowMs: number, isLast: boolean): void {
    const waitMs = nowMs - this.#lastMs;
    this.#lastMs = nowMs;
    if (this.#replies++ === 0) {
      this.#roundTripMs = Math.min(this.#roundTripMs, waitMs);
      return;
    }
    this.#shortestMs = Math.min(this.#shortestMs, waitMs);
    this.#longestMs = Math.max(this.#longestMs, waitMs);
    if (isLast) this.#judge();
  }

  #judge(): void {
    // One command at a time, each command but the first costs one more round trip.
    const savedMs = (this.#replies - 1) * this.#roundTripMs;
    const isStalled = this.#longestMs >= STALL_MS && this.#longestMs > savedMs;
    this.#stalled = isStalled ? this.#stalled + 1 : 0;
    // A relay that delays each reply delays EHLO too, so its round trip says nothing.
    if (this.#stalled === STALLED_WRITES_MAX || this.#shortestMs >= TRICKLE_MS) this.#pays = false;
  }
}
