/**
 * The journal: appends records to segments.
 *
 * Group commit: records that arrive during a sync share the next write and sync. A start goes on in the last segment. Never
 * append after doubt: every write error and sync error begins a new segment, as a full segment does, and so does a start that
 * finds damage. Its first record says up to which offset the previous segment is proven to be on the device, and so valid.
 * Later records are void in the old segment, and are written again in the new one.
 */
import type { FieldpostError } from '../../base/errors.js';
import { OUTCOME_RESERVE_BYTES, PAGE_BYTES, SECOND_MS, SEGMENT_BYTES } from '../../base/limits.js';
import { Alarm } from '../../base/retry/alarm.js';
import type { Clock } from '../../base/system/clock.js';
import { Turns } from '../../base/turns.js';
import { asDiskError, asStorageFailed } from './disk-error.js';
import type { Position } from './event.js';
import {
  CONTENTS_OFFSET,
  encodeLine,
  encodeLines,
  type Follows,
  type JournalRecord,
  merge,
  movesOf,
  PADDING_BYTES_MAX,
  type SealedRecord,
  seal,
} from './record.js';
import type { Resumable } from './replay.js';
import type { Prepared, Segments } from './segments.js';

/** Lazy outcomes are synced after this long, or when this many wait. */
export const OUTCOME_SYNC_MS = SECOND_MS;
export const OUTCOME_SYNC_COUNT = 32;

/**
 * What a record needs before it is applied: a sync, or only a write. `written` and `synced-outcome` are for outcomes, which
 * may use the reserve at the end of a segment.
 */
export type Urgency = 'synced' | 'synced-outcome' | 'written';

interface JournalOptions {
  readonly clock: Clock;
  readonly segments: Segments;
  /** Every head has it, so that it survives the loss of both snapshots. */
  readonly storeId: string;
  /** The end of the last run's history. */
  readonly follows: Follows;
  /** Records behind it that are applied, and not known to be on the device. */
  readonly unproven: readonly JournalRecord[];
  /** Where the last run's history can go on; null: only in a new segment. */
  readonly resumable: Resumable | null;
  /** Called for each written record, in order. Called again with moved contents if a record is written again. */
  readonly apply: (record: JournalRecord, contentsAt: Position) => void;
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
  readonly #turns = new Turns();
  /** Null before the first segment, and after a failure. */
  #segment: Prepared | null = null;
  /** Where the next record begins. */
  #offset = 0;
  /** All before it is known to be on the device. */
  #proven: Follows;
  /** Applied records behind it. */
  #unproven: SealedRecord[];
  #appendedBytes = 0;
  #waiting: Append[] = [];
  /** True from an append until all is written. */
  #isAwake = false;
  readonly #syncAlarm: Alarm;
  #syncDue = false;
  #syncWaiters: Waiter[] = [];
  #trouble: FieldpostError | null = null;

  constructor(options: JournalOptions) {
    this.#options = options;
    this.#proven = options.follows;
    this.#unproven = options.unproven.map(seal);
    this.#syncAlarm = new Alarm(options.clock, () => {
      this.#syncDue = true;
      this.#wake();
    });
  }

  /** Why the disk cannot keep data now, or null. */
  get trouble(): FieldpostError | null {
    return this.#trouble;
  }

  /** Bytes appended since the start, and unused bytes of the segments left: a disk that fails now and then leaves many. */
  get appendedBytes(): number {
    return this.#appendedBytes;
  }

  /** True while it is unknown whether the next start will find all that was written. */
  get isInDoubt(): boolean {
    return this.#trouble !== null || this.#unproven.length > 0;
  }

  /** Bytes that outcomes can still fill without a new segment; 0 while the disk refuses. */
  get reserveBytes(): number {
    return this.#trouble ? 0 : this.#leftBytes;
  }

  get #leftBytes(): number {
    return this.#segment ? this.#segment.bytes - this.#offset : 0;
  }

  /** The end of what is applied: a snapshot taken in the same synchronous step includes all before it. */
  get position(): Position {
    return this.#segment
      ? { segment: this.#segment.number, offset: this.#offset }
      : { segment: this.#proven.segment, offset: this.#proven.upTo };
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
    if (this.#unproven.length === 0) return Promise.resolve();
    return new Promise((resolve, reject) => {
      this.#syncWaiters.push({ resolve, reject });
      this.#syncDue = true;
      this.#wake();
    });
  }

  /** Goes on where the last run ended, or in a new segment if records are unproven. Resolves also if that fails. */
  resume(): Promise<void> {
    return this.#turns.do(async () => {
      if (!(await this.#reopen()) && this.#unproven.length > 0) await this.#renew([]);
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
    await this.#leave();
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
    let left = this.#leftBytes;
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

  async #commit(group: readonly Append[]): Promise<void> {
    const durable =
      this.#syncDue ||
      group.some(({ urgency }) => urgency !== 'written') ||
      this.#unproven.length + group.length >= OUTCOME_SYNC_COUNT;
    const isWritten = this.#segment !== null && (await this.#write(this.#segment, recordsOf(group), durable));
    if (!isWritten) return await this.#renew(group);
    if (!durable && !this.#syncAlarm.isSet) this.#syncAlarm.in(OUTCOME_SYNC_MS);
    this.#answer(group);
  }

  /** Writes records, with a sync if `durable`, and applies them. False if the disk refuses: the segment is left. */
  async #write(segment: Prepared, records: readonly SealedRecord[], durable: boolean): Promise<boolean> {
    const synced = this.#proven.segment === segment.number ? this.#proven.upTo : 0;
    const context = { segment: segment.number, synced };
    const paddingAt = (end: number) => (durable ? paddingFor(end, end - synced, segment.bytes) : 0);
    const { bytes, starts } = encodeLines(records, this.#offset, context, paddingAt);
    try {
      await this.#put(segment, bytes, durable);
    } catch {
      // A failed sync is never repeated on the same file: the kernel may have dropped the pages and called them clean.
      await this.#leave();
      return false;
    }
    this.#advance(bytes.length);
    this.#unproven.push(...records);
    if (durable) this.#prove();
    this.#apply(records, starts);
    return true;
  }

  async #put({ file, durable }: Prepared, bytes: Buffer, isSynced: boolean): Promise<void> {
    // What stands before these bytes must be on the device, too: a durable write covers only its own bytes.
    if (isSynced && this.#unproven.length === 0) return await durable.write(bytes, this.#offset);
    if (bytes.length > 0) await file.write(bytes, this.#offset);
    if (isSynced) await file.sync();
  }

  /** Goes on in a new segment. Without room for one, outcomes that still fit go back into the queue. */
  async #turnOver(): Promise<void> {
    const group = this.#takeForNew();
    let next: Prepared;
    try {
      next = await this.#takeSegment(group);
    } catch (error) {
      const trouble = asDiskError(error);
      const isFailed = trouble.code === 'storage-failed';
      if (isFailed) this.#setTrouble(trouble);
      // Never the first record: the queue would not advance.
      const staysWaiting = ({ urgency }: Append, i: number) => !isFailed && i > 0 && urgency !== 'synced';
      this.#waiting.unshift(...group.filter(staysWaiting));
      for (const [i, append] of group.entries()) if (!staysWaiting(append, i)) append.reject(trouble);
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
    const records = [seal(merge(this.#unproven)), ...recordsOf(group)];
    return this.#options.segments.take(records.reduce((sum, { bytesMax }) => sum + bytesMax, 0));
  }

  /**
   * Goes on in a new segment: writes its head, with all unproven records, and the group, in one sync, because the head voids
   * all records behind the proven end of the previous one. If it rejects with the disk's error, nothing in that segment is
   * promised.
   */
  async #begin(segment: Prepared, group: readonly Append[]): Promise<void> {
    const { segments, storeId: store } = this.#options;
    await this.#leave();
    const records = recordsOf(group);
    const carried = seal(merge(this.#unproven));
    const at = { segment: segment.number, synced: 0 };
    const head = encodeLine(carried, { ...at, head: { store, follows: this.#proven } });
    const { bytes, starts } = encodeLines(records, head.length, at);
    try {
      // Nothing stands before them.
      await segment.durable.write(Buffer.concat([head, bytes]), 0);
    } catch (error) {
      await segment.close().catch(() => undefined);
      // A disk that fails now and then would otherwise fill with such segments.
      await segments.abandon(segment.number);
      throw error;
    }
    this.#segment = segment;
    this.#offset = 0;
    this.#advance(head.length + bytes.length);
    this.#prove();
    // The unproven records are applied: only their contents have moved.
    if (carried.contents.length > 0) this.#apply([movesOf(carried)], [0]);
    this.#apply(records, starts);
    if (this.#trouble) this.#setTrouble(null);
    this.#answer(group);
    segments.prepareAhead();
  }

  /**
   * Goes on in the last segment: writes there once more what is not known to be on the device, because the last run may have
   * been told that it is not. False if that is not possible.
   */
  async #reopen(): Promise<boolean> {
    const { resumable, segments } = this.#options;
    if (resumable === null || this.#segment !== null) return false;
    const { segment: number, from, bytes, end } = resumable;
    const segment = await segments.reopen(number).catch(() => null);
    if (segment === null) return false;
    try {
      if (bytes.length > 0) await segment.durable.write(bytes, from);
    } catch {
      await segment.close().catch(() => undefined);
      return false;
    }
    this.#segment = segment;
    this.#offset = end;
    this.#prove();
    return true;
  }

  /** Closes the segment for good. Its unproven records do not count. */
  async #leave(): Promise<void> {
    const segment = this.#segment;
    this.#appendedBytes += this.#leftBytes;
    this.#segment = null;
    await segment?.close().catch(() => undefined);
  }

  #advance(bytes: number): void {
    this.#offset += bytes;
    this.#appendedBytes += bytes;
  }

  #prove(): void {
    const { segment, offset } = this.position;
    this.#proven = { segment, upTo: offset };
    this.#unproven = [];
  }

  #apply(records: readonly JournalRecord[], starts: readonly number[]): void {
    const { segment } = this.position;
    records.forEach((record, i) => {
      this.#options.apply(record, { segment, offset: (starts[i] ?? 0) + CONTENTS_OFFSET });
    });
  }

  /** Resolves the group, which is applied; after a sync also the calls that wait for one. */
  #answer(group: readonly Append[]): void {
    if (this.#unproven.length === 0) {
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

/**
 * The padding behind a sync of `spanBytes` that saves the next sync a page. A page that two syncs share is written twice.
 * The next one is expected to be as long as this one. The padding is at most a third of a page, so that the journal grows by
 * at most half. The reserve of a segment is not padded.
 */
function paddingFor(end: number, spanBytes: number, segmentBytes: number): number {
  const restBytes = (PAGE_BYTES - (end % PAGE_BYTES)) % PAGE_BYTES;
  const isWorthIt = spanBytes <= PAGE_BYTES && restBytes < spanBytes && restBytes <= PADDING_BYTES_MAX;
  return isWorthIt && end + restBytes <= segmentBytes - OUTCOME_RESERVE_BYTES ? restBytes : 0;
}
