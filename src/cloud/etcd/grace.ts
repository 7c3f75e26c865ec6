/**
 * The time after an outage in which silence does not count: devices retry with pauses of up to CLOUD_GRACE_MS. A key under a
 * lease of that length tells all instances, also those that start meanwhile.
 */

import { CLOUD_GRACE_MS, SECOND_MS } from '../../base/limits.js';
import type { Log } from '../../base/system/log.js';
import type { Etcd } from './etcd.js';
import { GRACE } from './layout.js';
import type { Shelf } from './mirror.js';

/** Whether there was an outage a short time ago. */
export class Grace {
  readonly #etcd: Pick<Etcd, 'txn' | 'grant'>;
  #isThere = false;
  #isOwed = false;
  #isWriting = false;
  readonly shelf: Shelf;

  constructor(etcd: Pick<Etcd, 'txn' | 'grant'>, log: Pick<Log, 'info'>) {
    this.#etcd = etcd;
    const set = (isThere: boolean) => {
      if (isThere && !this.#isThere) log.info('grace begun', { forMs: CLOUD_GRACE_MS });
      if (!isThere && this.#isThere) log.info('grace over');
      this.#isThere = isThere;
      if (isThere) this.#isOwed = false;
    };
    const names = () => (this.#isThere ? [''] : []);
    this.shelf = {
      get names() {
        return names();
      },
      put: () => set(true),
      deleted: () => set(false),
    };
  }

  /** True: silence does not count. */
  get isOn(): boolean {
    return this.#isThere || this.#isOwed;
  }

  /** There was an outage up to now. The key is written at the next write(). */
  declare(): void {
    this.#isOwed = true;
  }

  /** Writes the key if it is owed. Rejects with EtcdError; then it is still owed. */
  async write(): Promise<void> {
    if (!this.#isOwed || this.#isWriting) return;
    this.#isWriting = true;
    try {
      const lease = await this.#etcd.grant(CLOUD_GRACE_MS / SECOND_MS);
      await this.#etcd.txn([], [{ put: GRACE, value: '1', lease }]);
    } finally {
      this.#isWriting = false;
    }
  }
}
