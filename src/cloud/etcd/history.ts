/**
 * Lets etcd forget old values: each heartbeat leaves one, and etcd keeps them all until it is told.
 */

import { FLEET_HISTORY_MS, MINUTE_MS } from '../../base/limits.js';
import type { Clock } from '../../base/system/clock.js';
import type { Log } from '../../base/system/log.js';
import { type Etcd, EtcdError } from './etcd.js';

interface HistoryOptions {
  readonly etcd: Pick<Etcd, 'compact'>;
  readonly clock: Clock;
  readonly log: Pick<Log, 'warn'>;
  /** True on the instance that does it for all. */
  readonly isOurs: () => boolean;
}

/** The revisions of the last minutes. */
export class History {
  readonly #options: HistoryOptions;
  /** The oldest first, one a minute. */
  readonly #marks: { readonly atMs: number; readonly revision: number }[] = [];
  /** Why the last try failed; null: it did not. A new reason is logged. */
  #reason: string | null = null;

  constructor(options: HistoryOptions) {
    this.#options = options;
  }

  /** Memory is at this revision. Once a minute those older than FLEET_HISTORY_MS go. */
  at(revision: number): void {
    const nowMs = this.#options.clock.bootMs();
    const last = this.#marks.at(-1);
    if (last !== undefined && nowMs - last.atMs < MINUTE_MS) return;
    this.#marks.push({ atMs: nowMs, revision });
    const [oldest] = this.#marks;
    if (oldest === undefined || nowMs - oldest.atMs < FLEET_HISTORY_MS) return;
    this.#marks.shift();
    if (this.#options.isOurs()) void this.#compact(oldest.revision);
  }

  async #compact(revision: number): Promise<void> {
    try {
      await this.#options.etcd.compact(revision);
      this.#reason = null;
    } catch (error) {
      if (!(error instanceof EtcdError)) throw error;
      // The next minute compacts more.
      if (error.message !== this.#reason)
        this.#options.log.warn('etcd not compacted', { reason: error.message });
      this.#reason = error.message;
    }
  }
}
