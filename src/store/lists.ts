/**
 * The lists of the state: a message moves between them as its status changes, and the oldest finished ones leave.
 * Used by batches.ts and state.ts.
 */
import { assert } from '../errors.js';
import { isFinal, type Message, type Place } from '../message/message.js';
import { forgetOldest } from '../recent.js';
import { setPlace } from './places.js';
import type { State } from './state.js';
import { memoryBytes, messageWeight } from './weight.js';

/** Adds a message to the state, and to the map of its status. */
export function insert(
  state: State,
  message: Message,
  place: Place | null,
  weight = messageWeight(message),
): void {
  state.messages.add(message);
  state.weights.messages += weight;
  enter(state, message, place);
}

/** Moves a message, with its content at `place`, into the map of its present status. */
export function moveTo(state: State, message: Message, place: Place | null): void {
  for (const map of [state.queued, state.deferred]) map.delete(message.id);
  if (state.kept.delete(message.id)) state.weights.kept -= messageWeight(message);
  enter(state, message, place);
}

/** Adds a message that is in none of the maps of a status. */
function enter(state: State, message: Message, place: Place | null): void {
  setPlace(state, message, place);
  if (message.extras?.urgent) {
    if (isFinal(message.status)) state.urgent.delete(message.id);
    else state.urgent.set(message.id, message);
  }
  if (message.status === 'deferred') state.deferred.add(message);
  else if (!isFinal(message.status)) state.queued.add(message);
  else {
    const map = place ? 'kept' : 'finished';
    state[map].add(message);
    state.weights[map] += messageWeight(message);
  }
  forgetSurplus(state);
}

/** Forgets finished messages, the oldest first, until the state is within its bounds. */
export function forgetSurplus(state: State): void {
  const { finished, bounds } = state;
  const isTooMuch = () => finished.size > bounds.historyMax || memoryBytes(state) > bounds.memoryBytesMax;
  // Else the walk would read the oldest batch.
  if (isTooMuch()) forgetOldest(finished, isTooMuch, (oldest) => forget(state, oldest));
}

function forget(state: State, message: Message): void {
  assert(isFinal(message.status), 'only a finished message is forgotten');
  for (const map of [state.messages, state.finished]) map.delete(message.id);
  const weight = messageWeight(message);
  state.weights.messages -= weight;
  state.weights.finished -= weight;
}

/** Subjects are content, too: those of finished messages go. */
export function clearSubjects({ finished, weights }: State): void {
  for (const message of finished) {
    const before = messageWeight(message);
    message.subject = '';
    weights.messages += messageWeight(message) - before;
    weights.finished += messageWeight(message) - before;
  }
}
