/**
 * Where the contents of messages lie: in which segments, and in which files.
 */
import type { Message, Place } from '../message/message.js';
import type { State } from './state.js';

/** Null: the content is dropped. Counts the live bytes of each segment. */
export function setPlace(state: State, message: Message, place: Place | null): void {
  if (message.place) countLive(state, message.place, -1);
  if (place) countLive(state, place, 1);
  if (!message.place !== !place)
    for (const { id } of message.attachments) countUser(state, id, place ? 1 : -1);
  if (message.place && !place) message.textBytes = message.place.length;
  message.place = place;
}

/** One more message needs the file, or one less. The last one releases it. */
function countUser({ fileUsers, released }: State, id: string, sign: 1 | -1): void {
  const users = (fileUsers.get(id) ?? 0) + sign;
  if (users > 0) fileUsers.set(id, users);
  else {
    fileUsers.delete(id);
    released.push(id);
  }
}

/** Adds content to the live bytes of a segment, or takes it away. */
export function countLive(
  { liveBytes }: State,
  { segment, length }: Pick<Place, 'segment' | 'length'>,
  sign: 1 | -1,
): void {
  const bytes = (liveBytes.get(segment) ?? 0) + sign * length;
  if (bytes === 0) liveBytes.delete(segment);
  else liveBytes.set(segment, bytes);
}

/**
 * Adds up the bytes that dropping the contents of some messages frees: files at once, texts with their segments. A file
 * counts with the last message that needs it.
 */
export class Freed {
  fileBytes = 0;
  textBytes = 0;
  readonly #fileUsers: State['fileUsers'];
  /** How many of the messages need a file. */
  readonly #counted = new Map<string, number>();

  constructor({ fileUsers }: Pick<State, 'fileUsers'>) {
    this.#fileUsers = fileUsers;
  }

  add({ place, attachments }: Message): void {
    this.textBytes += place?.length ?? 0;
    for (const { id, size } of attachments) {
      const counted = (this.#counted.get(id) ?? 0) + 1;
      this.#counted.set(id, counted);
      if (counted === this.#fileUsers.get(id)) this.fileBytes += size;
    }
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
  // A batch with needed files is never left unread (batches.ts).
  for (const { place, attachments } of messages.select(() => false)) {
    if (place === null) continue;
    for (const { id, size } of attachments) needed.set(id, size);
  }
  return needed;
}
