/**
 * Counts reachable time: how long, in all, a relay could be reached. Emails age by it, so weeks without a network expire
 * nothing. Delivery reports when a relay answers or cannot be reached. The store gives each message the count at which its
 * age begins, and writes the count with some outcomes. Unknown time, after a restart or in a long silence, does not count:
 * a message may live longer, never shorter. Pure.
 */

export class Reachability {
  #countedMs: number;
  /** When a relay was last heard, on the boot's clock; null if one was missed since. */
  #heardMs: number | null = null;
  #silenceMaxMs = 0;

  /** `countedMs`: the count of earlier runs. */
  constructor(countedMs: number) {
    this.#countedMs = countedMs;
  }

  /** The time from one answer of a relay to the next, unless none could be reached in between. */
  get countedMs(): number {
    return this.#countedMs;
  }

  /** The highest possible count now: an age that begins with it includes no earlier time. */
  startMs(nowMs: number): number {
    return this.#countedMs + this.#pendingMs(nowMs);
  }

  /** A relay has answered. A silence longer than `silenceMaxMs` does not count, because its reason is unknown. */
  heard(nowMs: number, silenceMaxMs: number): void {
    this.#silenceMaxMs = silenceMaxMs;
    this.#countedMs += this.#pendingMs(nowMs);
    this.#heardMs = nowMs;
  }

  /** No relay could be reached. */
  missed(): void {
    this.#heardMs = null;
  }

  #pendingMs(nowMs: number): number {
    if (this.#heardMs === null) return 0;
    const silenceMs = nowMs - this.#heardMs;
    return silenceMs <= this.#silenceMaxMs ? silenceMs : 0;
  }
}
