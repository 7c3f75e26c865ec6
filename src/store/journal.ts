/**
 * The journal: records (record.ts) appended to segments (segments.ts).
 *
 * Group commit: what is handed over while a sync is under way goes together into the next write and sync.
 * Never append after doubt: every start, write error and sync error goes on in a new segment, as does a full
 * one. Its first record says how far the segment before counts, which is as far as it is proven to be on the
 * device; what was written behind that is void there and written anew here. Only journaled-store.ts uses this.
 */
import type { FieldpostError } from '../errors.js';
import { OUTCOME_SYNC_COUNT, OUTCOME_SYNC_MS } from '../limits.js';
import { Alarm } from '../retry/alarm.js';
import type { Clock } from '../system/clock.js';
import { Turns } from '../turns.js';
import { AppendQueue, type Entry, type Urgency, type Waiter } from './append-queue.js';
import type { Position } from './event.js';
import {
  CONTENTS_OFFSET,
  encodeLine,
  encodeLines,
  type Follows,
  type JournalRecord,
  merge,
  movesOf,
  type SealedRecord,
  seal,
} from './record.js';
import type { Prepared, Segments } from './segments.js';
import { asFailure, asTrouble } from './trouble.js';

/** What the ledger hands to the journal. */
export interface JournalOptions {
  readonly segments: Segments;
  readonly clock: Clock;
  /** Stands at the head of every segment, so that it survives the loss of both snapshots. */
  readonly storeId: string;
  /** How far the history of the last run counts. */
  readonly follows: Follows;
  /** Records behind that which are valid but not known to be on the device; applied already. */
  readonly unproven: readonly JournalRecord[];
  /** Called for each record, in order, once it is as sure as asked; again, with contents, if it had to be written anew. */
  readonly apply: (record: JournalRecord, contentsAt: Position) => void;
  /** Called whenever all that was applied is known to be on the device. */
  readonly onProven: () => void;
  /** Called when the disk refuses to keep data, and with null when it does so again. */
  readonly onTrouble: (trouble: FieldpostError | null) => void;
}

/** The segment being written. `offset`: where the next record goes. */
interface Current {
  readonly segment: Prepared;
  offset: number;
}

/** One writer; every append waits its turn and is answered when it is as sure as asked. */
export class Journal {
  readonly #options: JournalOptions;
  readonly #queue = new AppendQueue();
  #current: Current | null = null;
  /** The end of what is known to be on the device. */
  #proven: Follows;
  /** Written and applied behind that. */
  #unproven: SealedRecord[];
  #trouble: FieldpostError | null = null;
  readonly #turns = new Turns();
  /** True from the moment something is handed over until all of it is written. */
  #isAwake = false;
  readonly #syncAlarm: Alarm;
  #syncDue = false;
  #syncWaiters: Waiter[] = [];
  #appendedBytes = 0;

  constructor(options: JournalOptions) {
    this.#options = options;
    this.#proven = options.follows;
    this.#unproven = options.unproven.map(seal);
    this.#syncAlarm = new Alarm(options.clock, () => {
      this.#syncDue = true;
      this.#wake();
    });
  }

  /** Bytes appended since the start. Those left over in a segment count: a disk that fails now and then leaves many. */
  get appendedBytes(): number {
    return this.#appendedBytes;
  }

  /** True while something that was written may be found by the next start, or not. */
  get isInDoubt(): boolean {
    return this.#trouble !== null || this.#unproven.length > 0;
  }

  /** Bytes that outcomes may still fill without a new segment; 0 while it is not certain that they can be kept. */
  get roomBytes(): number {
    if (this.#trouble || !this.#current) return 0;
    return this.#current.segment.bytes - this.#current.offset;
  }

  /** The end of what has been applied: a snapshot taken in the same synchronous step includes all before it. */
  get position(): Position {
    return this.#current
      ? { segment: this.#current.segment.number, offset: this.#current.offset }
      : { segment: this.#proven.segment, offset: this.#proven.upTo };
  }

  /**
   * Resolves once the record is applied. Rejects, applied nowhere, with `storage-full` or `busy` if no segment can
   * be prepared for want of room or of descriptors, and with `storage-failed` if the disk refuses: then the outcome is unknown.
   */
  append(record: JournalRecord, urgency: Urgency): Promise<void> {
    if (this.#trouble) return Promise.reject(this.#trouble);
    return new Promise((resolve, reject) => {
      this.#queue.push({ record: seal(record), urgency, resolve, reject });
      this.#wake();
    });
  }

  /** Resolves once all that was applied before the call is on the device; rejects like append. */
  sync(): Promise<void> {
    if (this.#trouble) return Promise.reject(this.#trouble);
    if (this.#unproven.length === 0) return Promise.resolve();
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
      if (!this.#trouble) await this.#begin(await this.#options.segments.take(this.#bytesAnew([])), []);
    });
    if (this.#trouble) throw this.#trouble;
  }

  /** Waits for what was handed over, and closes the current segment. */
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

  /** It begins after the call that wakes it: what the present turn of the event loop still hands over shares the first sync. */
  async #run(): Promise<void> {
    while (!this.#queue.isEmpty || this.#syncDue) {
      const trouble = this.#trouble;
      if (trouble) {
        this.#syncDue = false;
        for (const entry of this.#queue.takeAll()) entry.reject(trouble);
        break;
      }
      const group = this.#current ? this.#queue.takeFitting(this.roomBytes) : [];
      if (group.length > 0 || this.#syncDue) await this.#commit(group);
      else await this.#turnOver();
    }
    this.#isAwake = false;
  }

  async #commit(group: Entry[]): Promise<void> {
    const current = this.#current;
    const durable =
      this.#syncDue ||
      group.some(({ urgency }) => urgency !== 'written') ||
      this.#unproven.length + group.length >= OUTCOME_SYNC_COUNT;
    if (!current) return await this.#renew(group);
    const records = group.map(({ record }) => record);
    const at = { segment: current.segment.number, synced: this.#syncedIn(current) };
    const { bytes, starts } = encodeLines(records, current.offset, at);
    try {
      if (bytes.length > 0) await current.segment.file.write(bytes, current.offset);
      if (durable) await current.segment.file.sync();
    } catch {
      // A failed sync is never repeated on the same file: the kernel may have dropped the pages and called
      // them clean.
      await this.#leave();
      return await this.#renew(group);
    }
    current.offset += bytes.length;
    this.#appendedBytes += bytes.length;
    this.#unproven.push(...records);
    if (durable) this.#prove(current);
    else if (!this.#syncAlarm.isSet) this.#syncAlarm.in(OUTCOME_SYNC_MS);
    this.#settle(group, current.segment.number, starts);
  }

  /** The head does not fit: goes on in a new segment. Without room for one, outcomes go where they still fit. */
  async #turnOver(): Promise<void> {
    const group = this.#queue.takeForNew();
    let next: Prepared;
    try {
      next = await this.#options.segments.take(this.#bytesAnew(group));
    } catch (error) {
      const trouble = asTrouble(error);
      if (trouble.code === 'storage-failed') this.#setTrouble(trouble);
      const others = trouble.code === 'storage-failed' ? group : this.#queue.putBackOutcomes(group);
      for (const entry of others) entry.reject(trouble);
      return;
    }
    if (!(await this.#begin(next, group).catch(() => false))) await this.#renew(group);
  }

  /** Tries the group, and all that is unproven, in a new segment; if that fails too, this is trouble. */
  async #renew(group: Entry[]): Promise<void> {
    try {
      await this.#begin(await this.#options.segments.take(this.#bytesAnew(group)), group);
    } catch (error) {
      this.#setTrouble(asTrouble(error));
      // It was written once, and may be found by the next start: nobody is told that it was refused.
      for (const entry of group) entry.reject(asFailure(error));
    }
  }

  /** Writes a head with all that is unproven, and the group, to a new segment in one sync. Throws if it cannot. */
  async #begin(segment: Prepared, group: Entry[]): Promise<true> {
    const { storeId: store } = this.#options;
    await this.#leave();
    const carried = seal(merge(this.#unproven));
    const at = { segment: segment.number, synced: 0 };
    const head = encodeLine(carried, { ...at, head: { store, follows: this.#proven } });
    const records = group.map(({ record }) => record);
    const { bytes, starts } = encodeLines(records, head.length, at);
    try {
      await segment.file.write(Buffer.concat([head, bytes]), 0);
      await segment.file.sync();
    } catch (error) {
      await segment.file.close().catch(() => undefined);
      // Nothing in it was promised; kept, each try of a disk that fails now and then would leave one behind.
      await this.#options.segments.abandon(segment.number);
      throw error;
    }
    this.#current = { segment, offset: head.length + bytes.length };
    this.#appendedBytes += this.#current.offset;
    this.#prove(this.#current);
    if (this.#trouble) this.#setTrouble(null);
    // What is carried was applied before; only where its contents lie is news.
    if (carried.contents.length > 0) this.#apply(movesOf(carried), segment.number, 0);
    this.#settle(group, segment.number, starts);
    this.#options.segments.prepareAhead();
    return true;
  }

  #bytesAnew(group: readonly Entry[]): number {
    const records = [seal(merge(this.#unproven)), ...group.map(({ record }) => record)];
    return records.reduce((sum, { bytesMax }) => sum + bytesMax, 0);
  }

  /** Applies the group's records in order, then answers. */
  #settle(group: Entry[], segment: number, starts: readonly number[]): void {
    group.forEach(({ record }, i) => {
      this.#apply(record, segment, starts[i] ?? 0);
    });
    for (const entry of group) entry.resolve();
    if (!this.isInDoubt) this.#options.onProven();
  }

  #apply(record: JournalRecord, segment: number, start: number): void {
    this.#options.apply(record, { segment, offset: start + CONTENTS_OFFSET });
  }

  /** Closes the current segment for good. What is unproven in it does not count. */
  async #leave(): Promise<void> {
    const current = this.#current;
    this.#current = null;
    if (current) this.#appendedBytes += current.segment.bytes - current.offset;
    // Whatever close says, the file is not written to again.
    await current?.segment.file.close().catch(() => undefined);
  }

  /** All that was written to the current segment is on the device. */
  #prove(current: Current): void {
    this.#proven = { segment: current.segment.number, upTo: current.offset };
    this.#unproven = [];
    this.#syncDue = false;
    this.#syncAlarm.off();
    for (const waiter of this.#syncWaiters.splice(0)) waiter.resolve();
  }

  #syncedIn(current: Current): number {
    return this.#proven.segment === current.segment.number ? this.#proven.upTo : 0;
  }

  #setTrouble(trouble: FieldpostError | null): void {
    this.#trouble = trouble;
    if (trouble) for (const waiter of this.#syncWaiters.splice(0)) waiter.reject(trouble);
    this.#options.onTrouble(trouble);
  }
}
