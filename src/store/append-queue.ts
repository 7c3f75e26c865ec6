/**
 * What was handed to the journal and not yet written, in order. Only journal.ts uses this.
 */
import type { FieldpostError } from '../errors.js';
import { OUTCOME_RESERVE_BYTES, SEGMENT_BYTES } from '../limits.js';
import type { SealedRecord } from './record.js';

/**
 * How sure a record must be before it is applied: synced, or only `written`. Outcomes, `written` or `synced-outcome`,
 * may use the end of a segment that is kept for them.
 */
export type Urgency = 'synced' | 'synced-outcome' | 'written';

/** Somebody who waits for an answer. */
export interface Waiter {
  readonly resolve: () => void;
  readonly reject: (error: FieldpostError) => void;
}

/** A record that waits to be written. */
export interface Entry extends Waiter {
  readonly record: SealedRecord;
  readonly urgency: Urgency;
}

/** The queue; its head is written first. */
export class AppendQueue {
  #entries: Entry[] = [];

  get isEmpty(): boolean {
    return this.#entries.length === 0;
  }

  push(entry: Entry): void {
    this.#entries.push(entry);
  }

  /** The entries at the head that fit into `roomBytes`, the last of which are for outcomes alone. */
  takeFitting(roomBytes: number): Entry[] {
    let room = roomBytes;
    let count = 0;
    for (const { record, urgency } of this.#entries) {
      room -= record.bytesMax;
      if (room < (urgency === 'synced' ? OUTCOME_RESERVE_BYTES : 0)) break;
      count++;
    }
    return this.#entries.splice(0, count);
  }

  /** At least the head, and as much behind it as leaves an ordinary new segment half empty. */
  takeForNew(): Entry[] {
    let bytes = 0;
    const end = this.#entries.findIndex(({ record }, i) => {
      bytes += record.bytesMax;
      return i > 0 && bytes > SEGMENT_BYTES / 2;
    });
    return this.#entries.splice(0, end === -1 ? this.#entries.length : end);
  }

  /**
   * Puts the outcomes behind the head of `group` back to where they came from; gives the rest. What is refused
   * for want of room leaves them the reserve.
   */
  putBackOutcomes(group: readonly Entry[]): Entry[] {
    const isOutcome = ({ urgency }: Entry, i: number) => i > 0 && urgency !== 'synced';
    this.#entries.unshift(...group.filter(isOutcome));
    return group.filter((entry, i) => !isOutcome(entry, i));
  }

  takeAll(): Entry[] {
    return this.#entries.splice(0);
  }
}
