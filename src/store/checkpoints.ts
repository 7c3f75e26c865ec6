/**
 * When checkpoints are made: one at a time, and none during a purge. Used by ledger.ts.
 */
import { wordsOf } from '../errors.js';
import { CHECKPOINT_BYTES_MIN, CHECKPOINT_SNAPSHOT_FACTOR, DONE_FACTOR } from '../limits.js';
import type { Log } from '../system/log.js';
import { Turns } from '../turns.js';
import { type CheckpointOptions, checkpoint } from './checkpoint.js';

/** What they are given. */
export interface CheckpointsOptions {
  readonly log: Log;
  readonly maxSpoolBytes: number;
  /** What they work on; not asked before a journal is there. */
  readonly tidied: () => Pick<CheckpointOptions, 'ledger' | 'journal' | 'segments' | 'adapter' | 'write'>;
}

/** All checkpoints of a ledger. */
export class Checkpoints {
  readonly #options: CheckpointsOptions;
  readonly #turns = new Turns();
  /** What was appended up to the last one. */
  #appendedBytes = 0;

  constructor(options: CheckpointsOptions) {
    this.#options = options;
  }

  /** A start has replayed so many bytes. They count whole, because each start begins a segment: power cuts would fill the disk. */
  begin(replayedBytes: number): void {
    this.#appendedBytes = -replayedBytes;
  }

  /** Bytes appended since the last checkpoint, also if that failed. */
  get pendingBytes(): number {
    return this.#options.tidied().journal.appendedBytes - this.#appendedBytes;
  }

  /** Bytes of segments before the present one in which no content lies. The second checkpoint lets go of them. */
  get doneBytes(): number {
    const { segments, journal, ledger } = this.#options.tidied();
    const { segment: current } = journal.position;
    const done = segments.numbers.filter((number) => number < current && !ledger.state.liveBytes.has(number));
    return done.reduce((sum, number) => sum + segments.sizeOf(number), 0);
  }

  /** True if they are more than the two snapshots need: content was given up since, or checkpoints have failed. */
  get isMuchDone(): boolean {
    return this.doneBytes > DONE_FACTOR * this.#dueBytes;
  }

  get #dueBytes(): number {
    return Math.max(CHECKPOINT_BYTES_MIN, CHECKPOINT_SNAPSHOT_FACTOR * this.#options.tidied().adapter.bytes);
  }

  /** Begins one if enough was appended. */
  makeIfDue(): void {
    if (this.pendingBytes > this.#dueBytes) void this.make();
  }

  /** Begins one, unless one is under way. Resolves when it is done, also if it failed. */
  async make(isShort = false): Promise<void> {
    if (!this.#turns.isFree) return await this.idle();
    await this.#turns
      .do(() => this.#make(isShort))
      .catch((error) => this.#options.log.warn('checkpoint failed', { reason: wordsOf(error) }));
  }

  async #make(isShort: boolean): Promise<void> {
    const { log, maxSpoolBytes, tidied } = this.#options;
    const parts = tidied();
    const appended = parts.journal.appendedBytes;
    // Also after a failure it is tried again after as much again, not at every record.
    await checkpoint({ ...parts, log, maxSpoolBytes, isShort }).finally(() => {
      this.#appendedBytes = appended;
    });
  }

  /** Does `work` while no checkpoint is under way. Rejects like that. */
  without(work: () => Promise<void>): Promise<void> {
    return this.#turns.do(work);
  }

  /** Resolves once nothing is under way. */
  idle(): Promise<void> {
    return this.#turns.idle();
  }
}
