/**
 * Writes heartbeats to etcd: those of up to a second go together. A heartbeat that cannot be written is kept until it can,
 * or until the device sends another. Used by etcd-watch.ts.
 */
import { type Etcd, EtcdError, TXN_OPS_MAX } from '../../etcd/etcd.js';
import { FLEET_FLUSH_MS } from '../../limits.js';
import { Alarm } from '../../retry/alarm.js';
import type { Clock } from '../../system/clock.js';

/** Transactions at a time: one after another would wait for the network each time. */
const LANES = 4;

/** Keys with values, the latest of each. */
export class Heartbeats {
  readonly #etcd: Pick<Etcd, 'txn'>;
  readonly #alarm: Alarm;
  #waiting = new Map<string, string>();
  #flush: Promise<void> | null = null;

  constructor(etcd: Pick<Etcd, 'txn'>, clock: Clock) {
    this.#etcd = etcd;
    this.#alarm = new Alarm(clock, () => void this.flush());
  }

  /** Heartbeats that are not in etcd yet. */
  get waiting(): number {
    return this.#waiting.size;
  }

  add(key: string, value: string): void {
    this.#waiting.set(key, value);
    if (!this.#alarm.isSet && this.#flush === null) this.#alarm.in(FLEET_FLUSH_MS);
  }

  drop(key: string): void {
    this.#waiting.delete(key);
  }

  /** Writes what waits, after the flush under way. Never rejects: what fails is tried again after the pause. */
  async flush(): Promise<void> {
    await this.#flush;
    this.#alarm.off();
    this.#flush ??= this.#write().finally(() => {
      this.#flush = null;
      if (this.#waiting.size > 0) this.#alarm.in(FLEET_FLUSH_MS);
    });
    await this.#flush;
  }

  /** Writes what waits for the last time. */
  async stop(): Promise<void> {
    await this.flush();
    this.#alarm.end();
  }

  async #write(): Promise<void> {
    const entries = [...this.#waiting];
    this.#waiting = new Map();
    const lane = async () => {
      for (;;) {
        const chunk = entries.splice(0, TXN_OPS_MAX);
        if (chunk.length === 0) return;
        await this.#put(chunk);
      }
    };
    await Promise.all(Array.from({ length: LANES }, lane));
  }

  async #put(entries: readonly (readonly [string, string])[]): Promise<void> {
    try {
      await this.#etcd.txn(
        [],
        entries.map(([put, value]) => ({ put, value })),
      );
    } catch (error) {
      if (!(error instanceof EtcdError)) throw error;
      // A later heartbeat of the device is newer.
      for (const [key, value] of entries) if (!this.#waiting.has(key)) this.#waiting.set(key, value);
    }
  }
}
