/**
 * The end of the journal: the segment being written, and how much of it is known to be on the device. Used by journal.ts.
 */
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

/** What a tail is given. */
export interface TailOptions {
  readonly segments: Segments;
  /** Stands at the head of every segment, so that it survives the loss of both snapshots. */
  readonly storeId: string;
  /** How far the history of the last run counts. */
  readonly follows: Follows;
  /** Records behind that which are valid but not known to be on the device; applied already. */
  readonly unproven: readonly JournalRecord[];
  /** Called for each record, in order, once it is as sure as asked. Called again with moved contents if it is written again. */
  readonly apply: (record: JournalRecord, contentsAt: Position) => void;
}

/** Writes records behind each other, and in a new segment after doubt. */
export class Tail {
  readonly #options: TailOptions;
  #segment: Prepared | null = null;
  /** Where the next record goes in it. */
  #offset = 0;
  /** The end of what is known to be on the device. */
  #proven: Follows;
  /** Records behind that, which are written and applied. */
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

  /** The end of what has been applied. */
  get position(): Position {
    return this.#segment
      ? { segment: this.#segment.number, offset: this.#offset }
      : { segment: this.#proven.segment, offset: this.#proven.upTo };
  }

  /** Records that are applied and not known to be on the device. */
  get unproven(): number {
    return this.#unproven.length;
  }

  /** Bytes appended since the start, and bytes left over in segments: a disk that fails now and then leaves many. */
  get appendedBytes(): number {
    return this.#appendedBytes;
  }

  /** Writes the records, with a sync if `durable`, and applies them. Gives false if the disk refuses: the segment is left. */
  async write(records: readonly SealedRecord[], durable: boolean): Promise<boolean> {
    const segment = this.#segment as Prepared;
    const synced = this.#proven.segment === segment.number ? this.#proven.upTo : 0;
    const { bytes, starts } = encodeLines(records, this.#offset, { segment: segment.number, synced });
    try {
      if (bytes.length > 0) await segment.file.write(bytes, this.#offset);
      if (durable) await segment.file.sync();
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

  /** Bytes that `begin` needs for these records. */
  bytesAnew(records: readonly SealedRecord[]): number {
    return [seal(merge(this.#unproven)), ...records].reduce((sum, { bytesMax }) => sum + bytesMax, 0);
  }

  /**
   * Goes on in a new segment: its head, with all that is unproven, and the records, in one sync. Rejects with what the
   * disk says: then nothing in that segment was promised.
   */
  async begin(segment: Prepared, records: readonly SealedRecord[]): Promise<void> {
    const { segments, storeId: store } = this.#options;
    await this.leave();
    const carried = seal(merge(this.#unproven));
    const at = { segment: segment.number, synced: 0 };
    const head = encodeLine(carried, { ...at, head: { store, follows: this.#proven } });
    const { bytes, starts } = encodeLines(records, head.length, at);
    try {
      await segment.file.write(Buffer.concat([head, bytes]), 0);
      await segment.file.sync();
    } catch (error) {
      await segment.file.close().catch(() => undefined);
      // It is removed, or a disk that fails now and then would fill with such segments.
      await segments.abandon(segment.number);
      throw error;
    }
    this.#segment = segment;
    this.#offset = 0;
    this.#advance(head.length + bytes.length);
    this.#prove();
    // The unproven records were applied before: only their contents have moved.
    if (carried.contents.length > 0) this.#apply([movesOf(carried)], [0]);
    this.#apply(records, starts);
  }

  /** Closes the segment for good. What is unproven in it does not count. */
  async leave(): Promise<void> {
    const segment = this.#segment;
    this.#appendedBytes += this.leftBytes;
    this.#segment = null;
    // Whatever close says, the file is not written to again.
    await segment?.file.close().catch(() => undefined);
  }

  #advance(bytes: number): void {
    this.#offset += bytes;
    this.#appendedBytes += bytes;
  }

  /** All that was written is on the device. */
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
