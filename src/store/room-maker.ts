/**
 * Makes room for new messages: drops content that is kept only for a retry, and compacts the journal while the disk is
 * short. Used by acceptance.ts.
 */
import { BLOCK_BYTES, SEGMENT_BYTES, TIDY_EVERY_MS } from '../limits.js';
import type { Message } from '../message/message.js';
import type { Clock } from '../system/clock.js';
import type { Log } from '../system/log.js';
import { Turns } from '../turns.js';
import type { Budget, Reservation } from './budget.js';
import type { Ledger } from './ledger.js';
import { bytesOfContent } from './places.js';
import { NOTHING, type Room } from './room.js';
import { messageWeight } from './weight.js';

/** What it is given. */
export interface RoomMakerOptions {
  readonly ledger: Ledger;
  readonly budget: Budget;
  readonly log: Log;
  readonly clock: Pick<Clock, 'bootMs'>;
}

/** One for the store. */
export class RoomMaker {
  readonly #ledger: Ledger;
  readonly #budget: Budget;
  readonly #log: Log;
  readonly #clock: Pick<Clock, 'bootMs'>;
  readonly #turns = new Turns();
  #compactedMs = Number.NEGATIVE_INFINITY;

  constructor({ ledger, budget, log, clock }: RoomMakerOptions) {
    this.#ledger = ledger;
    this.#budget = budget;
    this.#log = log;
    this.#clock = clock;
  }

  /** Reserves room, but no bytes where content must first give way to them. Throws queue-full or storage-full. */
  reserve(asked: Room): Reservation {
    return this.#orCompact(() => this.#budget.reserve(asked));
  }

  /** Takes an inode, and a block for inode and name. Throws queue-full or storage-full. */
  async makeFile(room: Reservation): Promise<void> {
    await this.makeRoom(room, BLOCK_BYTES);
    this.#budget.space.takeFile();
  }

  /**
   * Resolves once so many bytes are reserved. Throws queue-full or storage-full. One caller at a time: what gives way to one
   * is not promised to another.
   */
  async makeRoom(room: Reservation, bytes: number): Promise<void> {
    if (room.bytes >= bytes) return;
    await this.#turns.do(async () => {
      if (this.#budget.stale) await this.#budget.look();
      await this.#dropFor(bytes - room.bytes);
      this.#orCompact(() => room.add(bytes - room.bytes));
    });
  }

  /** The ids of failed messages whose content must go for the count and memory that are reserved, the oldest first. */
  get inTheWay(): string[] {
    const { kept, messages, weights } = this.#ledger.state;
    const excess = this.#budget.excess(NOTHING);
    let count = excess.count + kept.size;
    let memoryBytes = excess.memoryBytes + weights.kept;
    const ids: string[] = [];
    for (const id of kept) {
      if (count <= 0 && memoryBytes <= 0) break;
      ids.push(id);
      count--;
      memoryBytes -= messageWeight(messages.get(id) as Message);
    }
    return ids;
  }

  /** Drops the content of failed messages, and logs it. Rejects like Ledger.record. */
  async drop(ids: readonly string[]): Promise<void> {
    // Not as an outcome, because this record may be too long for their reserve.
    await this.#ledger.record([{ e: 'dropped', ids }], 'synced');
    this.logDropped(ids);
  }

  /** Says whose content was dropped, once that is recorded. */
  logDropped(ids: readonly string[]): void {
    if (ids.length > 0) this.#log.info('content dropped', { messages: ids.length });
  }

  /**
   * Drops the oldest content, if that makes room for so many bytes. Files go at once; texts go with their segments, so the
   * first request may still be refused.
   */
  async #dropFor(bytes: number): Promise<void> {
    const { kept, messages } = this.#ledger.state;
    const missing = this.#budget.missing(bytes);
    const ids: string[] = [];
    let [fileBytes, textBytes] = [0, 0];
    for (const id of kept) {
      if (fileBytes + textBytes - (textBytes % SEGMENT_BYTES) >= missing) break;
      const content = bytesOfContent(messages.get(id) as Message);
      fileBytes += content.fileBytes;
      textBytes += content.textBytes;
      ids.push(id);
    }
    if (ids.length === 0 || fileBytes + textBytes < missing) return;
    await this.drop(ids);
    await this.#ledger.spool.idle;
    if (this.#budget.missing(bytes) > 0) await this.#ledger.checkpoint();
    await this.#budget.look();
  }

  /** Asks the budget. Where it refuses, segments that nothing needs may still take room. */
  #orCompact<T>(ask: () => T): T {
    try {
      return ask();
    } catch (error) {
      if (this.#ledger.isMostlyDone) void this.#ledger.checkpoint();
      if (this.#budget.space.shortage) void this.compact();
      throw error;
    }
  }

  /**
   * Makes checkpoints until no more room is gained, at most every 30 s. Each start begins a segment, so a few small messages
   * may hold many. One checkpoint is not enough, because the older snapshot still needs segments for its replay.
   */
  async compact(): Promise<void> {
    const nowMs = this.#clock.bootMs();
    if (!this.#ledger.isMostlyDone || nowMs - this.#compactedMs < TIDY_EVERY_MS) return;
    this.#compactedMs = nowMs;
    for (let before = Number.POSITIVE_INFINITY; this.#ledger.usedBytes < before; ) {
      before = this.#ledger.usedBytes;
      await this.#ledger.checkpoint(true);
      if (this.#ledger.usedBytes === before) await this.#ledger.checkpoint(true);
    }
  }
}
