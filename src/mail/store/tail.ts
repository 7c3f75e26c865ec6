/**
 * The end of the journal: the current segment, and how much of it is known to be on the device.
 */
import { OUTCOME_RESERVE_BYTES, PAGE_BYTES } from '../../base/limits.js';
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

/** The tail's part of the journal's options. */
export interface TailOptions {
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
}

/** Appends records, after doubt in a new segment. */
export class Tail {
  readonly #options: TailOptions;
  #segment: Prepared | null = null;
  /** Where the next record begins. */
  #offset = 0;
  /** All before it is known to be on the device. */
  #proven: Follows;
  /** Applied records behind it. */
  #unproven: SealedRecord[];
  #appendedBytes = 0;

  constructor(options: TailOptions) {
    this.#options = options;
    this.#proven = options.follows;
    this.#unproven = options.unproven.map(seal);
  }

  /** False before the first `begin`, and after a failure. */
  get isOpen(): boolean {
    return this.#segment !== null;
  }

  /** Bytes that the segment still takes. */
  get leftBytes(): number {
    return this.#segment ? this.#segment.bytes - this.#offset : 0;
  }

  /** The end of the applied records. */
  get position(): Position {
    return this.#segment
      ? { segment: this.#segment.number, offset: this.#offset }
      : { segment: this.#proven.segment, offset: this.#proven.upTo };
  }

  get unproven(): number {
    return this.#unproven.length;
  }

  /** Bytes appended since the start, and unused bytes of the segments left: a disk that fails now and then leaves many. */
  get appendedBytes(): number {
    return this.#appendedBytes;
  }

  /** Writes records, with a sync if `durable`, and applies them. False if the disk refuses: the segment is left. */
  async write(records: readonly SealedRecord[], durable: boolean): Promise<boolean> {
    const segment = this.#segment as Prepared;
    const synced = this.#proven.segment === segment.number ? this.#proven.upTo : 0;
    const context = { segment: segment.number, synced };
    const paddingAt = (end: number) => (durable ? paddingFor(end, end - synced, segment.bytes) : 0);
    const { bytes, starts } = encodeLines(records, this.#offset, context, paddingAt);
    try {
      await this.#put(segment, bytes, durable);
    } catch {
      // A failed sync is never repeated on the same file: the kernel may have dropped the pages and called them clean.
      await this.leave();
      return false;
    }
    this.#advance(bytes.length);
    this.#unproven.push(...records);
    if (durable) this.#prove();
    this.#apply(records, starts);
    return true;
  }

  async #put({ file }: Prepared, bytes: Buffer, durable: boolean): Promise<void> {
    // What stands before these bytes must be on the device, too: a durable write covers only its own bytes.
    if (durable && this.#unproven.length === 0) return await file.writeDurably(bytes, this.#offset);
    if (bytes.length > 0) await file.write(bytes, this.#offset);
    if (durable) await file.sync();
  }

  /**
   * Goes on in the last segment: writes there once more what is not known to be on the device, because the last run may have
   * been told that it is not. False if that is not possible.
   */
  async resume(): Promise<boolean> {
    const { resumable, segments } = this.#options;
    if (resumable === null || this.#segment !== null) return false;
    const { segment: number, from, bytes, end } = resumable;
    const segment = await segments.reopen(number).catch(() => null);
    if (segment === null) return false;
    try {
      if (bytes.length > 0) await segment.file.writeDurably(bytes, from);
    } catch {
      await segment.file.close().catch(() => undefined);
      return false;
    }
    this.#segment = segment;
    this.#offset = end;
    this.#prove();
    return true;
  }

  /** Bytes that `begin` needs for these records. */
  bytesAnew(records: readonly SealedRecord[]): number {
    return [seal(merge(this.#unproven)), ...records].reduce((sum, { bytesMax }) => sum + bytesMax, 0);
  }

  /**
   * Goes on in a new segment: writes its head, with all unproven records, and the new records, in one sync. If it rejects
   * with the disk's error, nothing in that segment is promised.
   */
  async begin(segment: Prepared, records: readonly SealedRecord[]): Promise<void> {
    const { segments, storeId: store } = this.#options;
    await this.leave();
    const carried = seal(merge(this.#unproven));
    const at = { segment: segment.number, synced: 0 };
    const head = encodeLine(carried, { ...at, head: { store, follows: this.#proven } });
    const { bytes, starts } = encodeLines(records, head.length, at);
    try {
      // Nothing stands before them.
      await segment.file.writeDurably(Buffer.concat([head, bytes]), 0);
    } catch (error) {
      await segment.file.close().catch(() => undefined);
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
  }

  /** Closes the segment for good. Its unproven records do not count. */
  async leave(): Promise<void> {
    const segment = this.#segment;
    this.#appendedBytes += this.leftBytes;
    this.#segment = null;
    await segment?.file.close().catch(() => undefined);
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
