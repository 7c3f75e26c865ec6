/**
 * The news desk: the news of devices that somebody is still to hear of, or whose end will be told, and when to tell. Whom to
 * tell what is decided elsewhere (telling.ts, rules.ts).
 *
 * The first news opens a window of NEWS_WINDOW_MS; news within it may be told together. What is told is marked in the ledger,
 * or dropped from it; a crash in between offers it again, and the outbox knows its key.
 */
import { wordsOf } from '../base/errors.js';
import { SECOND_MS } from '../base/limits.js';
import { Alarm } from '../base/retry/alarm.js';
import type { Clock } from '../base/system/clock.js';
import type { Log } from '../base/system/log.js';
import {
  type DeviceNews,
  type KeptNews,
  NEWS_WINDOW_MS,
  type NewsOfDevice,
  type Office,
  type Telling,
} from './fleet-store.js';

/** The pause after a refusal. */
const RETRY_MS = 4 * SECOND_MS;
/** The wall clock may be set: the desk looks at it at least this often. */
const LOOK_MS_MAX = 60 * SECOND_MS;

/** What becomes of news in the ledger. */
export interface Changes {
  /** The ids of news to remove. */
  readonly dropped: readonly string[];
  /** News with other marks. News that are gone meanwhile stay so. */
  readonly marked: readonly KeptNews[];
}

/** Where the news desk keeps what must outlast the process. Rejects with the store's error. */
export interface DeskLedger {
  settle(changes: Changes): Promise<void>;
}

interface DeskOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly office: Pick<Office, 'isLeader'>;
  readonly ledger: () => DeskLedger;
  /** See Teller.tell. */
  readonly tell: (news: readonly NewsOfDevice[], isLast: boolean) => Promise<Telling>;
  /** What else the leader does. Resolves with why some of it is not done; null: all is. */
  readonly also?: () => Promise<unknown>;
}

/** The news of one device, and when to look at them again. */
interface Pending {
  readonly device: string;
  /** The oldest first. */
  news: readonly KeptNews[];
  /** By the wall clock: somebody is due then. */
  dueMs: number;
  isOwed: boolean;
}

/** Before anybody was asked: at once, unless all know already. */
const firstDueMs = ({ news }: Pick<Pending, 'news'>): number =>
  news.every(({ news: { waits } }) => waits?.length === 0) ? Number.POSITIVE_INFINITY : 0;

/** News of an import are kept in one step. */
const byOrder = (a: KeptNews, b: KeptNews) => a.order - b.order || a.news.atMs - b.news.atMs;

/** The news that are kept. */
export class NewsDesk {
  readonly #options: DeskOptions;
  readonly #alarm: Alarm;
  readonly #byDevice = new Map<string, Pending>();
  /** The device of each news. */
  readonly #devices = new Map<string, string>();
  /** What is settled, and could not be kept. */
  readonly #unkept = { dropped: new Set<string>(), marked: new Map<string, KeptNews>() };
  #windowEndsMs = Number.NEGATIVE_INFINITY;
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

  /** The number of devices of which somebody should have heard, or will at the end of the window. */
  get untold(): number {
    let count = 0;
    for (const { isOwed } of this.#byDevice.values()) if (isOwed) count++;
    return count;
  }

  /** The ids of a device's news, the oldest first. */
  newsOf(device: string): readonly string[] {
    return this.keptOf(device).map(({ news }) => news.id);
  }

  /** A device's news, the oldest first. */
  keptOf(device: string): readonly KeptNews[] {
    return this.#byDevice.get(device)?.news ?? [];
  }

  get ids(): Iterable<string> {
    return this.#devices.keys();
  }

  /** News that are kept, or have other marks now. */
  add(news: DeviceNews, order: number): void {
    const { id, device, atMs } = news;
    const pending = this.#byDevice.get(device) ?? { device, news: [], dueMs: 0, isOwed: false };
    const before = pending.news.find((one) => one.news.id === id);
    const windowEndsMs = before?.windowEndsMs ?? this.#windowFor(atMs);
    const others = pending.news.filter((one) => one !== before);
    pending.news = [...others, { news, order, windowEndsMs }].sort(byOrder);
    this.#byDevice.set(device, pending);
    this.#devices.set(id, device);
    // Marks that this instance has made itself change nothing for it.
    if (before === undefined || !this.#options.office.isLeader) pending.dueMs = firstDueMs(pending);
    if (before === undefined && news.waits === undefined) pending.isOwed = true;
    if (pending.dueMs === 0) this.soon();
  }

  /** News that are not kept any more. */
  remove(id: string): void {
    const device = this.#devices.get(id);
    const pending = device === undefined ? undefined : this.#byDevice.get(device);
    if (pending === undefined) return;
    this.#devices.delete(id);
    pending.news = pending.news.filter(({ news }) => news.id !== id);
    if (pending.news.length === 0) this.#byDevice.delete(pending.device);
  }

  /** The people of this device, or their rules, are others now. */
  changed(device: string): void {
    const pending = this.#byDevice.get(device);
    if (pending === undefined) return;
    pending.dueMs = firstDueMs(pending);
    if (pending.dueMs === 0) this.soon();
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

  /** Tells what waits for the end of a window, too: nobody may do it before the next start. */
  async stop(): Promise<void> {
    if (!this.#isOn) return;
    this.#isOn = false;
    this.#alarm.end();
    await this.#running;
    await this.#run();
  }

  #windowFor(atMs: number): number {
    // After a time of the clock that was wrong, a window far ahead would hold news back.
    const isOpen = atMs < this.#windowEndsMs && atMs >= this.#windowEndsMs - NEWS_WINDOW_MS;
    if (!isOpen) this.#windowEndsMs = atMs + NEWS_WINDOW_MS;
    return this.#windowEndsMs;
  }

  async #run(): Promise<void> {
    // What is kept together comes together.
    await null;
    this.#isWanted = false;
    const { office, log, clock, also } = this.#options;
    let refusal: unknown = null;
    try {
      await this.#keep();
      if (office.isLeader) {
        refusal = (await also?.()) ?? null;
        refusal = (await this.#tellDue()) ?? refusal;
      } else {
        for (const pending of this.#byDevice.values()) pending.dueMs = firstDueMs(pending);
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

  /** Returns why some are not told; null: nothing failed. */
  async #tellDue(): Promise<Error | null> {
    const { clock, tell } = this.#options;
    const nowMs = clock.wallMs();
    const due = [...this.#byDevice.values()].filter(
      ({ dueMs, isOwed }) => dueMs <= nowMs || (isOwed && !this.#isOn),
    );
    if (due.length > 0) {
      const asked = due.map((pending) => ({ pending, device: pending.device, news: pending.news }));
      const { settled, refusal } = await tell(asked, !this.#isOn);
      for (const { pending, device, news } of asked) {
        const one = settled.get(device);
        // What came meanwhile is asked of in the next run.
        if (one === undefined || pending.news !== news) continue;
        pending.dueMs = one.dueMs;
        pending.isOwed = one.isOwed;
        for (const id of one.dropped) this.#unkept.dropped.add(id);
        for (const marked of one.marked) {
          const kept = news.find(({ news: { id } }) => id === marked.id);
          if (kept !== undefined) this.#unkept.marked.set(marked.id, { ...kept, news: marked });
        }
      }
      await this.#keep();
      if (refusal !== null) return refusal;
    }
    this.#wakeFor();
    return null;
  }

  #wakeFor(): void {
    const { clock } = this.#options;
    let dueMs = Number.POSITIVE_INFINITY;
    for (const pending of this.#byDevice.values()) dueMs = Math.min(dueMs, pending.dueMs);
    if (dueMs === Number.POSITIVE_INFINITY || !this.#isOn) return;
    this.#alarm.in(Math.min(Math.max(dueMs - clock.wallMs(), 1), LOOK_MS_MAX));
  }

  /** What cannot be kept now is kept first in the next run, also if another instance tells then. */
  async #keep(): Promise<void> {
    const { dropped, marked } = this.#unkept;
    if (dropped.size + marked.size === 0) return;
    const changes = { dropped: [...dropped], marked: [...marked.values()] };
    for (const id of changes.dropped) this.remove(id);
    for (const { news, order } of changes.marked) if (this.#devices.has(news.id)) this.#mark(news, order);
    await this.#options.ledger().settle(changes);
    for (const id of changes.dropped) dropped.delete(id);
    for (const one of changes.marked) if (marked.get(one.news.id) === one) marked.delete(one.news.id);
  }

  #mark(news: DeviceNews, order: number): void {
    const pending = this.#byDevice.get(news.device);
    if (pending === undefined) return;
    pending.news = pending.news.map((one) =>
      one.news.id === news.id ? { news, order, windowEndsMs: one.windowEndsMs } : one,
    );
  }
}
