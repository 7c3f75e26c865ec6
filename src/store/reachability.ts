/**
 * The count of reachable time: how long, in all, a relay could be reached. By it emails age, so that weeks
 * without a network expire nothing. Delivery says what it meets; the store gives each message the count its age
 * begins at, and writes the count down with outcomes, now and then. Pure. What is not known does not count: after
 * a restart, or in a long silence. So a message may live longer, never shorter.
 */
export class Reachability {
  #countedMs: number;
  /** When a relay was last heard, on the boot's clock; null if one was missed since. */
  #heardMs: number | null = null;
  #silenceMaxMs = 0;

  /** `countedMs`: what was written down of earlier runs. */
  constructor(countedMs: number) {
    this.#countedMs = countedMs;
  }

  /** The time from one word of a relay to the next, unless it was missed in between. */
  get countedMs(): number {
    return this.#countedMs;
  }

  /** The most that may have to be counted up to now; an age that begins here never holds time before it. */
  startMs(nowMs: number): number {
    return this.#countedMs + this.#pendingMs(nowMs);
  }

  /** A relay has answered. In a silence longer than `silenceMaxMs` anything may have been. */
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
