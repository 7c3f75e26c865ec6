/**
 * For how long relays could be reached, as relays know it: by that emails age (delivery.md, When). Nobody outside
 * knows what the device has counted, so there are two counts, between which its own must lie.
 */
import { MINUTE_MS } from '../../src/base/limits.js';

/** A silence longer than this says nothing: twice the longest FIELDPOST_RETRY_MAX. */
export const SILENCE_MS = 2 * 60 * MINUTE_MS;
/** A process that dies may lose so much of what it has counted. */
const LOST_MS = 2 * MINUTE_MS;

export class Reach {
  /** Never less than what the device has counted, and never more. */
  mostMs = 0;
  leastMs = 0;
  #heardMs: number | null = null;
  /** No relay was missed since, and the process that heard it lives. */
  #isSure = false;
  /** The least when an outcome was recorded last. */
  #recordedMs = 0;

  /** A relay let the device in, or answered it. */
  heard(nowMs: number): void {
    const gapMs = this.#heardMs === null ? Number.POSITIVE_INFINITY : nowMs - this.#heardMs;
    if (gapMs <= SILENCE_MS) {
      this.mostMs += gapMs;
      if (this.#isSure) this.leastMs += gapMs;
    }
    this.#heardMs = nowMs;
    this.#isSure = true;
  }

  missed(): void {
    this.#isSure = false;
  }

  /** With an outcome the count is written down. */
  recorded(): void {
    this.#recordedMs = this.leastMs;
  }

  /** The process has ended. */
  ended(): void {
    this.#isSure = false;
    this.leastMs = Math.max(0, this.#recordedMs - LOST_MS);
    this.#recordedMs = this.leastMs;
  }
}
