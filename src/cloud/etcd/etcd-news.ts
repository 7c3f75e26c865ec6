/**
 * Hands the fleet's notifications and messages to this instance's outbox, while the instance has the role TELLER: one
 * instance sees all news, so that a regional outage gives one digest. What the outbox has accepted is deleted from etcd. If
 * the instance dies in between, the next teller may accept it again.
 *
 * The news of a closed batch have its id. They are told only when `whole/<batch>` says that all of them have it: otherwise a
 * digest about some of them would count as told to the others, too.
 */
import { wordsOf } from '../../base/errors.js';
import { DIGEST_WINDOW_MS, FLEET_TICK_MS } from '../../base/limits.js';
import { Alarm } from '../../base/retry/alarm.js';
import type { Clock } from '../../base/system/clock.js';
import type { Log } from '../../base/system/log.js';
import type { DeviceNews, NewsBatch, Telling } from '../news.js';
import { type Etcd, EtcdError, type Op } from './etcd.js';
import { deviceOf, type EtcdMessages, type WaitingMessage } from './etcd-messages.js';
import { TELLER } from './layout.js';
import type { Shelf } from './mirror.js';
import { EtcdPending, nameOf, type PendingOne, textOf } from './pending-news.js';
import { keyOf } from './roles.js';

interface EtcdNewsOptions {
  readonly etcd: Pick<Etcd, 'txn'>;
  /** The revision that gave this instance the role; null: it does not have it. */
  readonly mine: () => number | null;
  /** See Mirror.isBehind. */
  readonly isBehind: (revision: number) => boolean;
  readonly messages: () => Pick<EtcdMessages, 'waiting'>;
  readonly clock: Clock;
  readonly log: Log;
  readonly randomBytes: (count: number) => Uint8Array;
  /** See Teller.tell. */
  readonly tell: (batch: NewsBatch, isClosed: boolean) => Promise<Telling>;
  /** Accepts a message for delivery, once for its key. */
  readonly accept: (message: WaitingMessage) => Promise<void>;
}

/** Keys of one transaction: each takes a condition and an operation. */
const CHUNK = 64;

/** News and messages of the fleet, and their way into the outbox. */
export class EtcdNews {
  readonly #options: EtcdNewsOptions;
  readonly #alarm: Alarm;
  readonly #memory: EtcdPending;
  #open: { readonly id: string; readonly closesMs: number } | null = null;
  #running: Promise<void> | null = null;
  #isWanted = false;
  /** True from the first message that an outbox may accept until etcd is told of all. */
  #isHanding = false;
  /** Keys of what is accepted. Their deletion has failed. */
  readonly #undeleted = new Set<string>();
  #isEnding = false;
  #isStopped = false;
  #reason: string | null = null;
  /** After a refusal the next try is not before this moment. */
  #retryMs = 0;
  readonly shelves: Readonly<Record<'outbox' | 'whole', Shelf>>;

  constructor(options: EtcdNewsOptions) {
    this.#options = options;
    this.#alarm = new Alarm(options.clock, () => this.soon());
    this.#memory = new EtcdPending(() => this.soon());
    this.shelves = this.#memory.shelves;
  }

  /** The number of devices with news. */
  get devices(): number {
    return this.#memory.devices;
  }

  /**
   * True: the role must not move, because the next teller would tell the same again. After a refusal it may: another outbox
   * may have room.
   */
  get isBusy(): boolean {
    if (this.#isHanding || this.#undeleted.size > 0) return true;
    return this.#reason === null && this.#waiting > 0;
  }

  get #waiting(): number {
    return this.#memory.size + this.#options.messages().waiting.size;
  }

  /** The names of a device's news, the oldest first. */
  newsOf(device: string): readonly string[] {
    return this.#memory.newsOf(device);
  }

  /** Tells what there is to tell, if this instance is the teller. */
  soon(): void {
    if (this.#isStopped) return;
    this.#isWanted = true;
    if (this.#options.clock.bootMs() < this.#retryMs) this.#alarm.at(this.#retryMs);
    else
      this.#running ??= this.#run().finally(() => {
        this.#running = null;
        if (this.#isWanted) this.#alarm.in(1);
      });
  }

  /** Closes the open batch and tells it: the next teller does not know whom of its people this one has told. */
  async stop(): Promise<void> {
    this.#alarm.end();
    await this.#running;
    this.#isEnding = true;
    this.#retryMs = 0;
    this.soon();
    this.#isStopped = true;
    await this.#running;
  }

  async #run(): Promise<void> {
    // All changes of one revision, and of those that came with it.
    await Promise.resolve();
    this.#isWanted = false;
    let refusal: unknown = null;
    try {
      await this.#delete([...this.#undeleted]);
      if (this.#options.mine() === null) {
        this.#open = null;
        // A role that cannot be given up, or a lease that is renewed late, is there again without a word.
        if (this.#waiting > 0) this.#alarm.in(FLEET_TICK_MS);
      } else {
        refusal = await this.#acceptMessages();
        refusal = (await this.#tellAll()) ?? refusal;
      }
    } catch (error) {
      refusal = error;
    }
    if (refusal === null) {
      this.#reason = null;
      return;
    }
    const reason = wordsOf(refusal);
    if (reason !== this.#reason) this.#options.log.error('notification delayed', { reason });
    this.#reason = reason;
    this.#retryMs = this.#options.clock.bootMs() + 2 * FLEET_TICK_MS;
    this.#alarm.at(this.#retryMs);
  }

  /** Returns why some are not accepted; null: all are. */
  async #acceptMessages(): Promise<unknown> {
    const { messages, accept } = this.#options;
    const waiting = [...messages().waiting].sort(([, a], [, b]) => a.createRevision - b.createRevision);
    let refusal: unknown = null;
    /** Those with a share of the outbox that is full: they do not hold back the others. */
    const behind = new Set<string>();
    while (waiting.length > 0) {
      this.#role();
      const chunk = waiting.splice(0, CHUNK).filter(([name]) => !behind.has(deviceOf(name)));
      const outcomes = await this.#handing(async () => {
        const outcomes = await Promise.allSettled(chunk.map(([, message]) => accept(message)));
        const accepted = chunk.filter((_, index) => outcomes[index]?.status === 'fulfilled');
        await this.#delete(accepted.map(([name]) => `message/${name}`));
        return outcomes;
      });
      for (const [index, outcome] of outcomes.entries()) {
        if (outcome.status !== 'rejected') continue;
        refusal ??= outcome.reason;
        behind.add(deviceOf(chunk[index]?.[0] ?? ''));
      }
    }
    return refusal;
  }

  /** Returns why some are not told; null: nothing failed. News of one device are told in order. */
  async #tellAll(): Promise<Error | null> {
    const behind = new Set<string>();
    let refusal: Error | null = null;
    for (const batch of this.#closedBatches()) {
      refusal = (await this.#tellClosed(batch, behind)) ?? refusal;
    }
    await this.#forgetBatches();
    return (await this.#tellOpen(behind)) ?? refusal;
  }

  #closedBatches(): NewsBatch[] {
    const batches = new Map<string, DeviceNews[]>();
    for (const { news, batch } of this.#memory.inOrder()) {
      if (!this.#memory.isClosed(batch)) continue;
      const members = batches.get(batch);
      if (members === undefined) batches.set(batch, [news]);
      else members.push(news);
    }
    return [...batches].map(([id, news]) => ({ id, news }));
  }

  /** `behind`: devices with earlier news that are not told; it gets those of this batch. */
  async #tellClosed(batch: NewsBatch, behind: Set<string>): Promise<Error | null> {
    const mustWait = batch.news.some(({ device }) => behind.has(device));
    const refusal = mustWait ? null : await this.#tell(batch, true);
    for (const news of batch.news) if (this.#memory.has(news)) behind.add(news.device);
    return refusal;
  }

  /** Deletes the marks of batches without members. */
  async #forgetBatches(): Promise<void> {
    const unused = this.#memory.unusedBatches();
    await this.#delete(unused.map((batch) => `whole/${batch}`));
  }

  async #tellOpen(behind: Set<string>): Promise<Error | null> {
    const { clock } = this.#options;
    const open = this.#memory.inOrder().filter(({ batch }) => !this.#memory.isClosed(batch));
    if (open.length === 0) {
      this.#open = null;
      return null;
    }
    const nowMs = clock.bootMs();
    this.#open ??= { id: this.#newId(), closesMs: nowMs + DIGEST_WINDOW_MS };
    const { id, closesMs } = this.#open;
    const news = open.map((one) => one.news);
    if (nowMs < closesMs && !this.#isEnding) {
      this.#alarm.at(closesMs);
      return await this.#tell({ id, news: news.filter(({ device }) => !behind.has(device)) }, false);
    }
    // A close without an answer may have happened. What comes after it needs another id.
    this.#open = { id: this.#newId(), closesMs };
    // Its members are written before it is told: another teller would draw the line elsewhere.
    await this.#close(id, open);
    this.#open = null;
    return await this.#tellClosed({ id, news }, behind);
  }

  async #tell(batch: NewsBatch, isClosed: boolean): Promise<Error | null> {
    // At once with it: the role may have moved while the batch was closed.
    this.#role();
    return await this.#handing(async () => {
      const { told, refusal } = await this.#options.tell(batch, isClosed);
      await this.#delete(batch.news.filter(({ id }) => told.has(id)).map((news) => `outbox/${nameOf(news)}`));
      return refusal;
    });
  }

  async #handing<Result>(act: () => Promise<Result>): Promise<Result> {
    this.#isHanding = true;
    try {
      return await act();
    } finally {
      this.#isHanding = false;
    }
  }

  async #close(id: string, open: readonly PendingOne[]): Promise<void> {
    for (let from = 0; from < open.length; from += CHUNK) {
      const isLast = from + CHUNK >= open.length;
      const puts = open.slice(from, from + CHUNK).map(({ news, modRevision, createRevision }) => {
        return { name: nameOf(news), value: textOf(news, id), modRevision, createRevision };
      });
      const { succeeded, revision } = await this.#options.etcd.txn(
        [this.#role(), ...puts.map(({ name, modRevision }) => ({ key: `outbox/${name}`, modRevision }))],
        [
          ...puts.map(({ name, value }) => ({ put: `outbox/${name}`, value })),
          ...(isLast ? [{ put: `whole/${id}`, value: '1' }] : []),
        ],
      );
      // A device has moved or is removed: memory will know in a moment.
      if (!succeeded) throw new EtcdError('unavailable', 'news have changed meanwhile');
      if (this.#options.isBehind(revision))
        for (const put of puts) this.#memory.keep(put.name, { ...put, modRevision: revision });
    }
    this.#memory.close(id);
  }

  /** What cannot be deleted now is deleted first in the next run, with or without the role. */
  async #delete(keys: readonly string[]): Promise<void> {
    for (const key of keys) this.#undeleted.add(key);
    for (let from = 0; from < keys.length; from += CHUNK) {
      const chunk = keys.slice(from, from + CHUNK);
      await this.#options.etcd.txn(
        [],
        chunk.map((key): Op => ({ delete: key })),
      );
      for (const key of chunk) {
        this.#undeleted.delete(key);
        this.#memory.deleted(key);
      }
    }
  }

  #newId(): string {
    return Buffer.from(this.#options.randomBytes(8)).toString('hex');
  }

  #role() {
    const createRevision = this.#options.mine();
    if (createRevision === null) throw new EtcdError('unavailable', 'another instance tells now');
    return { key: keyOf(TELLER), createRevision };
  }
}
