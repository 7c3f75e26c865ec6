/**
 * Writes heartbeats to etcd: those of up to a second go together. A heartbeat that cannot be written is tried again for
 * FLEET_STALE_MS, or until the device sends another. Later it would be false: its device may be silent since.
 */

import { inLanes } from '../../base/lanes.js';
import { FLEET_FLUSH_MS, FLEET_STALE_MS } from '../../base/limits.js';
import { Alarm } from '../../base/retry/alarm.js';
import type { Clock } from '../../base/system/clock.js';
import { isOvertaken, type Sent } from '../presence.js';
import { type Compare, type Etcd, EtcdError, TXN_OPS_MAX } from './etcd.js';
import { unavailable } from './unavailable.js';

/** Transactions at a time: one after another would wait for the network each time. */
const LANES = 4;
const STOP_TRIES = 3;

interface Heartbeat {
  readonly value: string;
  readonly sent: Sent | null;
  readonly heardMs: number;
}

interface HeartbeatsOptions {
  readonly etcd: Pick<Etcd, 'txn'>;
  readonly clock: Clock;
  /** Holds while this instance has its lease: a request that is late by minutes changes nothing. */
  readonly conditions: () => readonly Compare[];
}

/** Keys with values, the latest of each. */
export class Heartbeats {
  readonly #options: HeartbeatsOptions;
  readonly #alarm: Alarm;
  #waiting = new Map<string, Heartbeat>();
  /** Those of the flush under way. */
  #flying: ReadonlyMap<string, Heartbeat> = new Map();
  /** Those of addNow that are under way, unless the device has said something since. */
  readonly #lastWords = new Map<string, Heartbeat>();
  /** Keys that must not be written again after the flush under way. */
  readonly #dropped = new Set<string>();
  #flush: Promise<void> | null = null;
  /** Since when no flush has written all; null: the last one has. */
  #stuckMs: number | null = null;

  constructor(options: HeartbeatsOptions) {
    this.#options = options;
    this.#alarm = new Alarm(options.clock, () => void this.flush());
  }

  /** Heartbeats that are not in etcd yet. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** True: etcd takes none, so a heartbeat that is answered now may be lost. */
  get isStuck(): boolean {
    return this.#stuckMs !== null && this.#options.clock.bootMs() - this.#stuckMs > FLEET_STALE_MS / 2;
  }

  /** Unless the device sent it before one that is not in etcd yet. */
  add(key: string, value: string, sent: Sent | null = null): void {
    const heardMs = this.#options.clock.bootMs();
    const before = this.#waiting.get(key) ?? this.#flying.get(key) ?? this.#lastWords.get(key);
    if (before !== undefined && isOvertaken(before, heardMs, sent)) return;
    this.#lastWords.delete(key);
    this.#wait(key, { value, sent, heardMs });
  }

  /** Resolves when the heartbeat is in etcd. Rejects with unavailable; it is tried again all the same. */
  async addNow(key: string, value: string, sent: Sent | null = null): Promise<void> {
    const heardMs = this.#options.clock.bootMs();
    // An earlier one that is under way must not be written after it.
    await this.drop(key);
    const heartbeat = { value, sent, heardMs };
    this.#lastWords.set(key, heartbeat);
    const isWritten = await this.#put([[key, heartbeat]]);
    const isLast = this.#lastWords.get(key) === heartbeat;
    if (isLast) this.#lastWords.delete(key);
    if (isWritten) return;
    if (isLast) this.#wait(key, heartbeat);
    throw unavailable();
  }

  /** Resolves when the heartbeat is not under way any more. */
  async drop(key: string): Promise<void> {
    this.#waiting.delete(key);
    if (!this.#flying.has(key)) return;
    this.#dropped.add(key);
    await this.#flush;
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

  /** Writes what waits for the last time, at the next member if one has just failed. */
  async stop(): Promise<void> {
    for (let tries = 0; tries < STOP_TRIES && (tries === 0 || this.#waiting.size > 0); tries++)
      await this.flush();
    this.#alarm.end();
  }

  #wait(key: string, heartbeat: Heartbeat): void {
    this.#waiting.set(key, heartbeat);
    if (!this.#alarm.isSet && this.#flush === null) this.#alarm.in(FLEET_FLUSH_MS);
  }

  async #write(): Promise<void> {
    const nowMs = this.#options.clock.bootMs();
    const entries = [...this.#waiting].filter(([, { heardMs }]) => nowMs - heardMs < FLEET_STALE_MS);
    this.#flying = new Map(entries);
    this.#waiting = new Map();
    this.#stuckMs ??= nowMs;
    let hasFailed = false;
    await inLanes(LANES, chunksOf(entries), async (chunk) => {
      if (await this.#put(chunk)) return;
      hasFailed = true;
      this.#keep(chunk);
    });
    if (!hasFailed) this.#stuckMs = null;
    this.#flying = new Map();
    this.#dropped.clear();
  }

  async #put(entries: readonly (readonly [string, Heartbeat])[]): Promise<boolean> {
    const { etcd, conditions } = this.#options;
    const puts = entries.map(([put, { value }]) => ({ put, value }));
    try {
      return (await etcd.txn(conditions(), puts)).succeeded;
    } catch (error) {
      if (!(error instanceof EtcdError)) throw error;
      return false;
    }
  }

  #keep(entries: readonly (readonly [string, Heartbeat])[]): void {
    for (const [key, heartbeat] of entries) {
      // A later heartbeat of the device is newer.
      if (!this.#waiting.has(key) && !this.#dropped.has(key)) this.#waiting.set(key, heartbeat);
    }
  }
}

/** The entries in chunks of one transaction each. */
function* chunksOf<Entry>(entries: readonly Entry[]): Generator<readonly Entry[]> {
  for (let from = 0; from < entries.length; from += TXN_OPS_MAX)
    yield entries.slice(from, from + TXN_OPS_MAX);
}
