/**
 * Checkpoints: each writes a new snapshot, and frees the segments that neither a snapshot nor any content needs. Only
 * one is made at a time, and none during a purge.
 */
import { wordsOf } from '../../base/errors.js';
import {
  CHECKPOINT_AFTER_START_MS,
  CHECKPOINT_BYTES_MIN,
  CHECKPOINT_SNAPSHOT_FACTOR,
  DONE_FACTOR,
  OVERDUE_FACTOR,
} from '../../base/limits.js';
import { Alarm } from '../../base/retry/alarm.js';
import type { Clock } from '../../base/system/clock.js';
import type { Log } from '../../base/system/log.js';
import { Turns } from '../../base/turns.js';
import type { Place } from '../message/message.js';
import type { Journal } from './journal.js';
import { relocate } from './relocation.js';
import type { Segments } from './segments.js';
import type { SnapshotAdapter } from './snapshot.js';
import type { State } from './state.js';

/** What checkpoints need. */
export interface CheckpointsOptions {
  readonly ledger: { readonly state: State; read(place: Place): Promise<Buffer> };
  readonly journal: Journal;
  readonly segments: Segments;
  readonly adapter: SnapshotAdapter;
  /** Writes a snapshot. */
  readonly write: () => Promise<void>;
  readonly log: Log;
  readonly clock: Clock;
  /** A reload changes this object. */
  readonly budget: { readonly maxSpoolBytes: number };
  /**
   * Bytes that the start has replayed. They bring the next checkpoint nearer, because many short runs without one would
   * fill the disk.
   */
  readonly replayedBytes: number;
}

/** All checkpoints of a ledger. */
export class Checkpoints {
  readonly #options: CheckpointsOptions;
  readonly #turns = new Turns();
  /** Set while a start's checkpoint waits. */
  readonly #startAlarm: Alarm;
  /** Bytes appended up to the last checkpoint. */
  #appendedBytes: number;

  constructor(options: CheckpointsOptions) {
    this.#options = options;
    this.#startAlarm = new Alarm(options.clock, () => this.makeIfDue());
    this.#appendedBytes = -options.replayedBytes;
  }

  /** Begins the checkpoint of a start: later if it can wait. */
  start(): void {
    if (this.pendingBytes > this.#dueBytes) this.#startAlarm.in(CHECKPOINT_AFTER_START_MS);
    this.makeIfDue();
  }

  /** Bytes appended since the last checkpoint, also if that failed. */
  get pendingBytes(): number {
    return this.#options.journal.appendedBytes - this.#appendedBytes;
  }

  /** Bytes of the segments before the current one that hold no content. The second checkpoint from now frees them. */
  get doneBytes(): number {
    const { segments, journal, ledger } = this.#options;
    const { segment: current } = journal.position;
    const done = segments.numbers.filter((number) => number < current && !ledger.state.liveBytes.has(number));
    return done.reduce((sum, number) => sum + segments.sizeOf(number), 0);
  }

  /** True if doneBytes is more than two snapshots need, because content was dropped or checkpoints failed. */
  get isMuchDone(): boolean {
    return this.doneBytes > DONE_FACTOR * this.#dueBytes;
  }

  get #dueBytes(): number {
    return Math.max(CHECKPOINT_BYTES_MIN, CHECKPOINT_SNAPSHOT_FACTOR * this.#options.adapter.bytes);
  }

  /** Begins a checkpoint if enough was appended. */
  makeIfDue(): void {
    const factor = this.#startAlarm.isSet ? OVERDUE_FACTOR : 1;
    if (this.pendingBytes > factor * this.#dueBytes) void this.make();
  }

  /** Begins a checkpoint, unless one is under way. Resolves when it is done, also if it failed. */
  async make(isShort = false): Promise<void> {
    if (!this.#turns.isFree) return await this.idle();
    const appendedBytes = this.#options.journal.appendedBytes;
    await this.#turns
      .do(() =>
        this.#make(isShort).finally(() => {
          // Also after a failure: else a checkpoint would follow every record.
          this.#appendedBytes = appendedBytes;
        }),
      )
      .catch((error) => this.#options.log.warn('checkpoint failed', { reason: wordsOf(error) }));
  }

  /** Does `work` while no checkpoint is under way. */
  without(work: () => Promise<void>): Promise<void> {
    return this.#turns.do(work);
  }

  idle(): Promise<void> {
    return this.#turns.idle();
  }

  /** Resolves when none is under way. From now on none begins by itself. */
  end(): Promise<void> {
    this.#startAlarm.end();
    return this.idle();
  }

  /** Rejects like Journal.append, or with the disk's error. */
  async #make(isShort: boolean): Promise<void> {
    const { ledger, journal, segments, adapter, log } = this.#options;
    // No snapshot needs these segments for a replay. They stay only for their content.
    const oldSegments = () => segments.numbers.filter((segment) => segment < adapter.neededFrom);
    // Free unneeded segments even if the disk has no room to move content out of the others.
    await relocate({ ...this.#options, isShort, old: oldSegments() }).catch((error) =>
      log.warn('checkpoint failed', { reason: wordsOf(error) }),
    );
    // Make this list before the sync. An outcome recorded during the sync may be lost, so its content must stay.
    const done = segments.numbers.filter((segment) => !ledger.state.liveBytes.has(segment));
    await journal.sync();
    await this.#options.write();
    const old = new Set(oldSegments());
    const failures: unknown[] = [];
    for (const segment of done) {
      // If one segment cannot be freed, the others still are.
      if (old.has(segment)) await segments.free(segment).catch((error) => failures.push(error));
    }
    if (failures.length > 0) throw failures[0];
  }
}
