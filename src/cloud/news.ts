/**
 * The news desk: the news of devices that people have not been told yet, and their way to people, in batches.
 *
 * The first news opens a batch. After DIGEST_WINDOW_MS a cut closes it: the news up to the cut, and after the cut before, are
 * told together. The ledger keeps the cut, so a batch has the same members after a crash, whoever tells it. What is told is
 * dropped from the ledger; a crash in between offers it again, and the outbox knows its key.
 */
import { grouped } from '../base/collections.js';
import { wordsOf } from '../base/errors.js';
import { SECOND_MS } from '../base/limits.js';
import { Alarm } from '../base/retry/alarm.js';
import type { Clock } from '../base/system/clock.js';
import type { Log } from '../base/system/log.js';
import {
  type DeviceNews,
  DIGEST_WINDOW_MS,
  type NewsBatch,
  type Office,
  type Telling,
} from './fleet-store.js';

/** The pause after a refusal. */
const RETRY_MS = 4 * SECOND_MS;

/** Where the news desk keeps what must outlast the process. Every promise rejects with the store's error. */
export interface DeskLedger {
  /** Closes the batch of all news that are kept and not in a closed batch. Resolves when the desk knows the cut. */
  cut(batch: string): Promise<void>;
  /** Removes news and cuts. */
  drop(news: readonly string[], cuts: readonly string[]): Promise<void>;
}

interface DeskOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly newId: () => string;
  readonly office: Pick<Office, 'isLeader'>;
  readonly ledger: () => DeskLedger;
  /** See Teller.tell. */
  readonly tell: (batch: NewsBatch, isClosed: boolean) => Promise<Telling>;
  /** What else the leader does. Resolves with why some of it is not done; null: all is. */
  readonly also?: () => Promise<unknown>;
}

/** News, and their place in the order in which they were kept. */
interface KeptNews {
  readonly news: DeviceNews;
  readonly order: number;
}

/** News with their batch; null: the open one. */
export interface PendingNews extends KeptNews {
  readonly batch: string | null;
}

const byOrder = (a: KeptNews, b: KeptNews) => a.order - b.order;

/** The news that people are not told yet. */
export class NewsDesk {
  readonly #options: DeskOptions;
  readonly #alarm: Alarm;
  readonly #pending = new Map<string, KeptNews>();
  /** Each device's news, the oldest first. */
  readonly #byDevice = new Map<string, KeptNews[]>();
  /** The order of the last news of each closed batch. */
  readonly #cuts = new Map<string, number>();
  /** What is told, and could not be dropped. */
  readonly #undropped = { news: new Set<string>(), cuts: new Set<string>() };
  #open: { readonly id: string; readonly closesMs: number } | null = null;
  #running: Promise<void> | null = null;
  #isWanted = false;
  /** False before start() and after stop(). */
  #isOn = false;
  #reason: string | null = null;
  /** After a refusal the next try is not before this moment. */
  #retryMs = 0;

  constructor(options: DeskOptions) {
    this.#options = options;
    this.#alarm = new Alarm(options.clock, () => this.soon());
  }

  /** The number of devices with news. */
  get untold(): number {
    return this.#byDevice.size;
  }

  /** The ids of a device's news, the oldest first. */
  newsOf(device: string): readonly string[] {
    return this.#byDevice.get(device)?.map(({ news }) => news.id) ?? [];
  }

  /** All news with their batches, the oldest first. After a day of refusals there are thousands of both. */
  inOrder(): readonly PendingNews[] {
    const cuts = [...this.#cuts].sort(([, a], [, b]) => a - b);
    let next = 0;
    return [...this.#pending.values()].sort(byOrder).map((one) => {
      while ((cuts[next]?.[1] ?? one.order) < one.order) next++;
      return { ...one, batch: cuts[next]?.[0] ?? null };
    });
  }

  get ids(): Iterable<string> {
    return this.#pending.keys();
  }

  get cuts(): Iterable<string> {
    return this.#cuts.keys();
  }

  /** News that are kept. */
  add(news: DeviceNews, order: number): void {
    if (this.#pending.has(news.id)) return;
    const one = { news, order };
    this.#pending.set(news.id, one);
    const all = [...(this.#byDevice.get(news.device) ?? []), one];
    this.#byDevice.set(news.device, all.sort(byOrder));
    this.soon();
  }

  /** News that are not kept any more. */
  remove(id: string): void {
    const one = this.#pending.get(id);
    if (one === undefined) return;
    this.#pending.delete(id);
    const { device } = one.news;
    const rest = this.#byDevice.get(device)?.filter((other) => other !== one) ?? [];
    if (rest.length === 0) this.#byDevice.delete(device);
    else this.#byDevice.set(device, rest);
  }

  /** A cut that is kept. */
  addCut(batch: string, order: number): void {
    this.#cuts.set(batch, order);
    this.soon();
  }

  /** A cut that is not kept any more. */
  removeCut(batch: string): void {
    this.#cuts.delete(batch);
  }

  /** Tells what there is to tell, if this instance tells people. */
  soon(): void {
    if (!this.#isOn) return;
    this.#isWanted = true;
    if (this.#options.clock.bootMs() < this.#retryMs) this.#alarm.at(this.#retryMs);
    else
      this.#running ??= this.#run().finally(() => {
        this.#running = null;
        if (this.#isWanted) this.#alarm.in(1);
      });
  }

  start(): void {
    this.#isOn = true;
    this.soon();
  }

  /** Closes the open batch and tells it: whoever tells next does not know whom of its people this one has told. */
  async stop(): Promise<void> {
    if (!this.#isOn) return;
    this.#isOn = false;
    this.#alarm.end();
    await this.#running;
    await this.#run();
  }

  async #run(): Promise<void> {
    // What is kept together comes together.
    await null;
    this.#isWanted = false;
    const { office, log, clock, also } = this.#options;
    let refusal: unknown = null;
    try {
      await this.#drop([], []);
      if (office.isLeader) {
        refusal = (await also?.()) ?? null;
        refusal = (await this.#tellAll()) ?? refusal;
      } else {
        this.#open = null;
        // A lease that is renewed late is there again without a word.
        this.#alarm.in(RETRY_MS);
      }
    } catch (error) {
      refusal = error;
    }
    if (refusal === null) {
      this.#reason = null;
      return;
    }
    const reason = wordsOf(refusal);
    if (reason !== this.#reason) log.error('notification delayed', { reason });
    this.#reason = reason;
    this.#retryMs = clock.bootMs() + RETRY_MS;
    this.#alarm.at(this.#retryMs);
  }

  /** Returns why some are not told; null: nothing failed. News of one device are told in order. */
  async #tellAll(): Promise<Error | null> {
    const behind = new Set<string>();
    const cuts = [...this.#cuts.keys()];
    const batches = this.#batches();
    let refusal: Error | null = null;
    for (const [id, members] of batches)
      if (id !== null) refusal = (await this.#tellClosed(id, members, behind)) ?? refusal;
    const unused = cuts.filter((id) => this.#left(batches.get(id)).length === 0);
    if (unused.length > 0) await this.#drop([], unused);
    return (await this.#tellOpen(batches.get(null) ?? [], behind)) ?? refusal;
  }

  #batches(): Map<string | null, PendingNews[]> {
    return grouped(this.inOrder(), ({ batch }) => batch);
  }

  /** Without those that were told or taken back meanwhile. */
  #left(members: readonly PendingNews[] = []): readonly PendingNews[] {
    return members.filter(({ news }) => this.#pending.has(news.id));
  }

  /** `behind`: devices with earlier news that are not told; it gets those of this batch. */
  async #tellClosed(id: string, members: readonly PendingNews[], behind: Set<string>): Promise<Error | null> {
    const mustWait = members.some(({ news }) => behind.has(news.device));
    const refusal = mustWait ? null : await this.#tell(id, members, true);
    for (const { news } of this.#left(members)) behind.add(news.device);
    return refusal;
  }

  async #tellOpen(members: readonly PendingNews[], behind: Set<string>): Promise<Error | null> {
    if (members.length === 0) {
      this.#open = null;
      return null;
    }
    const { clock, newId, ledger } = this.#options;
    const nowMs = clock.bootMs();
    this.#open ??= { id: newId(), closesMs: nowMs + DIGEST_WINDOW_MS };
    const { id, closesMs } = this.#open;
    if (nowMs < closesMs && this.#isOn) {
      this.#alarm.at(closesMs);
      const open = members.filter(({ news }) => !behind.has(news.device));
      return await this.#tell(id, open, false);
    }
    // If an earlier try has made the cut after all, memory knows it by now, and these are the news of another batch.
    if (!this.#cuts.has(id)) await ledger().cut(id);
    this.#open = null;
    this.#isWanted = true;
    return await this.#tellClosed(id, this.#batches().get(id) ?? [], behind);
  }

  async #tell(id: string, members: readonly PendingNews[], isClosed: boolean): Promise<Error | null> {
    const news = this.#left(members).map(({ news }) => news);
    if (news.length === 0 || !this.#options.office.isLeader) return null;
    const { told, refusal } = await this.#options.tell({ id, news }, isClosed);
    await this.#drop([...told], []);
    return refusal;
  }

  /** What cannot be dropped now is dropped first in the next run, also if another instance tells then. */
  async #drop(news: readonly string[], cuts: readonly string[]): Promise<void> {
    const undropped = this.#undropped;
    for (const id of news) undropped.news.add(id);
    for (const batch of cuts) undropped.cuts.add(batch);
    if (undropped.news.size + undropped.cuts.size === 0) return;
    await this.#options.ledger().drop([...undropped.news], [...undropped.cuts]);
    for (const id of undropped.news) this.remove(id);
    for (const batch of undropped.cuts) this.removeCut(batch);
    undropped.news.clear();
    undropped.cuts.clear();
  }
}
