/**
 * Lets etcd forget old revisions: each heartbeat makes one, and etcd keeps them all until it is told. Used by etcd-fleet.ts.
 */
import { type Etcd, EtcdError } from '../../etcd/etcd.js';
import { FLEET_HISTORY_MS, MINUTE_MS } from '../../limits.js';
import type { Clock } from '../../system/clock.js';

interface HistoryOptions {
  readonly etcd: Pick<Etcd, 'compact'>;
  readonly clock: Clock;
  /** True on the instance that does it for all. */
  readonly isOurs: () => boolean;
}

/** The revisions of the last minutes. */
export class History {
  readonly #options: HistoryOptions;
  /** The oldest first, one a minute. */
  readonly #marks: { readonly atMs: number; readonly revision: number }[] = [];

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
    } catch (error) {
      // The next minute compacts more.
      if (!(error instanceof EtcdError)) throw error;
    }
  }
}
