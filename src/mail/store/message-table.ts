/**
 * All messages, by their ids, in one list that ascends by id. What nobody has asked for is a row (rows.ts), which costs a
 * start nothing but to parse it. A row becomes a Message when somebody gets it by its id, perhaps to change it. A snapshot
 * turns the messages back into rows.
 *
 * So a Message that was given out is current only until the next await, unless it is claimed. After that look for its id.
 */
import type { Message } from '../message/message.js';
import { Kinds, type MessageRow, messageOf, PLAIN_LENGTH, type RowKind, rowOf } from './rows.js';

/** What is known of a message without making it. */
export type Known = Pick<Message, 'type' | 'status'> & Partial<Pick<Message, 'extras' | 'attachments'>>;

/** The rows of all messages at one moment: nobody changes them. */
export interface Rows {
  readonly kinds: readonly RowKind[];
  readonly rows: readonly MessageRow[];
}

/**
 * A walk may miss a message that is added meanwhile. It gives messages to read, not to change: those of rows are made for
 * it alone. Ten thousand that a client lists stay rows.
 */
export class MessageTable implements Iterable<Message> {
  #ids: string[] = [];
  /** Of the id at the same index. Null for one that was deleted: it leaves the list with many others. */
  #entries: (MessageRow | Message | null)[] = [];
  #kinds = new Kinds();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** Undefined if there is none. */
  get(id: string): Message | undefined {
    const at = this.#indexOf(id);
    const entry = this.#entries[at];
    if (!entry) return undefined;
    const message = this.#messageOf(entry);
    this.#entries[at] = message;
    return message;
  }

  /** As `get`, without making the message. */
  known(id: string): Known | undefined {
    const entry = this.#entries[this.#indexOf(id)];
    return entry ? this.#knownOf(entry) : undefined;
  }

  /** Its id must be unknown. */
  add(message: Message): void {
    this.#insert(message.id, message);
  }

  /** The kinds of its rows. */
  get kinds(): Kinds {
    return this.#kinds;
  }

  /** Its id must be unknown, and its kind one of `kinds`. */
  addRow(row: MessageRow): void {
    this.#insert(row[0], row);
  }

  #insert(id: string, entry: MessageRow | Message): void {
    this.#size++;
    const last = this.#ids.at(-1);
    if (last === undefined || last < id) {
      this.#ids.push(id);
      this.#entries.push(entry);
      return;
    }
    const at = this.#from(id);
    // A deleted one may still have its place.
    const replaced = this.#ids[at] === id ? 1 : 0;
    this.#ids.splice(at, replaced, id);
    this.#entries.splice(at, replaced, entry);
  }

  /** Its id must be known. */
  delete(id: string): void {
    this.#entries[this.#indexOf(id)] = null;
    this.#size--;
    if (this.#ids.length < 2 * this.#size + DELETED_MAX) return;
    const entries = this.#entries;
    this.#ids = this.#ids.filter((_, at) => entries[at] !== null);
    this.#entries = entries.filter((entry) => entry !== null);
  }

  [Symbol.iterator](): Iterator<Message> {
    return this.select(() => true);
  }

  /** The wanted messages. `isWanted` may be asked once for all rows of a kind. */
  *select(isWanted: (known: Known) => boolean): Generator<Message, void, void> {
    const isWantedEntry = this.#forEntries(isWanted);
    for (const entry of this.#entries) if (entry && isWantedEntry(entry)) yield this.#messageOf(entry);
  }

  /** The same, the last one first, below this id if one is given. */
  *selectBackwards(
    isWanted: (known: Known) => boolean,
    before: string | null,
  ): Generator<Message, void, void> {
    const [entries, isWantedEntry] = [this.#entries, this.#forEntries(isWanted)];
    for (let at = before === null ? entries.length : this.#from(before); at-- > 0; ) {
      const entry = entries[at];
      if (entry && isWantedEntry(entry)) yield this.#messageOf(entry);
    }
  }

  /** The ids of the messages whose content lies in one of these segments. */
  withContentIn(segments: ReadonlySet<number>): string[] {
    const entries = this.#entries;
    const isIn = (entry: MessageRow | Message | null | undefined) =>
      entry && segments.has(isRow(entry) ? entry[6] : (entry.place?.segment ?? 0));
    return this.#ids.filter((_, at) => isIn(entries[at]));
  }

  /**
   * Turns messages into rows, and gives all of them. `restingStatus` is that of a message that is being sent: it stays a
   * message.
   */
  fold(restingStatus: (id: string) => Message['status']): Rows {
    // Only kinds in use stay.
    const before = this.#kinds.list;
    const kinds = new Kinds();
    const numbers: number[] = [];
    const rows: MessageRow[] = [];
    for (let at = 0; at < this.#entries.length; at++) {
      const entry = this.#entries[at];
      if (!entry) continue;
      if (isRow(entry)) {
        const number = entry[1];
        numbers[number] ??= kinds.numberOf(before[number] as RowKind);
        entry[1] = numbers[number];
        rows.push(entry);
        continue;
      }
      const isSending = entry.status === 'sending';
      const row = rowOf(entry, isSending ? restingStatus(entry.id) : entry.status, kinds);
      rows.push(row);
      if (!isSending) this.#entries[at] = row;
    }
    this.#kinds = kinds;
    return { kinds: [...kinds.list], rows };
  }

  /** -1 if it is unknown. */
  #indexOf(id: string): number {
    const last = this.#ids.at(-1);
    if (last === undefined || id > last) return -1;
    const at = this.#from(id);
    return this.#ids[at] === id && this.#entries[at] ? at : -1;
  }

  /** The index of the first id that is not lower. */
  #from(id: string): number {
    const ids = this.#ids;
    let [low, high] = [0, ids.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((ids[middle] as string) < id) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #messageOf(entry: MessageRow | Message): Message {
    return isRow(entry) ? messageOf(entry, this.#kinds.list) : entry;
  }

  /** A walk over ten thousand rows asks for each kind, not for each row. */
  #forEntries(isWanted: (known: Known) => boolean): (entry: MessageRow | Message) => boolean {
    const kinds = this.#kinds.list;
    const answers: (boolean | undefined)[] = [];
    return (entry) => {
      if (!isRow(entry) || entry.length > PLAIN_LENGTH) return isWanted(this.#knownOf(entry));
      const number = entry[1];
      answers[number] ??= isWanted(kinds[number] as RowKind);
      return answers[number];
    };
  }

  #knownOf(entry: MessageRow | Message): Known {
    if (!isRow(entry)) return entry;
    const kind = this.#kinds.list[entry[1]] as RowKind;
    const own = entry[10];
    return own ? { ...own, type: kind.type, status: kind.status } : kind;
  }
}

/** At least so many deleted messages leave the list together. */
const DELETED_MAX = 64;

function isRow(entry: MessageRow | Message): entry is MessageRow {
  return Array.isArray(entry);
}
