/**
 * The state of the store, and the only function that changes it. Live use and replay call the same `apply`.
 * lowdb's document is a plain form of it (document.ts).
 */
import { applyBook, type Book, emptyBook } from '../destinations/book.js';
import { assert } from '../errors.js';
import { KEYS_HELD_MAX } from '../limits.js';
import type { Address } from '../message/address.js';
import {
  type Boot,
  isFinal,
  type Message,
  NO_ATTACHMENTS,
  type Place,
  type Stamp,
} from '../message/message.js';
import type { AcceptedMessage, ContentSum, Position, StoreEvent } from './event.js';
import { counterOf } from './ids.js';

/** An Idempotency-Key that led to an acceptance. */
export interface KeyEntry {
  readonly hash: string;
  readonly ids: readonly string[];
  readonly at: Stamp;
}

/** All that is known, in memory. */
export interface State {
  /** Empty until one was found or drawn. */
  storeId: string;
  /** The counter of the youngest id. */
  counter: number;
  held: boolean;
  /** The count of reachable time (reachability.ts), as far as it was written. */
  reachMs: number;
  /** The boots of all stamps. */
  readonly boots: Map<string, Boot>;
  /** All that is known, in the order of acceptance. */
  readonly messages: Map<string, Message>;
  /** Never deferred, oldest first. */
  readonly queued: Set<string>;
  /** In the order of their deferral. */
  readonly deferred: Set<string>;
  /** Failed, with the content kept for a retry; oldest failure first. */
  readonly kept: Set<string>;
  /** Final and without content, in the order in which they became so. */
  readonly finished: Set<string>;
  readonly keys: Map<string, KeyEntry>;
  book: Book;
  /** That of the email last seen. Not a part of the history. */
  sender: Address | null;
  /** Bytes of content still needed, by the segment they lie in. */
  readonly liveBytes: Map<number, number>;
  /** Attachments that no message needs any more; whoever removes their files takes them from here. */
  readonly released: string[];
  /** How many finished messages stay readable. A setting, not part of the history. */
  readonly historyMax: number;
}

/** The state of a new store. */
export function emptyState(historyMax: number): State {
  return {
    storeId: '',
    counter: 0,
    held: false,
    reachMs: 0,
    boots: new Map(),
    messages: new Map(),
    queued: new Set(),
    deferred: new Set(),
    kept: new Set(),
    finished: new Set(),
    keys: new Map(),
    book: emptyBook(),
    sender: null,
    liveBytes: new Map(),
    released: [],
    historyMax,
  };
}

/** The attachments of messages whose content is kept, by their ids, with their sizes. */
export function neededFiles({ messages }: State): Map<string, number> {
  const needed = new Map<string, number>();
  for (const { place, attachments } of messages.values()) {
    if (place === null || attachments.length === 0) continue;
    for (const { id, size } of attachments) needed.set(id, size);
  }
  return needed;
}

/** Applies the events of one record. `contentsAt` is where the record's first content begins. */
export function apply(state: State, events: readonly StoreEvent[], contentsAt: Position): void {
  let at = contentsAt.offset;
  const nextPlace = ({ length, crc }: ContentSum): Place => {
    const place = { segment: contentsAt.segment, offset: at, length, crc };
    at += length + 1;
    return place;
  };
  for (const event of events) applyOne(state, event, nextPlace);
}

function applyOne(state: State, event: StoreEvent, nextPlace: (sum: ContentSum) => Place): void {
  switch (event.e) {
    case 'boot':
      state.boots.set(event.boot, { startMs: event.startMs, confirmed: event.confirmed ?? false });
      return;
    case 'accepted':
      for (const accepted of event.messages) accept(state, accepted, event, nextPlace(accepted));
      if (event.key !== undefined) {
        rememberKey(state, event.key, {
          hash: event.hash ?? '',
          ids: event.messages.map(({ id }) => id),
          at: event.at,
        });
      }
      return;
    case 'relocated':
      for (const moved of event.messages) {
        const place = nextPlace(moved);
        const message = state.messages.get(moved.id);
        if (message?.place) setPlace(state, message, place);
      }
      return;
    case 'deferred':
      countReach(state, event.reachMs);
      change(state, event.id, (message) => {
        message.attempts = event.attempts;
        message.lastReply = event.reply;
        message.due = event.due;
        message.status = 'deferred';
        settle(state, message, message.place);
      });
      return;
    case 'sent':
    case 'expired':
    case 'failed':
      countReach(state, event.reachMs);
      change(state, event.id, (message) => {
        message.attempts = event.attempts;
        message.lastReply = event.reply;
        if (event.e === 'failed') message.failed = event.at;
        finish(state, message, event.e);
      });
      return;
    case 'cancelled':
      change(state, event.id, (message) => finish(state, message, 'cancelled'));
      return;
    case 'retried':
      retry(state, event);
      return;
    case 'flushed':
      for (const id of state.deferred) {
        const message = state.messages.get(id);
        if (message) message.due = null;
      }
      return;
    case 'held':
      state.held = event.held;
      return;
    case 'dropped':
      for (const id of event.ids) {
        const message = state.messages.get(id);
        if (message && state.kept.has(id)) settle(state, message, null);
      }
      return;
    default:
      applyBook(state.book, event);
  }
}

function countReach(state: State, reachMs = 0): void {
  state.reachMs = Math.max(state.reachMs, reachMs);
}

function accept(
  state: State,
  accepted: AcceptedMessage,
  { at, reachMs }: { at: Stamp; reachMs: number },
  place: Place,
): void {
  const known = state.messages.get(accepted.id);
  if (known) {
    // The same record once more, written anew after doubt: only its place is news.
    if (known.place) setPlace(state, known, place);
    return;
  }
  const { id, type, destination, from, attachments = NO_ATTACHMENTS } = accepted;
  state.counter = Math.max(state.counter, counterOf(id));
  const message: Message = {
    id,
    type,
    destination,
    from: sharedSender(state, from),
    attachments,
    accepted: at,
    reachMs,
    status: 'queued',
    attempts: 0,
    lastReply: null,
    due: null,
    place: null,
  };
  insert(state, message, place);
}

/** Nearly all emails have the same sender: they share one string. */
export function sharedSender(state: State, from: Address | undefined): Address | undefined {
  if (from !== undefined && from !== state.sender) state.sender = from;
  return from && (state.sender ?? from);
}

/** Puts a message into the state where its status belongs. Also for a document that is read back. */
export function insert(state: State, message: Message, place: Place | null): void {
  state.messages.set(message.id, message);
  enter(state, message, place);
}

/** Runs `how` on a message that is known and not final; anything else has been said before and is no news. */
function change(state: State, id: string, how: (message: Message) => void): void {
  const message = state.messages.get(id);
  if (message && !isFinal(message.status)) how(message);
}

/** Q5, or Q6 for `failed`, whose content is kept for a retry. */
function finish(state: State, message: Message, status: 'sent' | 'failed' | 'expired' | 'cancelled'): void {
  message.status = status;
  message.due = null;
  settle(state, message, status === 'failed' ? message.place : null);
}

/** Moves the message, with its content at `place`, to the one set where its status belongs now. */
function settle(state: State, message: Message, place: Place | null): void {
  for (const set of [state.queued, state.deferred, state.kept, state.finished]) set.delete(message.id);
  enter(state, message, place);
}

/** Enters a message that is in none of the sets. */
function enter(state: State, message: Message, place: Place | null): void {
  setPlace(state, message, place);
  if (message.status === 'deferred') state.deferred.add(message.id);
  else if (!isFinal(message.status)) state.queued.add(message.id);
  else if (place) state.kept.add(message.id);
  else state.finished.add(message.id);
  if (state.finished.size <= state.historyMax) return;
  for (const oldest of state.finished) {
    forget(state, oldest);
    if (state.finished.size <= state.historyMax) return;
  }
}

function forget(state: State, id: string): void {
  const message = state.messages.get(id);
  assert(message !== undefined && isFinal(message.status), 'only a finished message is forgotten');
  state.messages.delete(id);
  state.finished.delete(id);
}

function retry(state: State, { id, at, reachMs }: { id: string; at: Stamp; reachMs: number }): void {
  const message = state.messages.get(id);
  if (!message) return;
  if (message.status === 'failed' && message.place) {
    message.retried = at;
    message.reachMs = reachMs;
    message.status = 'queued';
    settle(state, message, message.place);
  } else if (!isFinal(message.status)) {
    message.due = null;
  }
}

function rememberKey(state: State, key: string, entry: KeyEntry): void {
  state.keys.delete(key);
  state.keys.set(key, entry);
  for (const oldest of state.keys.keys()) {
    if (state.keys.size <= KEYS_HELD_MAX) break;
    state.keys.delete(oldest);
  }
}

/** Moves, or with null gives up, a message's content, and keeps the count of live bytes per segment true. */
function setPlace(state: State, message: Message, place: Place | null): void {
  if (message.place) countLive(state, message.place, -1);
  if (place) countLive(state, place, 1);
  if (message.place && !place) for (const { id } of message.attachments) state.released.push(id);
  message.place = place;
}

function countLive({ liveBytes }: State, { segment, length }: Place, sign: 1 | -1): void {
  const bytes = (liveBytes.get(segment) ?? 0) + sign * length;
  if (bytes === 0) liveBytes.delete(segment);
  else liveBytes.set(segment, bytes);
}
