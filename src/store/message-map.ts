/**
 * The messages of a state, in the order of acceptance. A start does not parse those of a snapshot: a batch of them is read
 * when one of them is asked for. With 10,000 queued messages that saves a third of the time of a start. Used by state.ts.
 */
import { assert } from '../errors.js';
import type { Message } from '../message/message.js';

/** What is known of the messages in a batch without reading it. The type and status are those of each of them. */
export interface BatchHead extends Known {
  readonly ids: readonly string[];
  /** Their memory, in bytes. */
  readonly weight: number;
  /** The bytes of their content in each segment. */
  readonly live: readonly (readonly [segment: number, bytes: number])[];
  /** The boots of their stamps. */
  readonly boots: readonly string[];
}

/** What is known of each message without reading it. */
export type Known = Pick<Message, 'type' | 'status'>;

/** A batch of a snapshot: its head and its line. */
export interface StoredBatch {
  readonly head: BatchHead;
  readonly line: Buffer;
}

/** A batch in which no message has changed since the snapshot. */
class Unread {
  readonly batch: StoredBatch;
  readonly read: () => readonly Message[];

  constructor(batch: StoredBatch, read: () => readonly Message[]) {
    this.batch = batch;
    this.read = read;
  }
}

/** Like a Map of all messages by their ids. */
export class MessageMap {
  /** All messages of an unread batch have the same entry, and stand together. */
  readonly #entries = new Map<string, Message | Unread>();

  get size(): number {
    return this.#entries.size;
  }

  has(id: string): boolean {
    return this.#entries.has(id);
  }

  get(id: string): Message | undefined {
    const found = this.#entries.get(id);
    return found instanceof Unread ? this.#read(found, id) : found;
  }

  /** Reads no batch. */
  peek(id: string): Known | undefined {
    const found = this.#entries.get(id);
    return found instanceof Unread ? found.batch.head : found;
  }

  add(message: Message): void {
    this.#entries.set(message.id, message);
  }

  /** `read` is called when one of its messages is needed. */
  addUnread(batch: StoredBatch, read: () => readonly Message[]): void {
    const unread = new Unread(batch, read);
    for (const id of batch.head.ids) this.#entries.set(id, unread);
  }

  /** Only a message that was read may be forgotten: else its batch would bring it back. */
  delete(id: string): void {
    assert(!(this.#entries.get(id) instanceof Unread));
    this.#entries.delete(id);
  }

  keys(): Iterable<string> {
    return this.#entries.keys();
  }

  /** All messages. Reads all batches on the way. */
  values(): Iterable<Message> {
    return this.select(() => true);
  }

  /** All messages without those of the unread batches whose head is not wanted. */
  *select(isWanted: (head: BatchHead) => boolean): Iterable<Message> {
    let skipped: Unread | null = null;
    for (const [id, entry] of this.#entries) {
      if (!(entry instanceof Unread)) yield entry;
      else if (entry !== skipped && isWanted(entry.batch.head)) yield this.#read(entry, id);
      else skipped = entry;
    }
  }

  /** Each message that was read, and each batch that was not. */
  *parts(): Iterable<Message | StoredBatch> {
    let last: Unread | null = null;
    for (const entry of this.#entries.values()) {
      if (!(entry instanceof Unread)) yield entry;
      else if (entry !== last) {
        last = entry;
        yield entry.batch;
      }
    }
  }

  #read(unread: Unread, id: string): Message {
    // An entry that is set again keeps its place.
    for (const message of unread.read()) this.#entries.set(message.id, message);
    const message = this.#entries.get(id);
    assert(message !== undefined && !(message instanceof Unread), 'a batch holds the messages of its head');
    return message;
  }
}
