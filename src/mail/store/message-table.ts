/**
 * All messages, by their ids, in one list that ascends by id. A message that nobody asks for is a row, as in a snapshot:
 *
 *     [id, kind, to, subject, bootMs, reachMs, segment, offset, length, crc]
 *
 * `kind` is a number: what many messages share stands once, in the list of kinds. `bootMs` is when its boot accepted the
 * message. The last four are the place of the content. Segment 0: the content is gone, and `length` is what it took. Few
 * messages have an eleventh member, an object with everything else (Own). A newer minor version adds members only there.
 *
 * A start only parses rows. A row becomes a Message when somebody gets it by its id, perhaps to change it. A snapshot turns
 * the messages back into rows. So a Message that was given out is current only until the next await, unless it is claimed.
 * After that look for its id.
 */
import type { Stamp } from '../../base/stamp.js';
import {
  type Attachment,
  type Extras,
  type Message,
  NO_ATTACHMENTS,
  type Place,
  type Sender,
} from '../message/message.js';
import { unknownMembers } from './format.js';
import { isOwn, OWN_MEMBERS } from './shapes.js';

/** A message at rest. */
export type MessageRow = [
  id: string,
  kind: number,
  to: string,
  subject: string,
  bootMs: number,
  reachMs: number,
  segment: number,
  offset: number,
  length: number,
  crc: number,
  own?: Own,
];

/** What many messages share. `boot` is that of the acceptance. */
export interface RowKind extends Pick<Message, 'type' | 'status'> {
  readonly boot: string;
  readonly from?: Sender | undefined;
}

/** What few messages have. Members of a newer version stand beside these, and are kept. */
interface Own {
  readonly attachments?: readonly Attachment[];
  readonly extras?: Extras;
  readonly retried?: Stamp;
  readonly failed?: Stamp;
  readonly sent?: Stamp;
  readonly replacedBy?: string;
  readonly due?: Stamp;
  readonly attempts?: number;
  readonly reply?: string;
}

const NO_OWN: Own = {};
/** The length of a row without members of its own. */
export const PLAIN_LENGTH = 10;

/** The kinds of many rows, each once. */
export class Kinds {
  readonly list: RowKind[] = [];
  readonly #numbers = new Map<string, number>();
  /** The last one that was asked for: most messages are of the same kind as the one before. */
  #last = -1;

  /** Adds one that is read. */
  add(kind: RowKind): void {
    this.#numbers.set(keyOf(kind), this.list.push(kind) - 1);
  }

  /** The number of this kind, which is added if it is new. */
  numberOf(kind: RowKind): number {
    const last = this.list[this.#last];
    if (last && isSame(last, kind)) return this.#last;
    const key = keyOf(kind);
    const number = this.#numbers.get(key) ?? this.list.push(kind) - 1;
    this.#numbers.set(key, number);
    this.#last = number;
    return number;
  }
}

function keyOf({ type, status, boot, from }: RowKind): string {
  return JSON.stringify([type, status, boot, from]);
}

function isSame(one: RowKind, other: RowKind): boolean {
  return (
    one.boot === other.boot &&
    one.status === other.status &&
    one.from === other.from &&
    one.type === other.type
  );
}

/** The row of a message; `status` is the one that it has at rest. */
function rowOf(message: Message, status: Message['status'], kinds: Kinds): MessageRow {
  const { id, type, destination, from, subject, accepted, reachMs, place, textBytes } = message;
  const kind = kinds.numberOf({ type, status, boot: accepted.boot, from });
  const row: MessageRow = [
    ...([id, kind, destination, subject, accepted.bootMs, reachMs] as const),
    ...(place
      ? ([place.segment, place.offset, place.length, place.crc] as const)
      : ([0, 0, textBytes, 0] as const)),
  ];
  const own = ownOf(message);
  if (own) row.push(own);
  return row;
}

/** Undefined for most. */
function ownOf(message: Message): Own | undefined {
  const { attachments, extras, retried, failed, sent, replacedBy, due, attempts, lastReply, more, place } =
    message;
  const isPlain =
    attachments.length === 0 && extras === undefined && attempts === 0 && lastReply === null && due === null;
  if (isPlain && !retried && !failed && !sent && !more) return undefined;
  return {
    ...more,
    ...(attachments.length > 0 && { attachments }),
    ...(extras && { extras }),
    ...(retried && { retried }),
    // It says until when the content is kept.
    ...(failed && place && { failed }),
    ...(sent && { sent }),
    ...(replacedBy !== undefined && { replacedBy }),
    ...(due && { due }),
    ...(attempts > 0 && { attempts }),
    ...(lastReply !== null && { reply: lastReply }),
  };
}

/** The message of a row. */
export function messageOf(row: MessageRow, kinds: readonly RowKind[]): Message {
  const [id, number, destination, subject, bootMs, reachMs, , , length, , own = NO_OWN] = row;
  const kind = kinds[number] as RowKind;
  const { attachments = NO_ATTACHMENTS, extras, due = null, attempts = 0, reply = null } = own;
  const place = placeOf(row);
  const message: Message = {
    id,
    type: kind.type,
    destination,
    from: kind.from,
    subject,
    extras,
    attachments,
    accepted: { boot: kind.boot, bootMs },
    reachMs,
    status: kind.status,
    attempts,
    lastReply: reply,
    due,
    place,
    textBytes: place ? 0 : length,
    more: own === NO_OWN ? undefined : unknownMembers(own, OWN_MEMBERS),
  };
  if (own.retried) message.retried = own.retried;
  if (own.failed) message.failed = own.failed;
  if (own.sent) message.sent = own.sent;
  if (own.replacedBy) message.replacedBy = own.replacedBy;
  return message;
}

/** Where the content of a row lies; null if it is gone. */
export function placeOf(row: MessageRow): Place | null {
  const [, , , , , , segment, offset, length, crc] = row;
  return segment === 0 ? null : { segment, offset, length, crc };
}

/** True for a list that this file has made: what is read from a disk is parsed, not trusted. */
export function isRow(value: unknown, kinds: readonly RowKind[]): value is MessageRow {
  // By index: a start with ten thousand messages calls it before V8 has compiled a destructured list.
  if (!Array.isArray(value) || value.length < PLAIN_LENGTH || kinds[value[1]] === undefined) return false;
  for (let i = 4; i < PLAIN_LENGTH; i++) if (typeof value[i] !== 'number') return false;
  const own = value[10];
  return (
    typeof value[0] === 'string' &&
    typeof value[2] === 'string' &&
    typeof value[3] === 'string' &&
    (own === undefined || isOwn(own))
  );
}

/** At least so many deleted messages leave the list together. */
const DELETED_MAX = 64;

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

  /** As `get`, only to read: a row stays a row. */
  read(id: string): Message | undefined {
    const entry = this.#entries[this.#indexOf(id)];
    return entry ? this.#messageOf(entry) : undefined;
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
      entry && segments.has(Array.isArray(entry) ? entry[6] : (entry.place?.segment ?? 0));
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
      if (Array.isArray(entry)) {
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
    return Array.isArray(entry) ? messageOf(entry, this.#kinds.list) : entry;
  }

  /** A walk over ten thousand rows asks for each kind, not for each row. */
  #forEntries(isWanted: (known: Known) => boolean): (entry: MessageRow | Message) => boolean {
    const kinds = this.#kinds.list;
    const answers: (boolean | undefined)[] = [];
    return (entry) => {
      if (!Array.isArray(entry) || entry.length > PLAIN_LENGTH) return isWanted(this.#knownOf(entry));
      const number = entry[1];
      answers[number] ??= isWanted(kinds[number] as RowKind);
      return answers[number];
    };
  }

  #knownOf(entry: MessageRow | Message): Known {
    if (!Array.isArray(entry)) return entry;
    const kind = this.#kinds.list[entry[1]] as RowKind;
    const own = entry[10];
    return own ? { ...own, type: kind.type, status: kind.status } : kind;
  }
}
