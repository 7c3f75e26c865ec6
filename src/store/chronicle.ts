/**
 * The times of what is recorded: stamps every event, keeps what is known of the boots in the journal, and the
 * count of reachable time. Used by journaled-store.ts. It has no timer: what has changed is noticed when something is
 * recorded, listed, swept or closed, and costs a few bytes then.
 */
import { MINUTE_MS } from '../limits.js';
import type { Message, Stamp, Verdict } from '../message/message.js';
import { ageMs, bootNews, stampOf } from '../message/stamp.js';
import type { Clock } from '../system/clock.js';
import type { StoreEvent } from './event.js';
import type { Urgency } from './journal.js';
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

  /** Records events with stamps of now, and ahead of them what has become known of this boot. */
  record(events: readonly StoreEvent[], contents: readonly Buffer[], urgency: Urgency): Promise<void> {
    return this.#ledger.record([...this.#bootEvents(), ...events], contents, urgency);
  }

  /** Sees to it that a leap of the wall misdates nothing of this boot when it is read in another. */
  async keepClock(): Promise<void> {
    // Of a boot in which nothing was stamped nobody asks.
    const events = this.#ledger.state.boots.has(this.#clock.boot) ? this.#bootEvents() : [];
    // What cannot be written now is still news at the next record.
    if (events.length > 0) await this.#ledger.record(events, [], 'written').catch(() => undefined);
  }

  #bootEvents(): StoreEvent[] {
    const news = bootNews(this.#clock, this.#ledger.state.boots);
    if (news === null) return [];
    const { startMs, confirmed } = news;
    return [{ e: 'boot', boot: this.#clock.boot, startMs, ...(confirmed && { confirmed }) }];
  }
}
