/**
 * The lists of the state: a message moves between them as its status changes, and the oldest finished ones leave.
 */
import { assert } from '../../base/errors.js';
import { forgetOldest } from '../../base/recent.js';
import { isFinal } from '../../base/views.js';
import type { Message, Place } from '../message/message.js';
import { countLive, setPlace } from './places.js';
import { type MessageRow, messageOf, PLAIN_LENGTH, placeOf, type RowKind } from './rows.js';
import type { State } from './state.js';
import { memoryBytes, messageWeight, plainWeight } from './weight.js';

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
  if (message.extras?.onlySends) countOnlySent(state, message);
  if (message.status === 'deferred') state.deferred.add(message.id);
  if (!isDone) return;
  const list = place ? 'kept' : 'finished';
  state[list].add(message.id);
  state.weights[list] += messageWeight(message);
}

/** A message enters a list after each change of its weight. */
function countOnlySent({ onlySent, weights }: State, message: Message): void {
  weights.onlySent -= onlySent.get(message.id) ?? 0;
  onlySent.delete(message.id);
  if (isFinal(message.status)) return;
  const weight = messageWeight(message);
  onlySent.set(message.id, weight);
  weights.onlySent += weight;
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
export function clearSubjects(state: State): void {
  const { finished, weights } = state;
  for (const message of messagesOf(state, finished)) {
    const before = messageWeight(message);
    message.subject = '';
    weights.messages += messageWeight(message) - before;
    weights.finished += messageWeight(message) - before;
  }
}
