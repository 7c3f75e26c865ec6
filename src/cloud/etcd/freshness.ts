/**
 * How old this instance's memory of etcd may be, and whether an outage made it old.
 *
 * An instance writes its key at each tick. When the watch brings that write back, memory was complete at the moment of the
 * write. Silence counts up to this moment, and no further. If it lies far behind the one before, something was away: this
 * instance alone, if the ticks of others went on, or etcd as a whole.
 */
import { FLEET_STALE_MS, FLEET_TICK_MS } from '../../base/limits.js';

/** The ticks of the other instances, by instance. */
export type OtherTicks = ReadonlyMap<string, number>;

/** The moment at which memory was complete. All moments are on the boot's clock. */
export class Freshness {
  readonly #others: () => OtherTicks;
  readonly #pending: { readonly sentMs: number; readonly revision: number }[] = [];
  /** Memory is at this revision. */
  #revision = 0;
  #freshMs = Number.NEGATIVE_INFINITY;
  /** The ticks of others at the last judgement, and its moment; null before begin(). */
  #judged: { readonly atMs: number; readonly ticks: OtherTicks } | null = null;
  /** False until FLEET_STALE_MS after the start: the keys of dead instances stay for as long. */
  #isJudged = false;

  constructor(others: () => OtherTicks) {
    this.#others = others;
  }

  /** Memory is complete now, for the first time. */
  begin(nowMs: number): void {
    this.#freshMs = nowMs;
    this.#judge();
  }

  get freshMs(): number {
    return this.#freshMs;
  }

  /** False while it is unknown whether the fleet was served before this instance began. */
  get isJudged(): boolean {
    return this.#isJudged;
  }

  /** A tick that began at `sentMs` was written with this revision. Returns what stepped() does. */
  sent(sentMs: number, revision: number): boolean {
    this.#pending.push({ sentMs, revision });
    // The watch may be faster than the answer.
    return this.stepped(this.#revision);
  }

  /** Memory is at this revision. True: there was an outage. */
  stepped(revision: number): boolean {
    this.#revision = revision;
    if (this.#judged === null) return false;
    let next = this.#pending[0];
    while (next !== undefined && next.revision <= revision) {
      this.#freshMs = Math.max(this.#freshMs, next.sentMs);
      this.#pending.shift();
      next = this.#pending[0];
    }
    const gapMs = this.#freshMs - this.#judged.atMs;
    if (this.#isJudged && gapMs <= FLEET_STALE_MS) {
      if (gapMs > 0) this.#judge();
      return false;
    }
    if (gapMs < FLEET_STALE_MS) return false;
    // An instance that has come since may have been away as well: after an outage all of them start.
    const { ticks: before } = this.#judged;
    const progress = Math.max(
      0,
      ...[...this.#others()].map(([name, ticks]) => ticks - (before.get(name) ?? ticks)),
    );
    // At the start the one question is whether others served before.
    const isServed = this.#isJudged ? progress * FLEET_TICK_MS >= gapMs / 2 : progress > 0;
    this.#judge();
    this.#isJudged = true;
    return !isServed;
  }

  #judge(): void {
    this.#judged = { atMs: this.#freshMs, ticks: new Map(this.#others()) };
  }
}
