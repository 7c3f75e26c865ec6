/**
 * Hands the fleet's notifications and messages to this instance's outbox, while the instance has the role TELLER: one
 * instance sees all news, so that a regional outage gives one digest. What the outbox has accepted is deleted from etcd. If
 * the instance dies in between, the next teller may accept it again.
 *
 * The news of a closed batch have its id. They are told only when `whole/<batch>` says that all of them have it: otherwise a
 * digest about some of them would count as told to the others, too.
 */
import { wordsOf } from '../../base/errors.js';
import { Alarm } from '../../base/retry/alarm.js';
import {
  type DeviceNews,
  DIGEST_WINDOW_MS,
  isHappening,
  type NewsBatch,
  type Telling,
} from '../fleet-store.js';
import { EtcdError, type Op } from './etcd.js';
import { chunksOf, FLEET_TICK_MS, KEYS_MAX, objectIn, ownerKey, TELLER } from './layout.js';
import { deviceOf, type WaitingMessage } from './messages.js';
import type { FleetParts, Shelf } from './mirror.js';

interface EtcdNewsOptions extends FleetParts {
  /** The revision that gave this instance the role; null: it does not have it. */
  readonly mine: () => number | null;
  readonly messages: () => ReadonlyMap<string, WaitingMessage>;
  /** See Teller.tell. */
  readonly tell: (batch: NewsBatch, isClosed: boolean) => Promise<Telling>;
  /** Accepts a message for delivery, once for its key. */
  readonly accept: (message: WaitingMessage) => Promise<void>;
}

/** News and messages of the fleet, and their way into the outbox. */
export class EtcdNews {
  readonly #options: EtcdNewsOptions;
  readonly #alarm: Alarm;
  readonly pending = new EtcdPending(() => this.soon());
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

  constructor(options: EtcdNewsOptions) {
    this.#options = options;
    this.#alarm = new Alarm(options.clock, () => this.soon());
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
    return this.pending.size + this.#options.messages().size;
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
    const waiting = [...messages()].sort(([, a], [, b]) => a.createRevision - b.createRevision);
    let refusal: unknown = null;
    /** Those with a share of the outbox that is full: they do not hold back the others. */
    const behind = new Set<string>();
    for (const next of chunksOf(waiting, KEYS_MAX)) {
      this.#role();
      const chunk = next.filter(([name]) => !behind.has(deviceOf(name)));
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
    // The marks of batches without members.
    await this.#delete(this.pending.unusedBatches().map((batch) => `whole/${batch}`));
    return (await this.#tellOpen(behind)) ?? refusal;
  }

  #closedBatches(): NewsBatch[] {
    const batches = new Map<string, DeviceNews[]>();
    for (const { news, batch } of this.pending.inOrder()) {
      if (!this.pending.isClosed(batch)) continue;
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
    for (const news of batch.news) if (this.pending.has(news)) behind.add(news.device);
    return refusal;
  }

  async #tellOpen(behind: Set<string>): Promise<Error | null> {
    const { clock } = this.#options;
    const open = this.pending.inOrder().filter(({ batch }) => !this.pending.isClosed(batch));
    if (open.length === 0) {
      this.#open = null;
      return null;
    }
    const nowMs = clock.bootMs();
    this.#open ??= { id: this.#options.newId(), closesMs: nowMs + DIGEST_WINDOW_MS };
    const { id, closesMs } = this.#open;
    const news = open.map((one) => one.news);
    if (nowMs < closesMs && !this.#isEnding) {
      this.#alarm.at(closesMs);
      return await this.#tell({ id, news: news.filter(({ device }) => !behind.has(device)) }, false);
    }
    // A close without an answer may have happened. What comes after it needs another id.
    this.#open = { id: this.#options.newId(), closesMs };
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
    for (const chunk of chunksOf(open, KEYS_MAX)) {
      const isLast = chunk.at(-1) === open.at(-1);
      const puts = chunk.map(({ news, modRevision, createRevision }) => {
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
        for (const put of puts) this.pending.keep(put.name, { ...put, modRevision: revision });
    }
    this.pending.close(id);
  }

  /** What cannot be deleted now is deleted first in the next run, with or without the role. */
  async #delete(keys: readonly string[]): Promise<void> {
    for (const key of keys) this.#undeleted.add(key);
    for (const chunk of chunksOf(keys, KEYS_MAX)) {
      await this.#options.etcd.txn(
        [],
        chunk.map((key): Op => ({ delete: key })),
      );
      for (const key of chunk) {
        this.#undeleted.delete(key);
        this.pending.deleted(key);
      }
    }
  }

  #role() {
    const createRevision = this.#options.mine();
    if (createRevision === null) throw new EtcdError('unavailable', 'another instance tells now');
    return { key: ownerKey(TELLER), createRevision };
  }
}

/** News in etcd. */
interface PendingOne {
  readonly news: DeviceNews;
  /** The batch that it belongs to, once that is closed; null: the open one. */
  readonly batch: string | null;
  readonly createRevision: number;
  readonly modRevision: number;
}

/** The news in etcd that people are not told yet, and which closed batches are whole. */
export class EtcdPending {
  readonly #pending = new Map<string, PendingOne>();
  /** The names of each device's news, the oldest first. */
  readonly #byDevice = new Map<string, string[]>();
  /** The batches of which all members are marked. */
  readonly #whole = new Set<string>();
  readonly shelves: Readonly<Record<'outbox' | 'whole', Shelf>> = {
    outbox: {
      names: () => this.#pending.keys(),
      put: (name, found) => {
        this.keep(name, found);
        this.#came();
      },
      deleted: (name) => this.#drop(name),
    },
    whole: {
      names: () => this.#whole.values(),
      put: (batch) => {
        this.close(batch);
        this.#came();
      },
      deleted: (batch) => void this.#whole.delete(batch),
    },
  };
  readonly #came: () => void;

  /** `came` is called when there may be something to tell. */
  constructor(came: () => void) {
    this.#came = came;
  }

  get size(): number {
    return this.#pending.size;
  }

  /** The number of devices with news. */
  get devices(): number {
    return this.#byDevice.size;
  }

  /** The names of a device's news, the oldest first. */
  newsOf(device: string): readonly string[] {
    return this.#byDevice.get(device) ?? [];
  }

  has(news: DeviceNews): boolean {
    return this.#pending.has(nameOf(news));
  }

  /** The oldest first. */
  inOrder(): PendingOne[] {
    return [...this.#pending.values()].sort((a, b) => a.createRevision - b.createRevision);
  }

  isClosed(batch: string | null): batch is string {
    return batch !== null && this.#whole.has(batch);
  }

  /** All members of the batch are marked. */
  close(batch: string): void {
    this.#whole.add(batch);
  }

  /** Closed batches without members. */
  unusedBatches(): string[] {
    const used = new Set([...this.#pending.values()].map(({ batch }) => batch));
    return [...this.#whole].filter((batch) => !used.has(batch));
  }

  /** Throws SyntaxError. */
  keep(name: string, found: { value: string; modRevision: number; createRevision: number }): void {
    const [device, id] = name.split('/') as [string, string];
    const { batch = null, ...happening } = objectIn(found.value) ?? {};
    if (!isHappening(happening) || (batch !== null && typeof batch !== 'string'))
      throw new SyntaxError('no news');
    const { modRevision, createRevision } = found;
    if ((this.#pending.get(name)?.modRevision ?? 0) >= modRevision) return;
    const isNew = !this.#pending.has(name);
    this.#pending.set(name, { news: { ...happening, id, device }, batch, modRevision, createRevision });
    if (!isNew) return;
    // A list gives them in the order of their names.
    const ageOf = (other: string) => this.#pending.get(other)?.createRevision ?? 0;
    const names = [...this.newsOf(device), name].sort((a, b) => ageOf(a) - ageOf(b));
    this.#byDevice.set(device, names);
  }

  /** This key is deleted. */
  deleted(key: string): void {
    const name = key.slice(key.indexOf('/') + 1);
    if (key.startsWith('outbox/')) this.#drop(name);
    if (key.startsWith('whole/')) this.#whole.delete(name);
  }

  #drop(name: string): void {
    if (!this.#pending.delete(name)) return;
    const device = name.slice(0, name.indexOf('/'));
    const rest = this.newsOf(device).filter((other) => other !== name);
    if (rest.length === 0) this.#byDevice.delete(device);
    else this.#byDevice.set(device, rest);
  }
}

/** The name of the news below `outbox/`. */
function nameOf({ device, id }: DeviceNews): string {
  return `${device}/${id}`;
}

/** The news as a member of a closed batch. */
function textOf({ id: _, device: __, ...happening }: DeviceNews, batch: string): string {
  return JSON.stringify({ ...happening, batch });
}
