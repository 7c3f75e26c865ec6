/**
 * The times of what is recorded: stamps every event, and keeps the count of reachable time. Used by journaled-store.ts
 * and acceptance.ts.
 */
import { MINUTE_MS } from '../limits.js';
import type { Message, Stamp, Verdict } from '../message/message.js';
import { ageMs, stampOf } from '../message/stamp.js';
import type { Clock } from '../system/clock.js';
import type { StoreEvent } from './event.js';
import type { Ledger } from './ledger.js';
import { Reachability } from './reachability.js';

/** An outcome carries the count of reachable time when it has grown by this: the most of it that a crash loses. */
const REACH_STEP_MS = MINUTE_MS;

/** Stands before the ledger where events have times. */
export class Chronicle {
  readonly reachability: Reachability;
  readonly #ledger: Ledger;
  readonly #clock: Clock;

  constructor(ledger: Ledger, clock: Clock) {
    this.#ledger = ledger;
    this.#clock = clock;
    this.reachability = new Reachability(ledger.state.reachMs);
  }

  /** Now, or `laterMs` from now. */
  now(laterMs = 0): Stamp {
    return stampOf(this.#clock, laterMs);
  }

  /** How long ago it was; too small rather than too large. */
  ageMs(stamp: Stamp): number {
    return ageMs(stamp, this.#clock, this.#ledger.state.boots);
  }

  /** Where the age of a message begins that begins now. */
  birth(): { at: Stamp; reachMs: number } {
    const at = this.now();
    return { at, reachMs: this.reachability.startMs(at.bootMs) };
  }

  /** What is recorded of an attempt, or of an age, that ended with this verdict. */
  outcome({ id, attempts: before }: Message, verdict: Verdict): StoreEvent {
    const { kind, reply } = verdict;
    const attempts = kind === 'expired' ? before : before + 1;
    const common = { id, attempts, reply, ...this.#reach() };
    if (kind !== 'deferred') return { e: kind, ...common, at: this.now() };
    return { e: kind, ...common, due: this.now(verdict.delayMs) };
  }

  /** What an outcome says of the reachable time, if anything. */
  #reach(): { reachMs?: number } {
    const { countedMs } = this.reachability;
    return countedMs - this.#ledger.state.reachMs >= REACH_STEP_MS ? { reachMs: countedMs } : {};
  }
}
