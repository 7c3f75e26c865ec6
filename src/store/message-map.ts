/**
 * Messages by their ids, in order. A start does not parse those of a snapshot: they stand in it as batches, and a batch is
 * read when one of its messages is needed. So a start looks at forty things in place of ten thousand.
 */
import type { Message } from '../message/message.js';

/** What is known of each message of a batch without reading it. */
export type Known = Pick<Message, 'type' | 'status'>;

/** What is known of the messages in a batch without reading it. The type and status are those of each of them. */
export interface BatchHead extends Known {
  /** Their ids ascend from this one. */
  readonly first: string;
  readonly last: string;
  readonly count: number;
  /** Their memory, in bytes. */
  readonly weight: number;
  /** The bytes of their content in each segment. */
  readonly live: readonly (readonly [segment: number, bytes: number])[];
  /** The boots of their stamps. */
  readonly boots: readonly string[];
}

/** A batch of a snapshot: its head and its line. */
export interface StoredBatch {
  readonly head: BatchHead;
  readonly line: Buffer;
}

/** True for a batch that was not read. */
export function isStored(part: object): part is StoredBatch {
  return 'line' in part;
}

/** A batch in which no message has changed since the snapshot. It may stand in several maps: it is read for all of them. */
export class Unread {
  readonly batch: StoredBatch;
  readonly #read: () => readonly Message[];
  readonly #stretches: Stretch[] = [];

  constructor(batch: StoredBatch, read: () => readonly Message[]) {
    this.batch = batch;
    this.#read = read;
  }

  /** Its place in one more map. */
  stretch(): Stretch {
    const stretch = new Stretch(this.batch.head.first, this);
    this.#stretches.push(stretch);
    return stretch;
  }

  /** Puts its messages in all its places. Call it once. */
  read(): void {
    const messages = this.#read();
    for (const stretch of this.#stretches) stretch.fill(messages);
  }
}

/** Messages that stand together: those of a batch, or those that were added one by one. */
class Stretch {
  readonly first: string;
  /** Empty as long as the batch is unread. */
  readonly messages = new Map<string, Message>();
  unread: Unread | null;

  constructor(first: string, unread: Unread | null = null) {
    this.first = first;
    this.unread = unread;
  }

  /** No messages if the batch is unread, and its head not wanted. */
  select(isWanted: (head: BatchHead) => boolean): Iterable<Message> {
    if (this.unread && isWanted(this.unread.batch.head)) this.unread.read();
    return this.messages.values();
  }

  fill(messages: readonly Message[]): void {
    this.unread = null;
    for (const message of messages) this.messages.set(message.id, message);
  }
}

/**
 * Like a Map of messages by their ids, in the order in which they were added. An iteration may miss a message that is
 * added meanwhile.
 */
export class MessageMap implements Iterable<Message> {
  /** The ids of each are higher than those of the one before. Only the last one may hold any ids. */
  #stretches: Stretch[] = [];
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** True if it has the message. It may read a batch, as `get` does. */
  has(id: string): boolean {
    return this.get(id) !== undefined;
  }

  /** Undefined if there is none. */
  get(id: string): Message | undefined {
    return this.#stretches.at(-1)?.messages.get(id) ?? this.#earlier(id)?.messages.get(id);
  }

  /** Its id must be unknown. */
  add(message: Message): void {
    let last = this.#stretches.at(-1);
    if (!last || last.unread) {
      last = new Stretch(message.id);
      this.#stretches.push(last);
    }
    last.messages.set(message.id, message);
    this.#size++;
  }

  /** Its ids must be higher than those that were added before. */
  addUnread(unread: Unread): void {
    this.#stretches.push(unread.stretch());
    this.#size += unread.batch.head.count;
  }

  /** False if there is no such message. */
  delete(id: string): boolean {
    const last = this.#stretches.at(-1);
    const stretch = last?.messages.has(id) ? last : this.#earlier(id);
    if (!stretch?.messages.delete(id)) return false;
    this.#size--;
    if (stretch.messages.size === 0) this.#stretches = this.#stretches.filter((other) => other !== stretch);
    return true;
  }

  [Symbol.iterator](): Iterator<Message> {
    return this.select(() => true);
  }

  /** All messages without those of the unread batches whose head is not wanted. */
  *select(isWanted: (head: BatchHead) => boolean): Generator<Message, void, void> {
    for (const stretch of this.#stretches) {
      // Not yield*: it takes twice as long.
      for (const message of stretch.select(isWanted)) yield message;
    }
  }

  /** The same, the last one first. */
  *selectBackwards(isWanted: (head: BatchHead) => boolean): Generator<Message, void, void> {
    for (const stretch of [...this.#stretches].reverse()) yield* [...stretch.select(isWanted)].reverse();
  }

  /** Each message that was read, and each batch that was not. */
  *parts(): Generator<Message | StoredBatch, void, void> {
    for (const { unread, messages } of this.#stretches) {
      if (unread) yield unread.batch;
      else yield* messages.values();
    }
  }

  /** The only stretch that can have the message, apart from a last one with messages added one by one. It is read. */
  #earlier(id: string): Stretch | undefined {
    const stretches = this.#stretches;
    let [low, high] = [0, stretches.length];
    if (high > 0 && !stretches[high - 1]?.unread) high--;
    // Most unknown ids are new: the last stretch comes first.
    for (let at = high - 1; low < high; at = (low + high) >> 1) {
      if ((stretches[at] as Stretch).first <= id) low = at + 1;
      else high = at;
    }
    if (low === 0) return undefined;
    const stretch = stretches[low - 1] as Stretch;
    if (stretch.unread && id > stretch.unread.batch.head.last) return undefined;
    stretch.unread?.read();
    return stretch;
  }
}
