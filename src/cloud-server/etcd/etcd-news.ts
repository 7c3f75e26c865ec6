/**
 * Hands the fleet's notifications and messages to this instance's outbox, while the instance has the role TELLER: one
 * instance sees all news, so that a regional outage gives one digest. What the outbox has accepted is deleted from etcd. If
 * the instance dies in between, the next teller may accept it again. Used by etcd-fleet.ts.
 */

import { wordsOf } from '../../errors.js';
import { type Etcd, EtcdError, type Op } from '../../etcd/etcd.js';
import { DIGEST_WINDOW_MS, FLEET_TICK_MS } from '../../limits.js';
import { Alarm } from '../../retry/alarm.js';
import type { Clock } from '../../system/clock.js';
import type { Log } from '../../system/log.js';
import type { DeviceNews, News, NewsBatch, Telling } from '../news.js';
import type { EtcdMessages, WaitingMessage } from './etcd-messages.js';
import { TELLER } from './layout.js';
import type { Shelf } from './mirror.js';
import { keyOf } from './roles.js';

interface EtcdNewsOptions {
  readonly etcd: Pick<Etcd, 'txn'>;
  /** The revision that gave this instance the role; null: it does not have it. */
  readonly mine: () => number | null;
  readonly messages: () => Pick<EtcdMessages, 'waiting'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly randomBytes: (count: number) => Uint8Array;
  /** See Outbox.tell. */
  readonly tell: (batch: NewsBatch, isClosed: boolean) => Promise<Telling>;
  /** Accepts a message for delivery, once for its key. */
  readonly accept: (message: WaitingMessage) => Promise<void>;
}

/** News in etcd. */
interface Pending {
  readonly news: DeviceNews;
  /** The closed batch that it belongs to; null: the open one. */
  readonly batch: string | null;
  readonly createRevision: number;
  readonly modRevision: number;
}

/** Keys of one transaction: each takes a condition and an operation. */
const CHUNK = 64;

/** News and messages of the fleet, and their way into the outbox. */
export class EtcdNews {
  readonly #options: EtcdNewsOptions;
  readonly #alarm: Alarm;
  readonly #pending = new Map<string, Pending>();
  /** The names of each device's news, the oldest first. */
  readonly #byDevice = new Map<string, string[]>();
  #open: { readonly id: string; readonly closesMs: number } | null = null;
  #running: Promise<void> | null = null;
  #isWanted = false;
  #reason: string | null = null;
  readonly shelf: Shelf;

  constructor(options: EtcdNewsOptions) {
    this.#options = options;
    this.#alarm = new Alarm(options.clock, () => this.soon());
    const pending = this.#pending;
    this.shelf = {
      get names() {
        return pending.keys();
      },
      put: (name, found) => {
        this.#keep(name, found);
        this.soon();
      },
      deleted: (name) => this.#drop(name),
    };
  }

  /** The number of devices with news. */
  get devices(): number {
    return this.#byDevice.size;
  }

  /** The names of a device's news, the oldest first. */
  newsOf(device: string): readonly string[] {
    return this.#byDevice.get(device) ?? [];
  }

  /** Tells what there is to tell, if this instance is the teller. */
  soon(): void {
    this.#isWanted = true;
    this.#running ??= this.#run().finally(() => {
      this.#running = null;
      if (this.#isWanted) this.#alarm.in(1);
    });
  }

  async stop(): Promise<void> {
    this.#alarm.end();
    await this.#running;
  }

  async #run(): Promise<void> {
    // All changes of one revision, and of those that came with it.
    await Promise.resolve();
    this.#isWanted = false;
    if (this.#options.mine() === null) {
      this.#open = null;
      return;
    }
    try {
      await this.#acceptMessages();
      for (const batch of this.#closedBatches()) await this.#tell(batch, true);
      await this.#tellOpen();
      this.#reason = null;
    } catch (error) {
      const reason = wordsOf(error);
      if (reason !== this.#reason) this.#options.log.error('notification delayed', { reason });
      this.#reason = reason;
      this.#alarm.in(2 * FLEET_TICK_MS);
    }
  }

  async #acceptMessages(): Promise<void> {
    const { messages, accept } = this.#options;
    const waiting = [...messages().waiting].sort(([, a], [, b]) => a.createRevision - b.createRevision);
    for (const [name, message] of waiting) {
      this.#role();
      await accept(message);
      await this.#delete([`message/${name}`]);
    }
  }

  #closedBatches(): NewsBatch[] {
    const batches = new Map<string, DeviceNews[]>();
    for (const { news, batch } of this.#inOrder()) {
      if (batch !== null) batches.set(batch, [...(batches.get(batch) ?? []), news]);
    }
    return [...batches].map(([id, news]) => ({ id, news }));
  }

  async #tellOpen(): Promise<void> {
    const { clock, randomBytes } = this.#options;
    const open = this.#inOrder().filter(({ batch }) => batch === null);
    if (open.length === 0) {
      this.#open = null;
      return;
    }
    const nowMs = clock.bootMs();
    this.#open ??= { id: Buffer.from(randomBytes(8)).toString('hex'), closesMs: nowMs + DIGEST_WINDOW_MS };
    const { id, closesMs } = this.#open;
    const news = open.map((one) => one.news);
    if (nowMs < closesMs) {
      this.#alarm.at(closesMs);
      await this.#tell({ id, news }, false);
      return;
    }
    // Its members are written before it is told: another teller would draw the line elsewhere.
    await this.#close(id, open);
    this.#open = null;
    await this.#tell({ id, news }, true);
  }

  async #tell(batch: NewsBatch, isClosed: boolean): Promise<void> {
    const { told, refusal } = await this.#options.tell(batch, isClosed);
    await this.#delete(batch.news.filter(({ id }) => told.has(id)).map((news) => `outbox/${nameOf(news)}`));
    if (refusal !== null) throw refusal;
  }

  async #close(id: string, open: readonly Pending[]): Promise<void> {
    for (let from = 0; from < open.length; from += CHUNK) {
      const puts = open.slice(from, from + CHUNK).map(({ news, modRevision, createRevision }) => {
        return { name: nameOf(news), value: textOf(news, id), modRevision, createRevision };
      });
      const { succeeded, revision } = await this.#options.etcd.txn(
        [this.#role(), ...puts.map(({ name, modRevision }) => ({ key: `outbox/${name}`, modRevision }))],
        puts.map(({ name, value }) => ({ put: `outbox/${name}`, value })),
      );
      // A device has moved or is removed: memory will know in a moment.
      if (!succeeded) throw new EtcdError('unavailable', 'news have changed meanwhile');
      for (const put of puts) this.#keep(put.name, { ...put, modRevision: revision });
    }
  }

  async #delete(keys: readonly string[]): Promise<void> {
    for (let from = 0; from < keys.length; from += CHUNK) {
      const ops: Op[] = keys.slice(from, from + CHUNK).map((key) => ({ delete: key }));
      await this.#options.etcd.txn([], ops);
    }
    for (const key of keys) if (key.startsWith('outbox/')) this.#drop(key.slice('outbox/'.length));
  }

  #role() {
    const createRevision = this.#options.mine();
    if (createRevision === null) throw new EtcdError('unavailable', 'another instance tells now');
    return { key: keyOf(TELLER), createRevision };
  }

  /** The oldest first. */
  #inOrder(): Pending[] {
    return [...this.#pending.values()].sort((a, b) => a.createRevision - b.createRevision);
  }

  #keep(name: string, found: { value: string; modRevision: number; createRevision: number }): void {
    const [device, id] = name.split('/') as [string, string];
    const { batch = null, ...happening } = JSON.parse(found.value) as News & { batch?: string };
    const { modRevision, createRevision } = found;
    if ((this.#pending.get(name)?.modRevision ?? 0) >= modRevision) return;
    if (!this.#pending.has(name)) this.#byDevice.set(device, [...this.newsOf(device), name]);
    this.#pending.set(name, { news: { ...happening, id, device }, batch, modRevision, createRevision });
  }

  #drop(name: string): void {
    if (!this.#pending.delete(name)) return;
    const device = name.slice(0, name.indexOf('/'));
    const rest = this.newsOf(device).filter((other) => other !== name);
    if (rest.length === 0) this.#byDevice.delete(device);
    else this.#byDevice.set(device, rest);
  }
}

const nameOf = ({ device, id }: DeviceNews) => `${device}/${id}`;

function textOf({ id: _, device: __, ...happening }: DeviceNews, batch: string): string {
  return JSON.stringify({ ...happening, batch });
}
