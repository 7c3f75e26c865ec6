/**
 * The store: checks what may happen to a message, and records it.
 */

import { assert, FieldpostError, wordsOf } from '../../base/errors.js';
import { OUTCOME_BYTES_MAX, OUTCOME_RESERVE_BYTES, SWEEP_MS } from '../../base/limits.js';
import { Alarm } from '../../base/retry/alarm.js';
import type { Boots } from '../../base/stamp.js';
import type { QueueCounts, StorageState } from '../../base/views.js';
import { isFinal } from '../../base/views.js';
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
import { Acceptance } from './acceptance.js';
import { keepBook } from './book.js';
import { Budget, type BudgetLimits } from './budget.js';
import { decodeContent } from './document.js';
import { Ledger, type LedgerOptions } from './ledger.js';
import { alreadyFinal, beingSent, countMessages, listMessages, oldestOpen } from './listing.js';
import { countWaiting, messagesOf } from './lists.js';
import type { Reachability } from './reachability.js';
import { ANYBODY, type Asker } from './room.js';
import { restingStatus, type State } from './state.js';
import type {
  Accepted,
  AcceptKeyed,
  IsWanted,
  KeyedContent,
  Page,
  Store,
  Upload,
  WaitingList,
} from './store.js';
import { keptReply } from './weight.js';

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

/** Opens the store in its directory, and makes the directory if it is missing. Throws `already-running`. */
export async function openStore(options: StoreOptions): Promise<Store> {
  const ledger = await Ledger.open(options);
  const store = new JournaledStore(options, ledger);
  await store.sweep();
  return store;
}

const anyMessage: IsWanted = () => true;

class JournaledStore implements Store {
  readonly book: BookKeeping;
  readonly #options: StoreOptions;
  readonly #ledger: Ledger;
  readonly #budget: Budget;
  readonly #acceptance: Acceptance;
  /** Messages that are being cancelled: their record is on its way to the disk, so they must not be sent. */
  readonly #leaving = new Set<string>();
  /** Messages that are claimed. */
  readonly #sending = new Set<string>();
  #stopping = false;
  readonly #sweepAlarm: Alarm;

  constructor(options: StoreOptions, ledger: Ledger) {
    this.#options = options;
    this.#ledger = ledger;
    this.#budget = new Budget(options, ledger);
    this.#sweepAlarm = new Alarm(options.clock, () => void this.sweep());
    this.book = keepBook(ledger, this.#budget, options.randomBytes);
    this.#acceptance = new Acceptance(options, ledger, this.#budget, () => this.#assertWorking());
  }

  get storeId(): string {
    return this.#state.storeId;
  }

  get boots(): Boots {
    return this.#state.boots;
  }

  get reachability(): Reachability {
    return this.#ledger.reachability;
  }

  get held(): boolean {
    return this.#state.held;
  }

  upload(expectedBytes: number, { isUrgent, onlySends }: Asker = ANYBODY): Promise<Upload> {
    return this.#acceptance.upload(expectedBytes, { isUrgent, onlySends });
  }

  accept(drafts: readonly Draft[], keyed: KeyedContent | null): Promise<Accepted> {
    return this.#acceptance.accept(drafts, keyed);
  }

  withKey<T>(key: string, work: (accept: AcceptKeyed) => Promise<T>): Promise<T> {
    return this.#acceptance.withKey(key, work);
  }

  recall(key: string): ReturnType<Store['recall']> {
    return this.#acceptance.recall(key);
  }

  get keys(): Store['keys'] {
    return this.#state.keys;
  }

  get(id: string): Message | undefined {
    return this.#state.messages.get(id);
  }

  readonly whenFinal: Store['whenFinal'] = (id, signal) => this.#ledger.outcomes.whenFinal(id, signal);

  list(query: Parameters<Store['list']>[0]): Page {
    return listMessages(this.#state, query);
  }

  async cancel(id: string): Promise<void> {
    const message = this.#find(id);
    if (message.status === 'sending' || this.#leaving.has(id)) throw beingSent();
    const drops = message.status === 'failed' && message.place !== null;
    if (isFinal(message.status) && !drops) throw alreadyFinal(message);
    this.#leaving.add(id);
    // On a full disk a cancellation may use the reserve for outcomes, because it frees room.
    const urgency = this.hasReserve ? 'synced-outcome' : 'synced';
    try {
      if (drops) await this.#ledger.record([{ e: 'dropped', ids: [id] }], urgency);
      else await this.#ledger.record([{ e: 'cancelled', id, at: this.#ledger.now() }], urgency);
    } finally {
      this.#leaving.delete(id);
    }
    // A retry may have been recorded before this.
    if (drops && message.place !== null) throw new FieldpostError('conflict', 'the message is queued again');
  }

  async retry(id: string): Promise<void> {
    const message = this.#find(id);
    if (this.#leaving.has(id)) throw new FieldpostError('conflict', 'the message is being cancelled');
    const again = message.status === 'failed' && message.place !== null && isUnderstood(message);
    if (isFinal(message.status) && !again) throw alreadyFinal(message);
    if (again || message.due)
      await this.#ledger.record([{ e: 'retried', id, ...this.#ledger.birth() }], 'synced');
    // Its content may have been dropped meanwhile.
    if (message.status === 'failed' && message.place === null) throw alreadyFinal(message);
  }

  async flush(): Promise<void> {
    if (this.#state.deferred.size > 0) await this.#ledger.record([{ e: 'flushed' }], 'synced');
  }

  purge(withDamaged: boolean): Promise<void> {
    return this.#ledger.purge(withDamaged);
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
    const oldest = oldestOpen(this.#state);
    return {
      ...countMessages(this.#state, this.#sending),
      forCloud: this.#state.forCloud.size,
      oldestAgeMs: oldest ? this.#ledger.ageMs(oldest.accepted) : 0,
      bytes: this.#ledger.diskBytes,
      held: this.held,
    };
  }

  storage(): StorageState {
    if (this.#budget.stale) void this.#budget.look().catch(() => undefined);
    const { damage } = this.#ledger;
    const { shortage, freeBytes, trouble: lost } = this.#budget.space;
    const trouble = this.#ledger.trouble ?? lost;
    const state = trouble ? 'failed' : shortage ? 'full' : 'ok';
    return { state, reason: trouble?.message ?? shortage, freeBytes, ...damage };
  }

  room(): ReturnType<Store['room']> {
    return this.#budget.room;
  }

  async look(): Promise<string | null> {
    return await this.#budget.look().then(() => this.room().reason ?? this.storage().reason, wordsOf);
  }

  get hasReserve(): boolean {
    const neededBytes = (this.#sending.size + this.#leaving.size + 1) * OUTCOME_BYTES_MAX;
    return this.#ledger.reserveBytes >= Math.min(neededBytes, OUTCOME_RESERVE_BYTES);
  }

  fillReserve(): Promise<void> {
    return this.#ledger.fillReserve();
  }

  *queued(isWanted: IsWanted = anyMessage): Iterable<Message> {
    const { messages, deferred } = this.#state;
    const isQueued: IsWanted = (known) =>
      (known.status === 'queued' || known.status === 'sending') && isWanted(known);
    for (const message of messages.select(isQueued))
      if (!deferred.has(message.id) && !this.#leaving.has(message.id)) yield message;
  }

  readonly deferred: Store['deferred'] = (isWanted) => this.#waiting(this.#state.deferred, isWanted);

  readonly urgent: Store['urgent'] = (isWanted) => this.#waiting(this.#state.urgent, isWanted);

  lengthOf(list: WaitingList): number {
    const { deferred, urgent } = this.#state;
    if (list === 'queued') return countWaiting(this.#state) - deferred.size;
    return (list === 'deferred' ? deferred : urgent).size;
  }

  *#waiting(ids: ReadonlySet<string>, isWanted: IsWanted = anyMessage): Iterable<Message> {
    const { messages } = this.#state;
    for (const id of ids) {
      const known = this.#leaving.has(id) ? undefined : messages.known(id);
      if (known && isWanted(known)) yield messages.get(id) as Message;
    }
  }

  claim(id: string, purpose: 'send' | 'expire' = 'send'): Message | null {
    const message = this.#state.messages.get(id);
    if (message?.status !== 'queued' && message?.status !== 'deferred') return null;
    if (this.#leaving.has(id) || (this.held && purpose === 'send')) return null;
    message.status = 'sending';
    this.#sending.add(id);
    return message;
  }

  giveBack(id: string): void {
    this.#claimed(id).status = restingStatus(this.#state, id);
    this.#sending.delete(id);
  }

  async settle(id: string, verdict: Verdict): Promise<void> {
    const message = this.#claimed(id);
    // Q4: written now, so that a killed process does not send twice; synced now, or within a second.
    const urgency = this.#options.outcomes === 'synced' ? 'synced-outcome' : 'written';
    const reply = keptReply(verdict.reply, this.#budget.leftMemoryBytes);
    await this.#ledger.record([this.#ledger.outcomeOf(message, { ...verdict, reply })], urgency);
    // It may be claimed again by now.
    if (message.status !== 'sending') this.#sending.delete(id);
  }

  async content(message: Message): Promise<Content> {
    // A compaction may have moved it since the caller got the message.
    const place = this.#state.messages.get(message.id)?.place;
    if (!place) throw new FieldpostError('storage-damaged', 'the content is no longer stored');
    const content = decodeContent(await this.#ledger.read(place), message);
    if (!content) throw new FieldpostError('storage-damaged', 'the stored content has another form');
    return content;
  }

  openAttachment(attachment: Attachment): AsyncIterable<Buffer> {
    return this.#ledger.spool.read(attachment);
  }

  /** Drops content and keys that are too old, now and every hour. */
  async sweep(): Promise<void> {
    const { keepFailedMs } = this.#options;
    const { kept } = this.#state;
    this.#acceptance.sweep();
    void this.#ledger.sweep();
    const isOver = ({ failed }: Message) => failed && this.#ledger.ageMs(failed) > keepFailedMs;
    const ids = [...messagesOf(this.#state, kept)].filter(isOver).map(({ id }) => id);
    if (ids.length > 0) await this.#acceptance.roomMaker.drop(ids).catch(() => undefined);
    await this.#ledger.keepClock();
    this.#sweepAlarm.in(SWEEP_MS);
  }

  async close(): Promise<void> {
    this.#stopping = true;
    this.#sweepAlarm.end();
    await this.#ledger.keepClock();
    await this.#ledger.close();
  }

  get #state(): State {
    return this.#ledger.state;
  }

  #assertWorking(): void {
    if (this.#stopping)
      throw new FieldpostError('stopping', 'the daemon is stopping', { hint: 'try again in a moment' });
    if (this.#ledger.trouble) throw this.#ledger.trouble;
  }

  #find(id: string): Message {
    const message = this.#state.messages.get(id);
    if (!message) throw new FieldpostError('not-found', `there is no message ${id}`);
    return message;
  }

  #claimed(id: string): Message {
    const message = this.#find(id);
    assert(message.status === 'sending', 'only a claimed message comes back');
    return message;
  }
}
