/**
 * The journal: records (record.ts) appended to segments (segments.ts). Used by ledger.ts.
 *
 * Group commit: records handed over while a sync is under way share the next write and sync.
 * Never append after doubt: every start, every write error and every sync error begins a new segment, and so does a
 * full one. Its first record says how far the segment before counts: as far as it is proven to be on the device. Records
 * behind that are void there, and are written again in the new segment.
 */
import type { FieldpostError } from '../errors.js';
import { OUTCOME_RESERVE_BYTES, OUTCOME_SYNC_COUNT, OUTCOME_SYNC_MS, SEGMENT_BYTES } from '../limits.js';
import { Alarm } from '../retry/alarm.js';
import type { Clock } from '../system/clock.js';
import { Turns } from '../turns.js';
import { asDiskError, asStorageFailed } from './disk-error.js';
import type { Position } from './event.js';
import { type JournalRecord, type SealedRecord, seal } from './record.js';
import type { Prepared } from './segments.js';
import { Tail, type TailOptions } from './tail.js';

/**
 * How sure a record must be before it is applied: synced, or only `written`. `written` and `synced-outcome` are for
 * outcomes, which may use the reserve at the end of a segment.
 */
export type Urgency = 'synced' | 'synced-outcome' | 'written';

/** What the ledger hands to the journal. */
export interface JournalOptions extends TailOptions {
  readonly clock: Clock;
  /** Called whenever all that was applied is known to be on the device. */
  readonly onProven: () => void;
  /** Called when the disk refuses to keep data, and with null when it is well again. */
  readonly onTrouble: (trouble: FieldpostError | null, before: FieldpostError | null) => void;
}

interface Waiter {
  readonly resolve: () => void;
  readonly reject: (error: FieldpostError) => void;
}

/** A record that waits to be written. */
interface Append extends Waiter {
  readonly record: SealedRecord;
  readonly urgency: Urgency;
}

/** One writer; every append waits its turn and is answered when it is as sure as asked. */
export class Journal {
  readonly #options: JournalOptions;
  readonly #tail: Tail;
  readonly #turns = new Turns();
  /** What was handed over and is not written yet. */
  #waiting: Append[] = [];
  /** True from the moment something is handed over until all of it is written. */
  #isAwake = false;
  readonly #syncAlarm: Alarm;
  #syncDue = false;
  #syncWaiters: Waiter[] = [];
  #trouble: FieldpostError | null = null;

  constructor(options: JournalOptions) {
    this.#options = options;
    this.#tail = new Tail(options);
    this.#syncAlarm = new Alarm(options.clock, () => {
      this.#syncDue = true;
      this.#wake();
    });
  }

  /** Why the disk keeps nothing at the moment, or null. */
  get trouble(): FieldpostError | null {
    return this.#trouble;
  }

  /** Bytes appended since the start, and what was left over in segments. */
  get appendedBytes(): number {
    return this.#tail.appendedBytes;
  }

  /** True while nobody knows whether the next start will find all that was written. */
  get isInDoubt(): boolean {
    return this.#trouble !== null || this.#tail.unproven > 0;
  }

  /** Bytes that outcomes can still fill without a new segment; 0 while the disk refuses. */
  get reserveBytes(): number {
    return this.#trouble ? 0 : this.#tail.leftBytes;
  }

  /** The end of what has been applied: a snapshot taken in the same synchronous step includes all before it. */
  get position(): Position {
    return this.#tail.position;
  }

  /**
   * Resolves once the record is applied. Rejects, applied nowhere, with `storage-full` or `busy` if no segment can
   * be prepared for want of room or of descriptors, and with `storage-failed` if the disk refuses: then the outcome is unknown.
   */
  append(record: JournalRecord, urgency: Urgency): Promise<void> {
    if (this.#trouble) return Promise.reject(this.#trouble);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ record: seal(record), urgency, resolve, reject });
      this.#wake();
    });
  }

  /** Resolves once all that was applied before the call is on the device; rejects like append. */
  sync(): Promise<void> {
    if (this.#trouble) return Promise.reject(this.#trouble);
    if (this.#tail.unproven === 0) return Promise.resolve();
    return new Promise((resolve, reject) => {
      this.#syncWaiters.push({ resolve, reject });
      this.#syncDue = true;
      this.#wake();
    });
  }

  /** After trouble, or a start that found unproven records: tries a new segment. Resolves also if that fails. */
  mend(): Promise<void> {
    return this.#turns.do(() => this.#renew([]));
  }

  /** Goes on in a new segment once `prepare` is done. Rejects with what that says, or like append. */
  async beginAnew(prepare: () => Promise<void>): Promise<void> {
    await this.#turns.do(async () => {
      await prepare();
      if (!this.#trouble) await this.#begin(await this.#takeSegment([]), []);
    });
    if (this.#trouble) throw this.#trouble;
  }

  /** Waits for what was handed over, and closes the current segment. */
  async close(): Promise<void> {
    await this.#turns.idle();
    this.#syncAlarm.end();
    await this.#tail.leave();
  }

  #wake(): void {
    if (this.#isAwake) return;
    this.#isAwake = true;
    void this.#turns.do(() => this.#run());
  }

  /** It begins after the call that wakes it, so records of the same turn of the event loop share the first sync. */
  async #run(): Promise<void> {
    while (this.#waiting.length > 0 || this.#syncDue) {
      if (this.#trouble) {
        this.#syncDue = false;
        for (const append of this.#waiting.splice(0)) append.reject(this.#trouble);
        break;
      }
      const group = this.#takeFitting();
      if (group.length > 0 || this.#syncDue) await this.#commit(group);
      else await this.#turnOver();
    }
    this.#isAwake = false;
  }

  /** Takes what fits into the segment, in order. The reserve at its end is for outcomes alone. */
  #takeFitting(): Append[] {
    let left = this.#tail.leftBytes;
    let count = 0;
    for (const { record, urgency } of this.#waiting) {
      left -= record.bytesMax;
      if (left < (urgency === 'synced' ? OUTCOME_RESERVE_BYTES : 0)) break;
      count++;
    }
    return this.#waiting.splice(0, count);
  }

  /** Takes the first record, and as many behind it as leave an ordinary new segment half empty. */
  #takeForNew(): Append[] {
    let bytes = 0;
    const end = this.#waiting.findIndex(({ record }, i) => {
      bytes += record.bytesMax;
      return i > 0 && bytes > SEGMENT_BYTES / 2;
    });
    return this.#waiting.splice(0, end === -1 ? this.#waiting.length : end);
  }

  /** Puts outcomes back, except the first record, which else would come back for ever. Gives the others. */
  #putBackOutcomes(group: readonly Append[]): Append[] {
    const isOutcome = ({ urgency }: Append, i: number) => i > 0 && urgency !== 'synced';
    this.#waiting.unshift(...group.filter(isOutcome));
    return group.filter((append, i) => !isOutcome(append, i));
  }

  async #commit(group: readonly Append[]): Promise<void> {
    const durable =
      this.#syncDue ||
      group.some(({ urgency }) => urgency !== 'written') ||
      this.#tail.unproven + group.length >= OUTCOME_SYNC_COUNT;
    const isWritten = this.#tail.isOpen && (await this.#tail.write(recordsOf(group), durable));
    if (!isWritten) return await this.#renew(group);
    if (!durable && !this.#syncAlarm.isSet) this.#syncAlarm.in(OUTCOME_SYNC_MS);
    this.#answer(group);
  }

  /** Goes on in a new segment. Without room for one, outcomes that still fit are put back. */
  async #turnOver(): Promise<void> {
    const group = this.#takeForNew();
    let next: Prepared;
    try {
      next = await this.#takeSegment(group);
    } catch (error) {
      const trouble = asDiskError(error);
      if (trouble.code === 'storage-failed') this.#setTrouble(trouble);
      const others = trouble.code === 'storage-failed' ? group : this.#putBackOutcomes(group);
      for (const append of others) append.reject(trouble);
      return;
    }
    await this.#begin(next, group).catch(() => this.#renew(group));
  }

  /** Tries the group, and all that is unproven, in a new segment; if that fails too, this is trouble. */
  async #renew(group: readonly Append[]): Promise<void> {
    try {
      await this.#begin(await this.#takeSegment(group), group);
    } catch (error) {
      this.#setTrouble(asDiskError(error));
      // It was written once, and the next start may find it: its outcome is unknown, not refused.
      for (const append of group) append.reject(asStorageFailed(error));
    }
  }

  #takeSegment(group: readonly Append[]): Promise<Prepared> {
    return this.#options.segments.take(this.#tail.bytesAnew(recordsOf(group)));
  }

  /** A new segment is always synced: its head voids what the one before holds behind its proven end. */
  async #begin(segment: Prepared, group: readonly Append[]): Promise<void> {
    await this.#tail.begin(segment, recordsOf(group));
    if (this.#trouble) this.#setTrouble(null);
    this.#answer(group);
    this.#options.segments.prepareAhead();
  }

  /** Answers the group, which is applied; after a sync also those who wait for one. */
  #answer(group: readonly Append[]): void {
    if (this.#tail.unproven === 0) {
      this.#syncDue = false;
      this.#syncAlarm.off();
      for (const waiter of this.#syncWaiters.splice(0)) waiter.resolve();
    }
    for (const append of group) append.resolve();
    if (!this.isInDoubt) this.#options.onProven();
  }

  #setTrouble(trouble: FieldpostError | null): void {
    const before = this.#trouble;
    this.#trouble = trouble;
    if (trouble) for (const waiter of this.#syncWaiters.splice(0)) waiter.reject(trouble);
    this.#options.onTrouble(trouble, before);
  }
}

function recordsOf(group: readonly Append[]): SealedRecord[] {
  return group.map(({ record }) => record);
}
