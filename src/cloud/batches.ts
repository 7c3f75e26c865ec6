/**
 * The batches of the news that a watch keeps: which one is open, and which one can be told next.
 */
import { DIGEST_WINDOW_MS } from '../base/limits.js';
import type { DeviceNews, News, NewsBatch } from './news.js';

/** News of one device that somebody has not been told yet. */
export interface PendingNews {
  readonly news: News;
  /** The id of its batch. */
  readonly batch: string;
  /** True if it is on the disk, with its batch. */
  isKept: boolean;
}

/** A batch to tell now. */
interface NextBatch extends NewsBatch {
  readonly isClosed: boolean;
}

/** Gives each news its batch. Moments are of the boot's clock. */
export class Batches {
  readonly #nowMs: () => number;
  readonly #drawId: () => string;
  /** The last batch that was opened; batches of an earlier run are closed. */
  #last: string | null = null;
  #closesMs = Number.POSITIVE_INFINITY;

  constructor(nowMs: () => number, drawId: () => string) {
    this.#nowMs = nowMs;
    this.#drawId = drawId;
  }

  /** When the last batch closes or closed; Infinity: there was none. */
  get closesMs(): number {
    return this.#closesMs;
  }

  /** The open batch. Opens one if there is none. */
  current(): string {
    const nowMs = this.#nowMs();
    if (this.#last === null || nowMs >= this.#closesMs) {
      this.#last = this.#drawId();
      this.#closesMs = nowMs + DIGEST_WINDOW_MS;
    }
    return this.#last;
  }

  /**
   * A batch with news to offer; null: there is none. The news of one device are told in order: those behind news of an
   * earlier batch wait. `offered` holds the ids of the news and closed batches that were offered already, and gets those of
   * this batch.
   */
  next(
    pending: Iterable<readonly [device: string, readonly PendingNews[]]>,
    offered: Set<string>,
  ): NextBatch | null {
    for (const [id, { news, isWhole }] of gathered(pending)) {
      const isClosed = id !== this.#last || this.#nowMs() >= this.#closesMs;
      const names = isClosed ? [id] : news.map((one) => one.id);
      if ((isClosed && !isWhole) || names.every((name) => offered.has(name))) continue;
      for (const name of names) offered.add(name);
      return { id, news, isClosed };
    }
    return null;
  }
}

/** The news of a batch that can be told now. `isWhole`: no other news of the batch must wait. */
interface Gathered {
  readonly news: DeviceNews[];
  isWhole: boolean;
}

function gathered(
  pending: Iterable<readonly [device: string, readonly PendingNews[]]>,
): ReadonlyMap<string, Gathered> {
  const batches = new Map<string, Gathered>();
  for (const [device, queue] of pending) {
    let mustWait = false;
    for (const { news, batch, isKept } of queue) {
      const gathering = batches.get(batch) ?? { news: [], isWhole: true };
      batches.set(batch, gathering);
      // After a crash news that is not on the disk would be told again under another id.
      mustWait ||= !isKept || batch !== queue[0]?.batch;
      if (mustWait) gathering.isWhole = false;
      else gathering.news.push({ ...news, device });
    }
  }
  return batches;
}
