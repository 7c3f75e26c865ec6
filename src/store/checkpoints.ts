/**
 * Checkpoints: each writes a new snapshot, and the segments go that neither snapshot nor any content needs. One is made
 * at a time, and none during a purge. Used by ledger.ts.
 */
import { wordsOf } from '../errors.js';
import { CHECKPOINT_BYTES_MIN, CHECKPOINT_SNAPSHOT_FACTOR, DONE_FACTOR } from '../limits.js';
import type { Place } from '../message/message.js';
import type { Log } from '../system/log.js';
import { Turns } from '../turns.js';
import type { Journal } from './journal.js';
import { relocate } from './relocation.js';
import type { Segments } from './segments.js';
import type { SnapshotAdapter } from './snapshot.js';
import type { State } from './state.js';

/** What checkpoints work on. */
export interface CheckpointsOptions {
  readonly ledger: { readonly state: State; read(place: Place): Promise<Buffer> };
  readonly journal: Journal;
  readonly segments: Segments;
  readonly adapter: SnapshotAdapter;
  /** Writes a snapshot. */
  readonly write: () => Promise<void>;
  readonly log: Log;
  readonly maxSpoolBytes: number;
  /** Bytes that the start has replayed. They count whole, because each start begins a segment: power cuts would fill the disk. */
  readonly replayedBytes: number;
}

/** All checkpoints of a ledger. */
export class Checkpoints {
  readonly #options: CheckpointsOptions;
  readonly #turns = new Turns();
  /** What was appended up to the last one. */
  #appendedBytes: number;

  constructor(options: CheckpointsOptions) {
    this.#options = options;
    this.#appendedBytes = -options.replayedBytes;
  }

  /** Bytes appended since the last checkpoint, also if that failed. */
  get pendingBytes(): number {
    return this.#options.journal.appendedBytes - this.#appendedBytes;
  }

  /** Bytes of segments before the present one in which no content lies. The second checkpoint from now frees them. */
  get doneBytes(): number {
    const { segments, journal, ledger } = this.#options;
    const { segment: current } = journal.position;
    const done = segments.numbers.filter((number) => number < current && !ledger.state.liveBytes.has(number));
    return done.reduce((sum, number) => sum + segments.sizeOf(number), 0);
  }

  /** True if these are more than the two snapshots need: content was dropped since, or checkpoints have failed. */
  get isMuchDone(): boolean {
    return this.doneBytes > DONE_FACTOR * this.#dueBytes;
  }

  get #dueBytes(): number {
    return Math.max(CHECKPOINT_BYTES_MIN, CHECKPOINT_SNAPSHOT_FACTOR * this.#options.adapter.bytes);
  }

  /** Begins one if enough was appended. */
  makeIfDue(): void {
    if (this.pendingBytes > this.#dueBytes) void this.make();
  }

  /** Begins one, unless one is under way. Resolves when it is done, also if it failed. */
  async make(isShort = false): Promise<void> {
    if (!this.#turns.isFree) return await this.idle();
    const appendedBytes = this.#options.journal.appendedBytes;
    await this.#turns
      .do(() =>
        this.#make(isShort).finally(() => {
          // Also after a failure the next one waits for as many bytes, and does not follow at every record.
          this.#appendedBytes = appendedBytes;
        }),
      )
      .catch((error) => this.#options.log.warn('checkpoint failed', { reason: wordsOf(error) }));
  }

  /** Does `work` while no checkpoint is under way. Settles as `work` does. */
  without(work: () => Promise<void>): Promise<void> {
    return this.#turns.do(work);
  }

  /** Resolves once nothing is under way. */
  idle(): Promise<void> {
    return this.#turns.idle();
  }

  /** Rejects like Journal.append, or with what the disk says. */
  async #make(isShort: boolean): Promise<void> {
    const { ledger, journal, segments, adapter, log } = this.#options;
    /** Segments that no snapshot needs for a replay. They are kept only for content that lies in them. */
    const oldSegments = () => segments.numbers.filter((segment) => segment < adapter.neededFrom);
    // Segments that nothing needs are freed also where there is no room to move content out of others.
    await relocate({ ...this.#options, isShort, old: oldSegments() }).catch((error) =>
      log.warn('checkpoint failed', { reason: wordsOf(error) }),
    );
    // The records that gave up their content are synced next; an outcome written meanwhile is not.
    const done = segments.numbers.filter((segment) => !ledger.state.liveBytes.has(segment));
    await journal.sync();
    await this.#options.write();
    const old = new Set(oldSegments());
    const failures: unknown[] = [];
    for (const segment of done) {
      // One that cannot be freed keeps none of the others.
      if (old.has(segment)) await segments.free(segment).catch((error) => failures.push(error));
    }
    if (failures.length > 0) throw failures[0];
  }
}
