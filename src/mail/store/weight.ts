/**
 * How much memory the store's own things take: bytes of V8's heap on a 64-bit machine, rounded up. With node 20 a bare
 * message measures 370 bytes, a file 250, a key 270, an id 46. Pure.
 */
import { Buffer } from 'node:buffer';
import { FINISHED_SHARE, KIB } from '../../base/limits.js';
import { cut } from '../../base/text.js';
import type { Book } from '../book/book.js';
import type { Attachment, Message } from '../message/message.js';

/** Memory that messages leave to the address book. */
const BOOK_MEMORY_BYTES = 512 * KIB;
export const IDEMPOTENCY_KEYS_MAX = 10_000;
/** Their ids take 56 KiB. */
export const UNTOLD_MAX = 1000;

/** How much a state may hold. Settings, not part of the history. */
export interface Bounds {
  /** How many finished messages stay readable. */
  readonly historyMax: number;
  /** If the state takes more memory than this, it forgets the oldest finished messages. */
  readonly memoryBytesMax: number;
  /** Finished messages take at most so much memory, because the snapshots take disk for them. A reload changes it. */
  readonly finishedBytesMax: number;
  /** How many Idempotency-Keys are remembered. */
  readonly keysMax: number;
  /** How many failures are remembered until somebody is told of them; 0: nobody is. A reload changes it. */
  readonly untoldMax: number;
}

/** Without `memoryBytesMax` memory has no bound; without `keysMax` it is IDEMPOTENCY_KEYS_MAX. */
export type BoundsOptions = Pick<Bounds, 'historyMax'> &
  Partial<Bounds> & { readonly budget?: { readonly maxSpoolBytes: number; readonly failuresTo?: unknown } };

/** The bounds, with defaults. */
export function boundsOf(options: BoundsOptions): Bounds {
  const { historyMax, memoryBytesMax = Number.POSITIVE_INFINITY, keysMax = IDEMPOTENCY_KEYS_MAX } = options;
  return {
    ...{ historyMax, memoryBytesMax, keysMax },
    get finishedBytesMax() {
      return (options.budget?.maxSpoolBytes ?? Number.POSITIVE_INFINITY) * FINISHED_SHARE;
    },
    get untoldMax() {
      return options.budget?.failuresTo ? UNTOLD_MAX : 0;
    },
  };
}

/** Sums, in bytes of memory. */
export interface Weights {
  /** Includes the messages in `kept` and `finished`. */
  messages: number;
  kept: number;
  finished: number;
  /** Includes the keys in `sendKeys`. */
  keys: number;
  sendKeys: number;
  /** Null: it has changed since it was weighed. */
  book: number | null;
}

// Objects, numbers and table entries, without texts. A message has all of its stamps.
const MESSAGE_BYTES = 650;
const FILE_BYTES = 340;
/** A member more may need a table of its own. */
const CID_BYTES = 80;
const EXTRAS_BYTES = 160;
/** A key's entry in the index, and the id of a newer message. */
const COLLAPSE_BYTES = 400;
const KEY_BYTES = 280;
const ID_BYTES = 56;
const TEXT_BYTES = 24;
/** A reply of this many characters is always kept; a longer one only if there is memory for it. */
const REPLY_CHARS_SURE = 80;
const PLAIN_BYTES = MESSAGE_BYTES + TEXT_BYTES + REPLY_CHARS_SURE;

const WIDE = /[^\0-\xff]/;

/** The part of a message that is known before it has an id. */
type Weighed = Pick<Message, 'destination' | 'subject' | 'attachments' | 'more'> &
  Partial<Pick<Message, 'lastReply' | 'extras'>>;

/** A queued message without files, extras and reply, as messageWeight gives it. */
export function plainWeight(destination: string, subject: string): number {
  return PLAIN_BYTES + textWeight(destination) + textWeight(subject);
}

/** A message, its files' names and media types, and its last reply. */
export function messageWeight(message: Weighed): number {
  const { destination, subject, attachments, lastReply = null, extras, more } = message;
  const replyBytes = Math.max(textWeight(lastReply ?? ''), TEXT_BYTES + REPLY_CHARS_SURE);
  let bytes = plainWeight(destination, subject) + replyBytes - TEXT_BYTES - REPLY_CHARS_SURE;
  if (extras) bytes += EXTRAS_BYTES + textWeight(extras.messageId ?? '');
  if (extras?.collapse !== undefined)
    bytes += COLLAPSE_BYTES + 2 * textWeight(extras.collapse) + textWeight(destination);
  if (extras?.caller !== undefined) bytes += textWeight(extras.caller);
  for (const file of attachments) bytes += fileWeight(file);
  if (more) bytes += 2 * textWeight(JSON.stringify(more));
  return bytes;
}

function fileWeight({ name, type, cid }: Attachment): number {
  return (
    FILE_BYTES + textWeight(name) + textWeight(type) + (cid === undefined ? 0 : CID_BYTES + textWeight(cid))
  );
}

/** An Idempotency-Key, the hash of its content, and its ids. */
export function keyWeight(
  key: string,
  { hash, ids }: { readonly hash: string; readonly ids: readonly string[] },
): number {
  return KEY_BYTES + textWeight(key) + textWeight(hash) + ids.length * ID_BYTES;
}

/** The address book, and the cloud's last copy of it. At least the room of a full book, which messages never take. */
function bookWeight(book: Book): number {
  const { entries, removed, hidden, base, attempted } = book;
  const text = JSON.stringify([[...entries], [...removed], hidden, base, attempted]);
  return Math.max(BOOK_MEMORY_BYTES, 2 * textWeight(text));
}

/** The parts of the state that are weighed. */
interface WeighedState {
  readonly weights: Weights;
  readonly book: Book;
  /** A newer version's events and members weigh with the book: they change as seldom. */
  readonly unknownEvents: readonly object[];
  readonly more: object | undefined;
}

/** The memory of the whole state. */
export function memoryBytes(state: WeighedState): number {
  const { weights, book } = state;
  weights.book ??= bookWeight(book) + unknownWeight(state);
  return weights.messages + weights.keys + weights.book;
}

function unknownWeight({ unknownEvents, more }: WeighedState): number {
  return unknownEvents.length > 0 || more ? 2 * textWeight(JSON.stringify([unknownEvents, more])) : 0;
}

/** Without finished messages and content kept for a retry, which new messages replace. */
export function neededMemoryBytes(state: WeighedState): number {
  return memoryBytes(state) - state.weights.kept - state.weights.finished;
}

/** A reply, cut if it does not fit into `leftBytes` of memory: an outcome is always recorded. */
export function keptReply(reply: string, leftBytes: number): string {
  return ownText(2 * reply.length <= leftBytes ? reply : cut(reply, REPLY_CHARS_SURE));
}

/** V8 keeps a text in Latin-1 if it can, else in UTF-16. */
function textWeight(text: string): number {
  return TEXT_BYTES + text.length * (WIDE.test(text) ? 2 : 1);
}

/** A copy. A text that is cut out of a larger one keeps the larger one in memory. */
export function ownText(text: string): string {
  return Buffer.from(text).toString();
}
