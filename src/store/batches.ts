/**
 * Batches: the messages of a snapshot, some hundred at a time. A batch begins and ends with what is usual (rows.ts), so
 * that it can be read alone, or written again unread. Used by document.ts.
 */
import { isFinal, type Message } from '../message/message.js';
import { forgetSurplus, insert } from './lists.js';
import { type BatchHead, isStored, type StoredBatch, Unread } from './message-map.js';
import { countLive } from './places.js';
import { changesOf, commonOf, RowReader, rowOf, rowsIn, type SnapshotRow, USUAL } from './rows.js';
import type { State } from './state.js';
import { messageWeight } from './weight.js';

/** Messages of a snapshot: as rows; or, if a start need not look at them, as their head and the line that holds the rows. */
export type Batch = StoredBatch | { readonly rows: readonly SnapshotRow[]; readonly head: BatchHead | null };

// Messages and files that are converted in one step.
const BATCH_ITEMS = 256;

/** The batches of all messages, each made on demand. One that was not read is as it was. */
export function* toBatches(state: State): Iterable<Batch> {
  let maker = new BatchMaker(state);
  for (const part of state.messages.parts()) {
    const isUnread = isStored(part);
    if (isUnread ? !maker.isEmpty : maker.isFull) {
      yield maker.end();
      maker = new BatchMaker(state);
    }
    if (isUnread) yield part;
    else maker.add(part);
  }
  if (!maker.isEmpty) yield maker.end();
}

/** Makes one batch. */
class BatchMaker {
  readonly #state: State;
  readonly #rows: SnapshotRow[] = [];
  #first = '';
  #last = '';
  #count = 0;
  readonly #live = new Map<number, number>();
  readonly #boots = new Set<string>();
  #before = USUAL;
  #items = 0;
  #weight = 0;
  #messageWeight = messageWeight(USUAL);
  /** False if a start must look at its messages. */
  #mayWait = true;

  constructor(state: State) {
    this.#state = state;
  }

  get isEmpty(): boolean {
    return this.#items === 0;
  }

  get isFull(): boolean {
    return this.#items >= BATCH_ITEMS;
  }

  add(message: Message): void {
    const { id, place, attachments } = message;
    const common = commonOf(this.#state, message);
    const { type, status } = this.#before;
    const changes = changesOf(this.#before, common);
    if (changes) {
      this.#rows.push(changes);
      this.#messageWeight = messageWeight(message);
      for (const boot of [common.boot, common.retried?.boot, common.failed?.boot, common.sent?.boot])
        if (boot) this.#boots.add(boot);
      if (!this.isEmpty && (common.type !== type || common.status !== status)) this.#mayWait = false;
    }
    // A start needs the files' names, and when a message that is kept has failed.
    if (place && (attachments.length > 0 || isFinal(common.status))) this.#mayWait = false;
    // It also finds those that are urgent, and those that expire by themselves.
    if (common.extras && !isFinal(common.status)) this.#mayWait = false;
    this.#rows.push(rowOf(message));
    this.#first ||= id;
    if (id <= this.#last) this.#mayWait = false;
    this.#last = id;
    this.#count++;
    if (place) this.#live.set(place.segment, (this.#live.get(place.segment) ?? 0) + place.length);
    this.#weight += this.#messageWeight;
    this.#before = common;
    this.#items += 1 + attachments.length;
  }

  end(): Batch {
    const { type, status } = this.#before;
    const head = { first: this.#first, last: this.#last, count: this.#count, type, status };
    const rest = changesOf(this.#before, USUAL);
    if (rest) this.#rows.push(rest);
    const sums = { weight: this.#weight, live: [...this.#live], boots: [...this.#boots] };
    return { rows: this.#rows, head: this.#mayWait ? { ...head, ...sums } : null };
  }
}

/** Adds the messages of these batches to the state; those of a line when they are needed. Throws if rows have another form. */
export function insertBatches(state: State, batches: Iterable<Batch>): void {
  const reader = new RowReader(state);
  let last = '';
  // A MessageMap looks for a message in the batch whose range its id is in.
  let isSorted = true;
  for (const batch of batches) {
    const isUnread = isStored(batch);
    if (isUnread && isSorted && batch.head.first > last) {
      insertUnread(state, batch);
      last = batch.head.last;
      continue;
    }
    reader.read(isUnread ? rowsIn(batch.line) : batch.rows, (message, ...rest) => {
      insert(state, message, ...rest);
      isSorted &&= message.id > last;
      last = message.id;
    });
  }
}

/** Adds the messages of a batch, which is read when they are needed. None of them has files or is kept for a retry. */
function insertUnread(state: State, batch: StoredBatch): void {
  const { status, weight, live } = batch.head;
  state.weights.messages += weight;
  for (const [segment, length] of live) countLive(state, { segment, length }, 1);
  const isDone = isFinal(status);
  if (isDone) state.weights.finished += weight;
  const ofStatus = isDone ? state.finished : status === 'deferred' ? state.deferred : state.queued;
  const unread = new Unread(batch, () => readBatch(state, batch));
  for (const map of [state.messages, ofStatus]) map.addUnread(unread);
  forgetSurplus(state);
}

/** The messages of a batch whose head was counted. */
function readBatch(state: State, { head, line }: StoredBatch): Message[] {
  const messages: Message[] = [];
  // Another version may weigh them in another way.
  let heavier = -head.weight;
  new RowReader(state).read(rowsIn(line), (message, place, weight) => {
    message.place = place;
    messages.push(message);
    heavier += weight;
  });
  state.weights.messages += heavier;
  if (isFinal(head.status)) state.weights.finished += heavier;
  return messages;
}
