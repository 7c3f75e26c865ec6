/**
 * The journal: appends records to segments.
 *
 * Group commit: records that arrive during a sync share the next write and sync. A start goes on in the last segment. Never
 * append after doubt: every write error and sync error begins a new segment, as a full segment does, and so does a start that
 * finds damage. Its first record says up to which offset the previous segment is proven to be on the device, and so valid.
 * Later records are void in the old segment, and are written again in the new one.
 */
import type { FieldpostError } from '../../base/errors.js';
import {
  OUTCOME_RESERVE_BYTES,
  OUTCOME_SYNC_COUNT,
  OUTCOME_SYNC_MS,
  SEGMENT_BYTES,
} from '../../base/limits.js';
import { Alarm } from '../../base/retry/alarm.js';
import type { Clock } from '../../base/system/clock.js';
import { Turns } from '../../base/turns.js';
import { asDiskError, asStorageFailed } from './disk-error.js';
import type { Position } from './event.js';
import { type JournalRecord, type SealedRecord, seal } from './record.js';
import type { Prepared } from './segments.js';
import { Tail, type TailOptions } from './tail.js';

/**
 * What a record needs before it is applied: a sync, or only a write. `written` and `synced-outcome` are for outcomes, which
 * may use the reserve at the end of a segment.
 */
export type Urgency = 'synced' | 'synced-outcome' | 'written';

/** What the journal needs, and its callbacks. */
export interface JournalOptions extends TailOptions {
  readonly clock: Clock;
  /** Called whenever all applied records are known to be on the device. */
  readonly onProven: () => void;
  /** Called when the disk refuses to keep data, and with null when it works again. */
  readonly onTrouble: (trouble: FieldpostError | null, before: FieldpostError | null) => void;
}

interface Waiter {
  readonly resolve: () => void;
  readonly reject: (error: FieldpostError) => void;
}

interface Append extends Waiter {
  readonly record: SealedRecord;
  readonly urgency: Urgency;
}

/** The only writer: appends wait their turn. */
export class Journal {
  readonly #options: JournalOptions;
  readonly #tail: Tail;
  readonly #turns = new Turns();
  #waiting: Append[] = [];
  /** True from an append until all is written. */
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

  /** Why the disk cannot keep data now, or null. */
  get trouble(): FieldpostError | null {
    return this.#trouble;
  }

  /** Bytes appended since the start, and bytes left over in segments. */
  get appendedBytes(): number {
    return this.#tail.appendedBytes;
  }

  /** True while it is unknown whether the next start will find all that was written. */
  get isInDoubt(): boolean {
    return this.#trouble !== null || this.#tail.unproven > 0;
  }

  /** Bytes that outcomes can still fill without a new segment; 0 while the disk refuses. */
  get reserveBytes(): number {
    return this.#trouble ? 0 : this.#tail.leftBytes;
  }

  /** The end of what is applied: a snapshot taken in the same synchronous step includes all before it. */
  get position(): Position {
    return this.#tail.position;
  }

  /**
   * Resolves once the record is applied. Rejects with `storage-full` or `busy` if room or descriptors for a segment are
   * missing, and nothing is applied; with `storage-failed` if the disk refuses, and the outcome is unknown.
   */
  append(record: JournalRecord, urgency: Urgency): Promise<void> {
    if (this.#trouble) return Promise.reject(this.#trouble);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ record: seal(record), urgency, resolve, reject });
      this.#wake();
    });
  }

  /** Resolves once all that was applied before the call is on the device. Rejects like append. */
  sync(): Promise<void> {
    if (this.#trouble) return Promise.reject(this.#trouble);
    if (this.#tail.unproven === 0) return Promise.resolve();
    return new Promise((resolve, reject) => {
      this.#syncWaiters.push({ resolve, reject });
      this.#syncDue = true;
      this.#wake();
    });
  }

  /** Goes on where the last run ended, or in a new segment if records are unproven. Resolves also if that fails. */
  resume(): Promise<void> {
    return this.#turns.do(async () => {
      if (!(await this.#tail.resume()) && this.#tail.unproven > 0) await this.#renew([]);
    });
  }

  /** Tries a new segment, after trouble or a gap in the history. Resolves also if that fails. */
  mend(): Promise<void> {
    return this.#turns.do(() => this.#renew([]));
  }

  /** Removes segments that are prepared or kept for later, until so many bytes fit. */
  giveWay(neededBytes: number): Promise<void> {
    return this.#turns.do(() => this.#options.segments.giveWay(neededBytes));
  }

  /** Goes on in a new segment after `prepare`. Rejects as that does, or like append. */
  async beginAnew(prepare: () => Promise<void>): Promise<void> {
    await this.#turns.do(async () => {
      await prepare();
      if (!this.#trouble) await this.#begin(await this.#takeSegment([]), []);
    });
    if (this.#trouble) throw this.#trouble;
  }

  /** Waits for all appends, and closes the current segment. */
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

  /** Begins after the call that wakes it, so that records of one turn of the event loop share the first sync. */
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

  /** Takes the records that fit into the segment, in order. The reserve at its end is for outcomes alone. */
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

  /** Takes the first record, and further ones while an ordinary new segment stays half empty. */
  #takeForNew(): Append[] {
    let bytes = 0;
    const end = this.#waiting.findIndex(({ record }, i) => {
      bytes += record.bytesMax;
      return i > 0 && bytes > SEGMENT_BYTES / 2;
    });
    return this.#waiting.splice(0, end === -1 ? this.#waiting.length : end);
  }

  /** Puts outcomes back into the queue, but never the first record: the queue would not advance. Returns the others. */
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

  /** Writes the group, and all that is unproven, in a new segment. If that fails too, this is trouble. */
  async #renew(group: readonly Append[]): Promise<void> {
    try {
      await this.#begin(await this.#takeSegment(group), group);
    } catch (error) {
      this.#setTrouble(asDiskError(error));
      // The next start may find the first try's records: the outcome is unknown, not a refusal.
      for (const append of group) append.reject(asStorageFailed(error));
    }
  }

  #takeSegment(group: readonly Append[]): Promise<Prepared> {
    return this.#options.segments.take(this.#tail.bytesAnew(recordsOf(group)));
  }

  /** A new segment is always synced, because its head voids all records behind the proven end of the previous one. */
  async #begin(segment: Prepared, group: readonly Append[]): Promise<void> {
    await this.#tail.begin(segment, recordsOf(group));
    if (this.#trouble) this.#setTrouble(null);
    this.#answer(group);
    this.#options.segments.prepareAhead();
  }

  /** Resolves the group, which is applied; after a sync also the calls that wait for one. */
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
