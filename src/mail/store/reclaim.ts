/**
 * Reclaims what new messages need: drops content that is kept only for a retry, and compacts the journal while the disk is
 * short.
 */
import { BLOCK_BYTES, SECOND_MS, SEGMENT_BYTES } from '../../base/limits.js';
import type { Clock } from '../../base/system/clock.js';
import type { Log } from '../../base/system/log.js';
import { Turns } from '../../base/turns.js';
import { type Amounts, NOTHING } from './accounts.js';
import type { Ledger } from './ledger.js';
import type { Asker, Quota, Reservation } from './quota.js';
import { Freed, messagesOf } from './state.js';
import { messageWeight } from './weight.js';

/** How often the journal is tidied while the disk is short. */
const TIDY_EVERY_MS = 30 * SECOND_MS;

interface ReclaimerOptions {
  readonly ledger: Ledger;
  readonly quota: Quota;
  readonly log: Log;
  readonly clock: Pick<Clock, 'bootMs'>;
}

/** Reserves, and reclaims if there is too little. */
export class Reclaimer {
  readonly #options: ReclaimerOptions;
  readonly #turns = new Turns();
  #compactedMs = Number.NEGATIVE_INFINITY;

  constructor(options: ReclaimerOptions) {
    this.#options = options;
  }

  /** If content must be dropped first, it reserves no bytes yet. Throws queue-full or storage-full. */
  reserve(asked: Amounts, asker: Asker): Reservation {
    return this.#orCompact(() => this.#options.quota.reserve(asked, asker));
  }

  /** Takes an inode, and a block for inode and name. Throws queue-full or storage-full. */
  async makeFile(reserved: Reservation): Promise<void> {
    await this.grow(reserved, BLOCK_BYTES);
    await this.keepWithin();
    this.#options.quota.space.takeFile();
  }

  /**
   * Resolves once so many bytes are reserved. Throws queue-full or storage-full. One caller at a time, so that two callers
   * do not rely on the same dropped content.
   */
  async grow(reserved: Reservation, bytes: number): Promise<void> {
    if (reserved.bytes >= bytes) return;
    await this.#turns.do(async () => {
      if (this.#options.quota.space.stale) await this.#options.quota.look();
      await this.#dropFor(bytes - reserved.bytes, reserved.asker);
      this.#orCompact(() => reserved.add(bytes - reserved.bytes));
    });
  }

  /** Resolves once segments that are kept for later have made way for all reserved bytes: only files need it. */
  keepWithin(): Promise<void> {
    return this.#options.ledger.makeWay(this.#options.quota.reservedBytes);
  }

  /** The ids of failed messages whose content must be dropped for the reserved count and memory, the oldest first. */
  get inTheWay(): string[] {
    const { state } = this.#options.ledger;
    const { kept, weights } = state;
    if (kept.size === 0) return [];
    const excess = this.#options.quota.excess(NOTHING, { isUrgent: true, onlySends: false });
    let count = excess.count + kept.size;
    let memoryBytes = excess.memoryBytes + weights.kept;
    const ids: string[] = [];
    for (const message of messagesOf(state, kept)) {
      if (count <= 0 && memoryBytes <= 0) break;
      ids.push(message.id);
      count--;
      memoryBytes -= messageWeight(message);
    }
    return ids;
  }

  /** Drops the content of failed messages, and logs it. Rejects like Ledger.record. */
  async drop(ids: readonly string[]): Promise<void> {
    // Not as an outcome, because this record may be too long for the outcomes' reserve.
    await this.#options.ledger.record([{ e: 'dropped', ids }], 'synced');
    this.logDropped(ids);
  }

  logDropped(ids: readonly string[]): void {
    if (ids.length > 0) this.#options.log.info('content dropped', { messages: ids.length });
  }

  /**
   * Drops the oldest content, if that makes room for so many bytes. Files are removed at once, texts only with their
   * segments, so the first request may still be refused.
   */
  async #dropFor(bytes: number, asker: Asker): Promise<void> {
    const { state } = this.#options.ledger;
    const missing = this.#options.quota.missing(bytes, asker);
    const ids: string[] = [];
    const freed = new Freed(state);
    for (const message of messagesOf(state, state.kept)) {
      if (freed.fileBytes + freed.textBytes - (freed.textBytes % SEGMENT_BYTES) >= missing) break;
      freed.add(message);
      ids.push(message.id);
    }
    if (ids.length === 0 || freed.fileBytes + freed.textBytes < missing) return;
    await this.drop(ids);
    await this.#options.ledger.spool.idle;
    if (this.#options.quota.missing(bytes, asker) > 0) await this.#options.ledger.checkpoint();
    await this.#options.quota.look();
  }

  /** If the budget refuses, a checkpoint may free segments that nothing needs. */
  #orCompact<T>(ask: () => T): T {
    try {
      return ask();
    } catch (error) {
      if (this.#options.ledger.isMostlyDone) void this.#options.ledger.checkpoint();
      if (this.#options.quota.space.shortage) void this.#compact();
      throw error;
    }
  }

  /**
   * Makes checkpoints until no more room is gained, at most every 30 s. A few small messages may hold many segments. One
   * checkpoint is not enough, because the older snapshot still needs segments for its replay.
   */
  async #compact(): Promise<void> {
    const nowMs = this.#options.clock.bootMs();
    if (!this.#options.ledger.isMostlyDone || nowMs - this.#compactedMs < TIDY_EVERY_MS) return;
    this.#compactedMs = nowMs;
    for (let before = Number.POSITIVE_INFINITY; this.#options.ledger.diskBytes < before; ) {
      before = this.#options.ledger.diskBytes;
      await this.#options.ledger.checkpoint(true);
      if (this.#options.ledger.diskBytes === before) await this.#options.ledger.checkpoint(true);
    }
  }
}
