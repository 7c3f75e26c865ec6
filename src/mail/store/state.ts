/**
 * The state of the store, and `apply`, which alone changes it, in live use and in a replay.
 */

import { forgetOldest } from '../../base/collections.js';
import { assert } from '../../base/errors.js';
import type { JsonObject } from '../../base/json.js';
import { BLOCK_BYTES } from '../../base/limits.js';
import type { Boot, Stamp } from '../../base/stamp.js';
import { isFinal } from '../../base/views.js';
import { applyBook, type Book, emptyBook, isBookEvent } from '../book/book.js';
import { type Message, type Place, type Sender, slotOf } from '../message/message.js';
import { type Accounts, accountsOf, enterInto, NOTHING } from './accounts.js';
import type { AcceptedMessage, ContentSum, MovedMessage, Position, StoreEvent } from './event.js';
import { unknownMembers } from './format.js';
import { counterOf } from './ids.js';
import { insertKey, type RememberedKeys } from './keys.js';
import {
  type MessageRow,
  MessageTable,
  messageOf,
  PLAIN_LENGTH,
  placeOf,
  type RowKind,
} from './message-table.js';
import { ACCEPTED_MEMBERS } from './shapes.js';
import { countSent, type Tallies } from './tally.js';
import { type Bounds, memoryBytes, messageWeight, plainWeight } from './weight.js';

/** Roughly what a message takes in journal and snapshots besides its content. */
const MESSAGE_RECORD_BYTES = 512;

/** All that is known, in memory. */
export interface State extends RememberedKeys {
  /** The position in the journal up to which a snapshot includes it. */
  through: Position;
  /** Empty until it is found or drawn. */
  storeId: string;
  /** The counter of the youngest id. */
  counter: number;
  held: boolean;
  /** The count of reachable time (reachability.ts) in the journal. */
  reachMs: number;
  /** The boots of all stamps. */
  readonly boots: Map<string, Boot>;
  /** In the order of acceptance. */
  readonly messages: MessageTable;
  /** The ids of waiting messages that were deferred, in the order of deferral. All other waiting ones never were. */
  readonly deferred: Set<string>;
  /** The ids of failed messages whose content is kept for a retry; oldest failure first. */
  readonly kept: Set<string>;
  /** The ids of final messages without content, in the order in which they lost it. */
  readonly finished: Set<string>;
  /** When a relay took the last email; after a start, of those that are known the one accepted last. */
  lastSent: Stamp | null;
  /** The ids of waiting messages that are urgent. */
  readonly urgent: Set<string>;
  /** The ids of waiting messages that go by the cloud: SMS, calls and pushes. */
  readonly forCloud: Set<string>;
  /** The ids of waiting messages with a collapse key, by slotOf() it. */
  readonly slots: Map<string, Set<string>>;
  /** What waits of callers whose share is bounded. Of content, also what is kept for a retry. */
  readonly accounts: Accounts;
  /** The ids of messages that failed or expired, and that no mail of the daemon has told of; in the order of their end. */
  readonly untold: Set<string>;
  book: Book;
  /** Sender of the last email, kept to share the string. Not in the journal. */
  sender: Sender | null;
  /** What relays with a rate have taken, by their names. */
  readonly sentBy: Tallies;
  /** Bytes of needed content in each segment. */
  readonly liveBytes: Map<number, number>;
  /** Events and members of a newer minor version are only kept. */
  readonly unknownEvents: object[];
  more: JsonObject | undefined;
  /** How many messages with content need each attachment: the recipients of one mail share its files. */
  readonly fileUsers: Map<string, number>;
  /** How many recipients of one mail need its content, by its place. */
  readonly contentUsers: Map<string, number>;
  /** Attachments that no message needs any more. The ledger takes them from here, and removes their files. */
  readonly released: string[];
}

/** The state of a new store. */
export function emptyState(bounds: Bounds): State {
  return {
    through: { segment: 0, offset: 0 },
    storeId: '',
    counter: 0,
    held: false,
    reachMs: 0,
    boots: new Map(),
    messages: new MessageTable(),
    deferred: new Set(),
    kept: new Set(),
    finished: new Set(),
    lastSent: null,
    urgent: new Set(),
    forCloud: new Set(),
    slots: new Map(),
    accounts: new Map(),
    untold: new Set(),
    keys: new Map(),
    sendKeys: new Map(),
    book: emptyBook(),
    sender: null,
    sentBy: new Map(),
    liveBytes: new Map(),
    unknownEvents: [],
    more: undefined,
    fileUsers: new Map(),
    contentUsers: new Map(),
    released: [],
    weights: { messages: 0, kept: 0, finished: 0, keys: 0, sendKeys: 0, book: null },
    bounds,
  };
}

/**
 * Applies the events of one record. `contentsAt` is where the record's first content begins. `onUnknown` gets the moved
 * messages that the state does not know.
 */
export function apply(
  state: State,
  events: readonly StoreEvent[],
  contentsAt: Position,
  onUnknown?: OnUnknown,
): void {
  let at = contentsAt.offset;
  let place: Place | null = null;
  const nextPlace = ({ length, crc, shares }: ContentSum): Place => {
    if (shares && place !== null) return place;
    place = { segment: contentsAt.segment, offset: at, length, crc };
    at += length + 1;
    return place;
  };
  for (const event of events) applyOne(state, event, nextPlace, onUnknown);
}

type OnUnknown = (moved: MovedMessage, place: Place) => void;

type NextPlace = (sum: ContentSum) => Place;
type EventOf<Kind extends StoreEvent['e']> = Extract<StoreEvent, { e: Kind }>;
type EndStatus = 'sent' | 'failed' | 'expired' | 'cancelled' | 'replaced';
type OutcomeEvent = EventOf<'deferred' | 'sent' | 'failed' | 'expired'>;

function applyOne(state: State, event: StoreEvent, nextPlace: NextPlace, onUnknown?: OnUnknown): void {
  switch (event.e) {
    case 'boot':
      state.boots.set(event.boot, { startMs: event.startMs, confirmed: event.confirmed ?? false });
      return;
    case 'accepted':
      applyAccepted(state, event, nextPlace);
      return;
    case 'relocated':
      for (const moved of event.messages) {
        const place = nextPlace(moved);
        const message = state.messages.get(moved.id);
        if (message?.place) setPlace(state, message, place);
        if (!message) onUnknown?.(moved, place);
      }
      return;
    case 'deferred':
    case 'sent':
    case 'expired':
    case 'failed':
      applyOutcome(state, event);
      return;
    case 'cancelled':
      change(state, event.id, (message) => finish(state, message, 'cancelled'));
      return;
    case 'replaced':
      replace(state, event);
      return;
    case 'retried':
      retry(state, event);
      return;
    case 'flushed':
      for (const message of messagesOf(state, state.deferred)) message.due = null;
      return;
    case 'held':
      state.held = event.held;
      return;
    case 'purged':
      clearSubjects(state);
      return;
    case 'dropped':
      for (const id of event.ids) {
        const message = state.kept.has(id) && state.messages.get(id);
        if (message) moveTo(state, message, null);
      }
      return;
    default:
      if (isBookEvent(event)) applyBook(state.book, event);
      else state.unknownEvents.push(event);
      state.weights.book = null;
  }
}

function applyAccepted(state: State, event: EventOf<'accepted'>, nextPlace: NextPlace): void {
  const { messages, at, key, hash = '', full } = event;
  for (const accepted of messages) accept(state, accepted, event, nextPlace(accepted));
  if (key !== undefined)
    insertKey(state, key, { hash, ids: messages.map(({ id }) => id), at, ...(full && { full }) });
}

/** Adds a message that is accepted at this place. */
export function accept(
  state: State,
  accepted: AcceptedMessage,
  { at, reachMs }: { at: Stamp; reachMs: number },
  place: Place,
): void {
  const known = state.messages.get(accepted.id);
  if (known) {
    // The record was written again after doubt: only its place is new.
    if (known.place) setPlace(state, known, place);
    return;
  }
  const { id, type, destination, subject = '', extras, attachments } = accepted;
  const from = sharedSender(state, accepted.from);
  state.counter = Math.max(state.counter, counterOf(id));
  const kind = state.messages.kinds.numberOf({ type, status: 'queued', boot: at.boot, from });
  const { segment, offset, length, crc } = place;
  const row: MessageRow = [id, kind, destination, subject, at.bootMs, reachMs, segment, offset, length, crc];
  const more = unknownMembers(accepted, ACCEPTED_MEMBERS);
  const files = attachments && attachments.length > 0 ? { attachments } : undefined;
  if (extras || files || more) row.push({ ...more, ...files, ...(extras && { extras }) });
  insertRow(state, row);
  if (extras?.notice) told(state, extras.notice);
  forgetSurplus(state);
}

/** A mail tells of the failures up to this one. */
function told({ untold }: State, lastId: string): void {
  if (!untold.has(lastId)) return;
  for (const id of untold) {
    untold.delete(id);
    if (id === lastId) return;
  }
}

/** A message has failed or expired. That of the daemon itself is not told. */
function countUntold({ untold, bounds }: State, { id, extras }: Message): void {
  untold.delete(id);
  if (untold.size < bounds.untoldMax && extras?.notice === undefined) untold.add(id);
}

function applyOutcome(state: State, event: OutcomeEvent): void {
  state.reachMs = Math.max(state.reachMs, event.reachMs ?? 0);
  change(state, event.id, (message) => {
    charge(state, message, event);
    if (event.e === 'failed') message.failed = event.at;
    if (event.e === 'sent') {
      message.sent = event.at;
      if (event.relay !== undefined) countSent(state.sentBy, event.relay, event.at);
    }
    if (event.e === 'failed' || event.e === 'expired') countUntold(state, message);
    if (event.e !== 'deferred') return finish(state, message, event.e);
    message.due = event.due;
    message.status = 'deferred';
    moveTo(state, message, message.place);
  });
}

/** Nearly all emails have the same sender, and share one string. */
export function sharedSender(state: State, from: Sender | undefined): Sender | undefined {
  if (from !== undefined && from !== state.sender) state.sender = from;
  return from === undefined ? undefined : (state.sender ?? from);
}

/** The status of a message that is not being sent. */
export function restingStatus(state: State, id: string): 'queued' | 'deferred' {
  return state.deferred.has(id) ? 'deferred' : 'queued';
}

/** An event of an unknown or final message is no news. */
function change(state: State, id: string, how: (message: Message) => void): void {
  const message = state.messages.get(id);
  if (!message || isFinal(message.status)) return;
  tally(state, message, -1);
  how(message);
  tally(state, message, 1);
}

/** A waiting message comes onto its accounts (1), or leaves them (-1) before its weight or status changes. */
function tally({ accounts }: State, message: Message, sign: 1 | -1): void {
  const names = accountsOf(message.extras);
  if (names.length === 0 || isFinal(message.status)) return;
  const memoryBytes = sign * messageWeight(message);
  enterInto(accounts, names, { count: sign, bytes: sign * MESSAGE_RECORD_BYTES, memoryBytes });
}

function charge(
  state: State,
  message: Message,
  { attempts, reply }: { attempts: number; reply: string },
): void {
  state.weights.messages -= messageWeight(message);
  message.attempts = attempts;
  message.lastReply = reply;
  state.weights.messages += messageWeight(message);
}

/** Q5, or Q6 for `failed`, whose content is kept for a retry. */
function finish(state: State, message: Message, status: EndStatus): void {
  message.status = status;
  message.due = null;
  moveTo(state, message, status === 'failed' ? message.place : null);
}

function replace(state: State, { id, by, count }: EventOf<'replaced'>): void {
  change(state, id, (message) => {
    message.replacedBy = by;
    finish(state, message, 'replaced');
  });
  if (count === undefined) return;
  change(state, by, (message) => {
    message.extras = { ...message.extras, replaced: count };
  });
}

function retry(state: State, { id, at, reachMs }: { id: string; at: Stamp; reachMs: number }): void {
  const message = state.messages.get(id);
  if (!message) return;
  if (message.status === 'failed' && message.place) {
    message.retried = at;
    message.reachMs = reachMs;
    message.status = 'queued';
    moveTo(state, message, message.place);
    tally(state, message, 1);
  } else if (!isFinal(message.status)) {
    message.due = null;
  }
}

/** The lists that keep an order of their own. */
export const ORDERED = ['deferred', 'kept', 'finished'] as const;

/** The messages of these ids. */
export function* messagesOf({ messages }: State, ids: Iterable<string>): Generator<Message, void, void> {
  for (const id of ids) yield messages.get(id) as Message;
}

/** How many messages wait, those that are being sent included. */
export function countWaiting({ messages, kept, finished }: State): number {
  return messages.size - kept.size - finished.size;
}

/** Adds a message to the state, and to the list of its status. */
export function insert(state: State, message: Message, place: Place | null): void {
  state.messages.add(message);
  state.weights.messages += messageWeight(message);
  enter(state, message, place);
  tally(state, message, 1);
  forgetSurplus(state);
}

/** Adds a row. Forgets nothing, because at a start the order of the lists is not known yet. */
export function insertRow(state: State, row: MessageRow): void {
  const { list: kinds } = state.messages.kinds;
  state.messages.addRow(row);
  const { status, type } = kinds[row[1]] as RowKind;
  if (row.length === PLAIN_LENGTH && status === 'queued') {
    // Nearly all: accepting and a start with ten thousand make no Message.
    state.weights.messages += plainWeight(row[2], row[3]);
    if (row[6] > 0) countLive(state, row[6], row[8]);
    if (type !== 1) state.forCloud.add(row[0]);
    return;
  }
  // For what must be counted. The table makes its own when somebody asks.
  const message = messageOf(row, kinds);
  state.weights.messages += messageWeight(message);
  message.place = null;
  enter(state, message, placeOf(row));
  tally(state, message, 1);
}

/** Brings a list into this order. Ids that are not in it are ignored; what the order lacks comes last. */
export function arrange(list: Set<string>, order: readonly string[]): void {
  const rest = new Set(list);
  list.clear();
  for (const id of order) if (rest.delete(id)) list.add(id);
  for (const id of rest) list.add(id);
}

/** Moves a message, with its content at `place`, into the list of its present status. */
export function moveTo(state: State, message: Message, place: Place | null): void {
  state.deferred.delete(message.id);
  if (state.kept.delete(message.id)) state.weights.kept -= messageWeight(message);
  enter(state, message, place);
  forgetSurplus(state);
}

/** Adds a message that is in none of the lists of a status. */
function enter(state: State, message: Message, place: Place | null): void {
  setPlace(state, message, place);
  const isDone = isFinal(message.status);
  if (message.extras?.urgent) state.urgent[isDone ? 'delete' : 'add'](message.id);
  if (message.type !== 1) state.forCloud[isDone ? 'delete' : 'add'](message.id);
  const slot = slotOf(message, message.extras?.collapse);
  if (slot !== undefined) fill(state, slot, message.id, !isDone);
  if (message.status === 'deferred') state.deferred.add(message.id);
  if (!isDone) return;
  if (message.sent && message.type === 1) state.lastSent = message.sent;
  const list = place ? 'kept' : 'finished';
  state[list].add(message.id);
  state.weights[list] += messageWeight(message);
}

function fill({ slots }: State, slot: string, id: string, isWaiting: boolean): void {
  const ids = slots.get(slot) ?? new Set();
  ids[isWaiting ? 'add' : 'delete'](id);
  if (ids.size > 0) slots.set(slot, ids);
  else slots.delete(slot);
}

/** Forgets finished messages, the oldest first, until the state is within its bounds. */
export function forgetSurplus(state: State): void {
  const { finished, bounds, weights } = state;
  const isTooMuch = () =>
    finished.size > bounds.historyMax ||
    weights.finished > bounds.finishedBytesMax ||
    memoryBytes(state) > bounds.memoryBytesMax;
  forgetOldest(finished, isTooMuch, (id) => forget(state, id));
}

function forget(state: State, id: string): void {
  const message = state.messages.get(id) as Message;
  assert(isFinal(message.status), 'only a finished message is forgotten');
  state.messages.delete(id);
  state.finished.delete(id);
  const weight = messageWeight(message);
  state.weights.messages -= weight;
  state.weights.finished -= weight;
}

/** Subjects are content, too: those of finished messages go. */
function clearSubjects(state: State): void {
  const { finished, weights } = state;
  for (const message of messagesOf(state, finished)) {
    const before = messageWeight(message);
    message.subject = '';
    weights.messages += messageWeight(message) - before;
    weights.finished += messageWeight(message) - before;
  }
}

/** Null: the content is dropped. Counts the live bytes of each segment. */
function setPlace(state: State, message: Message, place: Place | null): void {
  if (message.place) countContent(state, message, message.place, -1);
  if (place) countContent(state, message, place, 1);
  if (!message.place !== !place)
    for (const { id, size } of message.attachments) {
      const users = countUser(state.fileUsers, id, place ? 1 : -1);
      if (users === 0) state.released.push(id);
      if (users === (place ? 1 : 0)) tallyBytes(state, message, (place ? 1 : -1) * fileBytes(size));
    }
  if (message.place && !place) message.textBytes = message.place.length;
  message.place = place;
}

/** The recipients of one mail share its content: it counts with the first of them, until the last one drops it. */
function countContent(state: State, message: Message, place: Place, sign: 1 | -1): void {
  if (isShared(message)) {
    const users = countUser(state.contentUsers, contentKey(place), sign);
    if (users !== (sign === 1 ? 1 : 0)) return;
  }
  countLive(state, place.segment, sign * place.length);
  tallyBytes(state, message, sign * place.length);
}

function tallyBytes({ accounts }: State, { extras }: Message, bytes: number): void {
  if (extras) enterInto(accounts, accountsOf(extras), { ...NOTHING, bytes });
}

/** What a file takes on the disk: its blocks, and one for its inode and name. */
export function fileBytes(size: number): number {
  return blocksOf(size) + BLOCK_BYTES;
}

/** The octets of the blocks that so many octets take. */
export function blocksOf(bytes: number): number {
  return Math.ceil(bytes / BLOCK_BYTES) * BLOCK_BYTES;
}

function isShared({ extras }: Message): boolean {
  return extras?.mail !== undefined;
}

function contentKey({ segment, offset }: Place): string {
  return `${segment}:${offset}`;
}

/** One more message needs it, or one less. Gives how many need it now. */
function countUser(users: Map<string, number>, key: string, sign: 1 | -1): number {
  const count = (users.get(key) ?? 0) + sign;
  if (count > 0) users.set(key, count);
  else users.delete(key);
  return count;
}

/** Adds to the live bytes of a segment; a negative number takes away. */
function countLive({ liveBytes }: State, segment: number, addedBytes: number): void {
  const bytes = (liveBytes.get(segment) ?? 0) + addedBytes;
  if (bytes === 0) liveBytes.delete(segment);
  else liveBytes.set(segment, bytes);
}

/**
 * Adds up the bytes that dropping the contents of some messages frees: files at once, texts with their segments. A shared
 * file or text counts with the last message that needs it.
 */
export class Freed {
  fileBytes = 0;
  textBytes = 0;
  readonly #state: Pick<State, 'fileUsers' | 'contentUsers'>;
  /** How many of the messages need a file, or a shared content. */
  readonly #counted = new Map<string, number>();

  constructor(state: Pick<State, 'fileUsers' | 'contentUsers'>) {
    this.#state = state;
  }

  add(message: Message): void {
    const { fileUsers, contentUsers } = this.#state;
    const { place, attachments } = message;
    if (place && (!isShared(message) || this.#isLast(contentUsers, contentKey(place))))
      this.textBytes += place.length;
    for (const { id, size } of attachments) if (this.#isLast(fileUsers, id)) this.fileBytes += size;
  }

  #isLast(users: ReadonlyMap<string, number>, key: string): boolean {
    return countUser(this.#counted, key, 1) === users.get(key);
  }
}

/** Bytes of needed content in the journal. */
export function liveBytesOf({ liveBytes }: State): number {
  let sum = 0;
  for (const bytes of liveBytes.values()) sum += bytes;
  return sum;
}

/** The sizes of needed attachments, by their ids. */
export function neededFiles({ messages }: State): Map<string, number> {
  const needed = new Map<string, number>();
  for (const { place, attachments } of messages.select((known) => known.attachments !== undefined)) {
    if (place === null) continue;
    for (const { id, size } of attachments) needed.set(id, size);
  }
  return needed;
}
