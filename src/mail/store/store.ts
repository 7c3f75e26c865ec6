/**
 * The store: every message from its acceptance on, and the address book. It checks what may happen to a message, and
 * records it. Q0 to Q6 are the states of a message (src/README.md).
 */
import type { Buffer } from 'node:buffer';
import { assert, FieldpostError, wordsOf } from '../../base/errors.js';
import { DAY_MS, HOUR_MS, KIB, OUTCOME_RESERVE_BYTES } from '../../base/limits.js';
import { Alarm } from '../../base/retry/alarm.js';
import type { Boots, Stamp } from '../../base/stamp.js';
import {
  isFinal,
  type QueueCounts,
  type QueueRoom,
  type Status,
  type StorageState,
} from '../../base/views.js';
import type { BookKeeping } from '../book/book.js';
import type { Address } from '../message/address.js';
import {
  type Attachment,
  type Content,
  type Draft,
  isUnderstood,
  type Message,
  type Verdict,
} from '../message/message.js';
import { amountsOf, messagesOf as messagesOfDraft, stampedContent } from './acceptance.js';
import { keepBook } from './book-keeping.js';
import { Collapse } from './collapse.js';
import { decodeContent, encodeContent } from './document.js';
import type { StoreEvent } from './event.js';
import { alreadyFinal, conflict, dropFailed, retryFailed } from './failed.js';
import { idMaker } from './ids.js';
import { findKey, forgetKey, isFullKey, type KeyEntry } from './keys.js';
import { Ledger, type LedgerOptions, type Watcher } from './ledger.js';
import type { Known } from './message-table.js';
import { ANYBODY, type Asker, type BudgetLimits, PLAIN_WEIGHT, Quota, type Reservation } from './quota.js';
import type { Reachability } from './reachability.js';
import { Reclaimer } from './reclaim.js';
import { SpoolUpload, type Upload } from './spool.js';
import { blocksOf, countWaiting, messagesOf, restingStatus, type State } from './state.js';
import type { Tallies } from './tally.js';
import { keptReply } from './weight.js';

/** The longest outcome: a reply of REPLY_CHARS_MAX in its record. */
export const OUTCOME_BYTES_MAX = 3 * KIB;
/** So many ends of messages take no more. */
const OUTCOME_ENDS_MAX = 16;
export const IDEMPOTENCY_AGE_MS = DAY_MS;

/** The world of the store, and its settings. */
export interface StoreOptions extends LedgerOptions {
  /** How long the content of a failed message is kept for a retry. */
  readonly keepFailedMs: number;
  readonly budget: BudgetLimits;
  /** The sender that is stamped on emails, */
  readonly sender: () => Address;
  /** and the name beside it; empty: none. */
  readonly senderName?: () => string;
  /** How long an Idempotency-Key is remembered; IDEMPOTENCY_AGE_MS if left out. */
  readonly keyAgeMs?: number;
  /** How durable an outcome is when `settle` resolves; `written` if left out. */
  readonly outcomes?: 'written' | 'synced';
}

/** An Idempotency-Key and the SHA-256 (hex) of the content it came with. */
export interface KeyedContent {
  readonly key: string;
  readonly hash: string;
}

/** The answer of `accept`. */
export interface Accepted {
  /** One for each recipient of each draft, in order. */
  readonly ids: readonly string[];
  /** True if these are the ids of an earlier acceptance with the same key. Then nothing is queued. */
  readonly replayed: boolean;
}

/** `Store.accept` with a key that the caller holds; `hash` is the SHA-256 (hex) of the content. */
type AcceptKeyed = (drafts: readonly Draft[], hash: string) => Promise<Accepted>;

/** A page of a listing. */
interface Page {
  readonly messages: Message[];
  /** The next page begins after this id; null at the end. */
  readonly next: string | null;
}

/** The lists of waiting messages. */
export type WaitingList = 'queued' | 'deferred' | 'urgent';

/** Whether a walk over waiting messages wants a message. It may be asked once for many of a type without extras. */
export type IsWanted = (known: Omit<Known, 'attachments'>) => boolean;

const anyMessage: IsWanted = () => true;

/** How often expired content and keys are removed. */
export const SWEEP_MS = HOUR_MS;
/** One write of an attachment to the disk, */
export const SPOOL_WRITE_BYTES = 256 * KIB;
/** and the least that one is, while many files come at the same time. */
const SPOOL_WRITE_BYTES_MIN = 16 * KIB;
/** The part of the store's memory for these writes; beyond it they get smaller. */
const SPOOL_WRITE_SHARE = 1 / 4;

/** Opens the store in its directory, and makes the directory if it is missing. Throws `already-running`. */
export async function openStore(options: StoreOptions): Promise<Store> {
  const store = new Store(options, await Ledger.open(options));
  await store.sweep();
  return store;
}

/** Opened by `openStore`. */
export class Store {
  /** How the address book is kept: in the same journal. An edit waits neither for the queue nor for the link. */
  readonly book: BookKeeping;
  /** Drawn at random when the store was created; 16 hex digits. */
  readonly storeId: string;
  /** The boots that a stamp refers to. */
  readonly boots: Boots;
  /** Messages whose failure nobody was told: their ids, the oldest failure first, at most UNTOLD_MAX. */
  readonly untold: ReadonlySet<string>;
  readonly reachability: Reachability;
  /** What relays with a rate have taken. */
  readonly sentBy: Tallies;
  readonly #options: StoreOptions;
  readonly #ledger: Ledger;
  readonly #state: State;
  readonly #quota: Quota;
  readonly #reclaimer: Reclaimer;
  readonly #makeId: (counter: number) => string;
  #counter: number;
  /** The keys of the requests in progress. */
  readonly #inProgress = new Set<string>();
  readonly #uploads = new Set<SpoolUpload>();
  /** Messages that are being cancelled or replaced: their record is on its way to the disk, so they must not be sent. */
  readonly #leaving = new Set<string>();
  readonly #collapse: Collapse;
  /** Messages that are claimed. */
  readonly #sending = new Set<string>();
  #stopping = false;
  readonly #sweepAlarm: Alarm;

  constructor(options: StoreOptions, ledger: Ledger) {
    const { state, reachability } = ledger;
    this.#options = options;
    this.#ledger = ledger;
    this.#state = state;
    this.#quota = new Quota(options, ledger);
    this.#reclaimer = new Reclaimer({ ...options, ledger, quota: this.#quota });
    this.#collapse = new Collapse(state, this.#leaving, { now: () => ledger.now(), log: options.log });
    this.#makeId = idMaker(options.randomBytes);
    this.#counter = state.counter;
    this.#sweepAlarm = new Alarm(options.clock, () => void this.sweep());
    this.storeId = state.storeId;
    this.boots = state.boots;
    this.untold = state.untold;
    this.reachability = reachability;
    this.sentBy = state.sentBy;
    this.book = keepBook(ledger, this.#quota, options.randomBytes);
  }

  /**
   * Begins an upload, and reserves room for one message and `expectedBytes` on the disk. If the size is unknown (0), or
   * content of failed messages must be dropped first, the reservation grows with the bytes that come. Throws queue-full,
   * storage-full, storage-failed, stopping. Without an asker it is not urgent, and of nobody whose share is bounded.
   */
  async upload(expectedBytes: number, { isUrgent, onlySends, caller }: Asker = ANYBODY): Promise<Upload> {
    this.#assertWorking();
    await this.#quota.look();
    const asked = { count: 1, bytes: expectedBytes, memoryBytes: PLAIN_WEIGHT };
    const upload: SpoolUpload = new SpoolUpload({
      spool: this.#ledger.spool,
      // Content of failed messages is dropped only for bytes that have arrived, not for a Content-Length.
      reserved: this.#reclaimer.reserve(asked, { isUrgent, onlySends, caller }),
      writeBytes: this.#writeBytesOf(expectedBytes),
      reclaimer: this.#reclaimer,
      onOver: () => this.#uploads.delete(upload),
    });
    this.#uploads.add(upload);
    return upload;
  }

  /** Small files are written in small pieces. Large files are too while many uploads run. */
  #writeBytesOf(expectedBytes: number): number {
    const wholeBytes = Math.min(expectedBytes || SPOOL_WRITE_BYTES, SPOOL_WRITE_BYTES);
    let memoryBytes = 2 * wholeBytes;
    for (const upload of this.#uploads) memoryBytes += upload.memoryBytes;
    const fits = memoryBytes <= this.#state.bounds.memoryBytesMax * SPOOL_WRITE_SHARE;
    const bytes = fits ? wholeBytes : Math.min(wholeBytes, SPOOL_WRITE_BYTES_MIN);
    return blocksOf(bytes);
  }

  /**
   * Q2: resolves once all drafts and the key are on the device. Accepts all drafts or none. Throws queue-full,
   * storage-full, storage-failed (outcome unknown), stopping; with a key also conflict (another request holds it) and
   * invalid (it was used with other content). The attachments leave their upload, unless the key is already known.
   */
  async accept(drafts: readonly Draft[], keyed: KeyedContent | null): Promise<Accepted> {
    if (keyed) return await this.withKey(keyed.key, (accept) => accept(drafts, keyed.hash));
    return { ids: await this.#acceptInTurn(drafts, null), replayed: false };
  }

  /**
   * Holds the key while `work` runs. `work` reads the body and accepts its drafts with the given function. Throws
   * conflict if another request holds the key.
   */
  async withKey<T>(key: string, work: (accept: AcceptKeyed) => Promise<T>): Promise<T> {
    if (this.#inProgress.has(key)) {
      throw new FieldpostError('conflict', 'a request with this Idempotency-Key is still in progress', {
        hint: 'wait for its answer',
      });
    }
    this.#inProgress.add(key);
    try {
      return await work(async (drafts, hash) => {
        const known = this.#idsOf({ key, hash });
        if (known) return { ids: known, replayed: true };
        return { ids: await this.#acceptInTurn(drafts, { key, hash }), replayed: false };
      });
    } finally {
      this.#inProgress.delete(key);
    }
  }

  /**
   * The ids accepted with this key, and the SHA-256 (hex) of the content; null if the key is unknown. Throws storage-full
   * and storage-failed while the disk refuses writes.
   */
  recall(key: string): KeyEntry | null {
    // The records that recovery found are perhaps not on the device yet.
    if (this.#ledger.trouble) throw this.#ledger.trouble;
    const entry = findKey(this.#state, key);
    return entry && !this.#isOver(entry) ? entry : null;
  }

  /** The keys that are remembered. */
  get keys(): Iterable<readonly [key: string, { readonly ids: readonly string[] }]> {
    return this.#state.keys;
  }

  /** The ids that this key got; null if it is new. Throws invalid if it was used with other content. */
  #idsOf({ key, hash }: KeyedContent): readonly string[] | null {
    const entry = this.recall(key);
    if (entry === null) return null;
    if (entry.hash === hash) return entry.ids;
    throw new FieldpostError('invalid', 'this Idempotency-Key was used with other content', {
      hint: 'use a new key for a new message',
    });
  }

  #isOver({ at }: KeyEntry): boolean {
    return this.#ledger.ageMs(at) > (this.#options.keyAgeMs ?? IDEMPOTENCY_AGE_MS);
  }

  #acceptInTurn(drafts: readonly Draft[], keyed: KeyedContent | null): Promise<string[]> {
    return this.#collapse.inTurn(drafts, () => this.#acceptNew(drafts, keyed));
  }

  async #acceptNew(drafts: readonly Draft[], keyed: KeyedContent | null): Promise<string[]> {
    this.#assertWorking();
    const ledger = this.#ledger;
    const files = this.#takeFiles(drafts);
    const { sender, senderName } = this.#options;
    const fromName = senderName?.() ?? '';
    const contents = drafts.map((draft) => encodeContent(stampedContent(draft, fromName)));
    let reserved: Reservation | null = null;
    try {
      if (this.#quota.space.stale) await this.#quota.look();
      const asked = this.#collapse.needed(amountsOf(drafts, contents, keyed), drafts);
      reserved = this.#reclaimer.reserve(asked, {
        isUrgent: drafts.every(({ urgent }) => urgent),
        onlySends: drafts.some(({ onlySends }) => onlySends),
        caller: drafts[0]?.caller,
      });
      await this.#reclaimer.grow(reserved, asked.bytes);
      const dropped = this.#reclaimer.inTheWay;
      const events: StoreEvent[] = dropped.length > 0 ? [{ e: 'dropped', ids: dropped }] : [];
      if (files.length > 0) await ledger.spool.keepNames(files);
      // Ids must have the order of the records, so nothing awaits between making the ids and recording.
      const acceptor = { storeId: this.storeId, sender, newId: () => this.#makeId(++this.#counter) };
      const accepted = drafts.flatMap((draft, i) => messagesOfDraft(draft, contents[i] as Buffer, acceptor));
      const { messages, replaced } = this.#collapse.replace(accepted);
      const full = keyed !== null && isFullKey(keyed.key) && { full: true as const };
      events.push({ e: 'accepted', ...ledger.birth(), messages, ...keyed, ...full }, ...replaced);
      // Q2: this sync is the promise behind the 202.
      await this.#collapse.leave(replaced, () => ledger.record(events, 'synced', contents));
      this.#reclaimer.logDropped(dropped);
      return messages.map(({ id }) => id);
    } catch (error) {
      if (files.length > 0) ledger.giveUpFiles(files);
      throw error;
    } finally {
      reserved?.end();
    }
  }

  /** Takes the drafts' files from their uploads. If the acceptance fails, it removes them. */
  #takeFiles(drafts: readonly Draft[]): string[] {
    const files = drafts.flatMap(({ attachments }) => attachments.map(({ id }) => id));
    for (const upload of this.#uploads) {
      const own = files.filter((id) => upload.has(id));
      if (own.length > 0) upload.take(own);
    }
    return files;
  }

  /** Unless it is claimed, a message may be another object after an await: look for its id again. */
  get(id: string): Message | undefined {
    return this.#state.messages.get(id);
  }

  /** Resolves when the message is final or unknown, or when the signal aborts. Never rejects. */
  whenFinal(id: string, signal?: AbortSignal): Promise<void> {
    return this.#ledger.outcomes.whenFinal(id, signal);
  }

  /** Tells `watcher` of each change from now on; null ends that. */
  watch(watcher: Watcher | null): void {
    this.#ledger.watcher = watcher;
  }

  /**
   * At most `limit` messages, newest first, of one status if given, accepted before the message `after`; only digests of
   * failures with `isDigest`. Ids sort by acceptance, so a page is right even if the message `after` was forgotten.
   */
  list(query: { status: Status | null; limit: number; after: string | null; isDigest?: true }): Page {
    const { status, limit, after, isDigest } = query;
    const messages: Message[] = [];
    const isWanted: IsWanted = (known) =>
      (status ?? known.status) === known.status && (!isDigest || !!known.extras?.notice);
    for (const message of this.#state.messages.selectBackwards(isWanted, after)) {
      if (messages.length === limit) return { messages, next: (messages.at(-1) as Message).id };
      messages.push(message);
    }
    return { messages, next: null };
  }

  /**
   * Cancels a message that is not final. A failed one stays failed, and loses its content. Throws not-found; conflict if
   * the message is being sent, or is final without content.
   */
  async cancel(id: string): Promise<void> {
    const message = this.#find(id);
    if (message.status === 'sending' || this.#leaving.has(id))
      throw conflict('the message is being sent right now', 'look up its status later');
    const drops = message.status === 'failed' && message.place !== null;
    if (isFinal(message.status) && !drops) throw alreadyFinal(message);
    if (drops) await this.#end([{ e: 'dropped', ids: [id] }], [{ id }]);
    else await this.#end([{ e: 'cancelled', id, at: this.#ledger.now() }], [{ id }]);
    // A retry may have been recorded before this.
    if (drops && message.place !== null) throw conflict('the message is queued again');
  }

  #end(events: readonly StoreEvent[], ends: readonly { id: string; by?: string }[]): Promise<void> {
    // On a full disk this may use the reserve for outcomes, because it frees room, unless it is too long for that.
    const isOutcome = this.hasReserve && events.length <= OUTCOME_ENDS_MAX;
    return this.#collapse.leave(ends, () =>
      this.#ledger.record(events, isOutcome ? 'synced-outcome' : 'synced'),
    );
  }

  /** Makes the message due now. Queues a failed one again if its content is still stored. Throws not-found, conflict. */
  async retry(id: string): Promise<void> {
    const message = this.#find(id);
    if (this.#leaving.has(id)) throw conflict('the message is being cancelled');
    const again = message.status === 'failed' && message.place !== null && isUnderstood(message);
    if (isFinal(message.status) && !again) throw alreadyFinal(message);
    if (again || message.due)
      await this.#ledger.record([{ e: 'retried', id, ...this.#ledger.birth() }], 'synced');
    // Its content may have been dropped meanwhile.
    if (message.status === 'failed' && message.place === null) throw alreadyFinal(message);
  }

  /** See failed.ts. */
  readonly retryFailed = () => retryFailed(this.#ledger, this.#leaving);
  readonly dropFailed = () => dropFailed(this.#ledger, () => this.hasReserve);

  /** Makes everything due now. */
  async flush(): Promise<void> {
    if (this.#state.deferred.size > 0) await this.#ledger.record([{ e: 'flushed' }], 'synced');
  }

  /**
   * Overwrites the content of final messages; with `withDamaged` also the copies of damage. If it throws storage-full,
   * storage-failed or stopping, some content may be left.
   */
  purge(withDamaged: boolean): Promise<void> {
    return this.#ledger.purge(withDamaged);
  }

  get held(): boolean {
    return this.#state.held;
  }

  hold(): Promise<void> {
    return this.#setHeld(true);
  }

  release(): Promise<void> {
    return this.#setHeld(false);
  }

  async #setHeld(held: boolean): Promise<void> {
    if (held !== this.held) await this.#ledger.record([{ e: 'held', held }], 'synced');
  }

  counts(): QueueCounts {
    const { messages, kept, finished, deferred, forCloud, held } = this.#state;
    let failed = kept.size;
    for (const id of finished) if (messages.known(id)?.status === 'failed') failed++;
    let resting = deferred.size;
    for (const id of this.#sending) if (deferred.has(id)) resting--;
    const [oldest] = messages.select(({ status }) => !isFinal(status));
    return {
      queued: countWaiting(this.#state) - resting - this.#sending.size,
      sending: this.#sending.size,
      deferred: resting,
      failed,
      forCloud: forCloud.size,
      oldestAgeMs: oldest ? this.#ledger.ageMs(oldest.accepted) : 0,
      bytes: this.#ledger.diskBytes,
      held,
    };
  }

  get lastSent(): Stamp | null {
    return this.#state.lastSent;
  }

  room(): QueueRoom {
    return this.#quota.room;
  }

  storage(): StorageState {
    const { space } = this.#quota;
    if (space.stale) void this.#quota.look().catch(() => undefined);
    const trouble = this.#ledger.trouble ?? space.trouble;
    const { shortage, freeBytes } = space;
    const state = trouble ? 'failed' : shortage ? 'full' : 'ok';
    return { state, reason: trouble?.message ?? shortage, freeBytes, ...this.#ledger.damage };
  }

  /** Looks at the disk now. Returns the reason why no message of 1 KiB fits, or null. Never rejects. */
  async look(): Promise<string | null> {
    return await this.#quota.look().then(() => this.room().reason ?? this.storage().reason, wordsOf);
  }

  /** True if there is certainly room to record the outcome of one more message. Delivery offers nothing while it is false. */
  get hasReserve(): boolean {
    const neededBytes = (this.#sending.size + this.#leaving.size + 1) * OUTCOME_BYTES_MAX;
    return this.#ledger.reserveBytes >= Math.min(neededBytes, OUTCOME_RESERVE_BYTES);
  }

  /** Resolves once `hasReserve` is true. Rejects with storage-full or storage-failed. */
  fillReserve(): Promise<void> {
    return this.#ledger.fillReserve();
  }

  /** Messages never deferred (`queued` or `sending`), oldest first. Do not keep the iterator across an await. */
  *queued(isWanted = anyMessage): Iterable<Message> {
    const { messages, deferred } = this.#state;
    const isQueued: IsWanted = (known) =>
      (known.status === 'queued' || known.status === 'sending') && isWanted(known);
    for (const message of messages.select(isQueued))
      if (!deferred.has(message.id) && !this.#leaving.has(message.id)) yield message;
  }

  /** Messages with status `deferred` or, while being sent, `sending`; in the order of their deferral. */
  deferred(isWanted = anyMessage): Iterable<Message> {
    return this.#waiting(this.#state.deferred, isWanted);
  }

  /** The urgent ones of both, in the order of their acceptance. */
  urgent(isWanted = anyMessage): Iterable<Message> {
    return this.#waiting(this.#state.urgent, isWanted);
  }

  *#waiting(ids: ReadonlySet<string>, isWanted: IsWanted): Iterable<Message> {
    const { messages } = this.#state;
    for (const id of ids) {
      const known = this.#leaving.has(id) ? undefined : messages.known(id);
      if (known && isWanted(known)) yield messages.get(id) as Message;
    }
  }

  /** How many messages a walk over this list passes, wanted or not. */
  lengthOf(list: WaitingList): number {
    const { deferred, urgent } = this.#state;
    if (list === 'queued') return countWaiting(this.#state) - deferred.size;
    return (list === 'deferred' ? deferred : urgent).size;
  }

  /**
   * The only way to get a message for sending. Marks it as `sending` (Q3, only in memory) and gives it. Null if it is
   * unknown, final, claimed or being cancelled, if a newer one replaces it, or if the queue is on hold. `expire` sends
   * nothing, so it ignores a hold.
   */
  claim(id: string, purpose: 'send' | 'expire' = 'send'): Message | null {
    const message = this.get(id);
    if (message?.status !== 'queued' && message?.status !== 'deferred') return null;
    if (this.#leaving.has(id) || (this.held && purpose === 'send')) return null;
    if (purpose === 'send' && this.#replace(this.#collapse.endsOf(message, true))) return null;
    message.status = 'sending';
    this.#sending.add(id);
    this.#ledger.watcher?.(message);
    return message;
  }

  /** Ends a claim without an outcome: the message is as before. */
  giveBack(id: string): void {
    const message = this.#claimed(id);
    message.status = restingStatus(this.#state, id);
    this.#sending.delete(id);
    this.#ledger.watcher?.(message);
    // Else the newer one may go before it.
    this.#replace(this.#collapse.endsOf(message));
  }

  /** True if there is something to replace. If that fails, a later claim finds it again. */
  #replace(ends: ReturnType<Collapse['endsOf']>): boolean {
    if (ends.length > 0) void this.#end(ends, ends).catch(() => undefined);
    return ends.length > 0;
  }

  /**
   * Ends a claim with an outcome (Q4…Q6). Resolves when it is written; if `StoreOptions.outcomes` is `synced`, when it
   * is synced. Rejects with storage-full or storage-failed.
   */
  async settle(id: string, verdict: Verdict): Promise<void> {
    const message = this.#claimed(id);
    // Q4: written now, so that a killed process does not send twice; synced now, or within a second.
    const urgency = this.#options.outcomes === 'synced' ? 'synced-outcome' : 'written';
    const reply = keptReply(verdict.reply, this.#quota.leftMemoryBytes);
    const [end] = verdict.kind === 'deferred' ? this.#collapse.endsOf(message) : [];
    const event = end ?? this.#ledger.outcomeOf(message, { ...verdict, reply });
    await this.#collapse.leave(end ? [end] : [], () => this.#ledger.record([event], urgency));
    // It may be claimed again by now.
    if (message.status !== 'sending') this.#sending.delete(id);
  }

  /** Throws storage-damaged if the content has changed. */
  async content(message: Message): Promise<Content> {
    // A compaction may have moved it since the caller got the message.
    const place = this.get(message.id)?.place;
    if (!place) throw new FieldpostError('storage-damaged', 'the content is no longer stored');
    const content = decodeContent(await this.#ledger.contents.read(place), message);
    if (!content) throw new FieldpostError('storage-damaged', 'the stored content has another form');
    return content;
  }

  /** See Spool.read. */
  openAttachment(attachment: Attachment): AsyncIterable<Buffer> {
    return this.#ledger.spool.read(attachment);
  }

  /** Drops content and keys that are too old, now and every hour. */
  async sweep(): Promise<void> {
    const { kept, keys, sendKeys } = this.#state;
    for (const [key, entry] of [...keys, ...sendKeys]) if (this.#isOver(entry)) forgetKey(this.#state, key);
    void this.#ledger.sweep();
    const { keepFailedMs } = this.#options;
    const isOver = ({ failed }: Message) => failed && this.#ledger.ageMs(failed) > keepFailedMs;
    const ids = [...messagesOf(this.#state, kept)].filter(isOver).map(({ id }) => id);
    if (ids.length > 0) await this.#reclaimer.drop(ids).catch(() => undefined);
    await this.#ledger.keepClock();
    this.#sweepAlarm.in(SWEEP_MS);
  }

  /** Writes pending events, makes a checkpoint, and closes the directory's files. */
  async close(): Promise<void> {
    this.#stopping = true;
    this.#sweepAlarm.end();
    await this.#ledger.keepClock();
    await this.#ledger.close();
  }

  #assertWorking(): void {
    if (this.#stopping)
      throw new FieldpostError('stopping', 'the daemon is stopping', { hint: 'try again in a moment' });
    if (this.#ledger.trouble) throw this.#ledger.trouble;
  }

  #find(id: string): Message {
    const message = this.get(id);
    if (!message) throw new FieldpostError('not-found', `there is no message ${id}`);
    return message;
  }

  #claimed(id: string): Message {
    const message = this.#find(id);
    assert(message.status === 'sending', 'only a claimed message comes back');
    return message;
  }
}
