/**
 * How much memory the store's own things take: bytes of V8's heap on a 64-bit machine, rounded up, and measured with
 * node 20 (bare message 370, file 250, key 270, id 46). Used by state.ts, which keeps the sums, and by acceptance.ts,
 * which asks for room before it promises anything. Pure.
 */
import { Buffer } from 'node:buffer';
import type { Book } from '../destinations/book.js';
import { BOOK_MEMORY_BYTES, IDEMPOTENCY_KEYS_MAX } from '../limits.js';
import type { Attachment, Message } from '../message/message.js';
import type { KeyEntry, State } from './state.js';

/** How much a state may hold. Settings, not part of the history. */
export interface Bounds {
  /** How many finished messages stay readable. */
  readonly historyMax: number;
  /** Bytes of memory for all of it (weight.ts). Beyond them finished messages are forgotten, the oldest first. */
  readonly memoryBytesMax: number;
  /** How many Idempotency-Keys are remembered. */
  readonly keysMax: number;
}

/** The same: memory has no bound if it is left out, and keys are remembered as local-api §1 has it. */
export type BoundsOptions = Pick<Bounds, 'historyMax'> & Partial<Bounds>;

/** The bounds that options ask for. */
export function boundsOf(options: BoundsOptions): Bounds {
  const { historyMax, memoryBytesMax = Number.POSITIVE_INFINITY, keysMax = IDEMPOTENCY_KEYS_MAX } = options;
  return { historyMax, memoryBytesMax, keysMax };
}

/** Bytes of memory, by weight.ts. */
export interface Weights {
  /** All messages, those of `kept` and `finished` included. */
  messages: number;
  kept: number;
  finished: number;
  keys: number;
  /** Null: it has changed since it was last weighed. */
  book: number | null;
}

// The objects, numbers and table entries of each thing, without its texts. A message has all of its stamps.
const MESSAGE_BYTES = 620;
const FILE_BYTES = 280;
const KEY_BYTES = 280;
const ID_BYTES = 56;
const TEXT_BYTES = 24;
/** A reply of this many characters is always kept; a longer one only where there is memory for it. */
const REPLY_CHARS_SURE = 80;

const WIDE = /[^\0-\xff]/;

/** What is known of a message before it has an id: enough to tell its weight. */
type Weighed = Pick<Message, 'destination' | 'attachments' | 'more'> & { readonly lastReply?: string | null };

/** A message, its files' names and media types, and its last reply. */
export function messageWeight({ destination, attachments, lastReply = null, more }: Weighed): number {
  const replyBytes = Math.max(textWeight(lastReply ?? ''), TEXT_BYTES + REPLY_CHARS_SURE);
  let bytes = MESSAGE_BYTES + textWeight(destination) + replyBytes;
  for (const file of attachments) bytes += fileWeight(file);
  if (more) bytes += 2 * textWeight(JSON.stringify(more));
  return bytes;
}

function fileWeight({ name, type }: Attachment): number {
  return FILE_BYTES + textWeight(name) + textWeight(type);
}

/** An Idempotency-Key, the hash of its content, and its ids. */
export function keyWeight(key: string, { hash, ids }: Pick<KeyEntry, 'hash' | 'ids'>): number {
  return KEY_BYTES + textWeight(key) + textWeight(hash) + ids.length * ID_BYTES;
}

/** The address book with all that is known of the cloud's; room for a full one is kept free of messages. */
export function bookWeight(book: Book): number {
  const { entries, removed, hidden, base, attempted } = book;
  const text = JSON.stringify([[...entries], [...removed], hidden, base, attempted]);
  return Math.max(BOOK_MEMORY_BYTES, 2 * textWeight(text));
}

/** Bytes of memory that all of the state takes. */
export function memoryBytes(state: State): number {
  const { weights, book } = state;
  weights.book ??= bookWeight(book) + unknownWeight(state);
  return weights.messages + weights.keys + weights.book;
}

/** What only a newer version understands weighs with the book: it changes as seldom. */
function unknownWeight({ unknownEvents, more }: State): number {
  return unknownEvents.length > 0 || more ? 2 * textWeight(JSON.stringify([unknownEvents, more])) : 0;
}

/** Without what gives way to new messages: what is kept for a retry, and finished messages. */
export function neededMemoryBytes(state: State): number {
  return memoryBytes(state) - state.weights.kept - state.weights.finished;
}

/** The reply as it is kept, `leftBytes` being what memory there is: an outcome is always recorded. */
export function keptReply(reply: string, leftBytes: number): string {
  return ownText(2 * reply.length <= leftBytes ? reply : reply.slice(0, REPLY_CHARS_SURE));
}

/** V8 keeps a text in Latin-1 if it can, else in UTF-16. */
function textWeight(text: string): number {
  return TEXT_BYTES + text.length * (WIDE.test(text) ? 2 : 1);
}

/** A copy that holds no larger text in memory, as a piece that was cut out of one does. */
export function ownText(text: string): string {
  return Buffer.from(text).toString();
}
