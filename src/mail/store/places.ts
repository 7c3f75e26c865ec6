/**
 * Where the contents of messages lie: in which segments, and in which files.
 */
import { BLOCK_BYTES } from '../../base/limits.js';
import type { Message, Place } from '../message/message.js';
import type { State } from './state.js';

/** Null: the content is dropped. Counts the live bytes of each segment. */
export function setPlace(state: State, message: Message, place: Place | null): void {
  if (message.place) countContent(state, message, message.place, -1);
  if (place) countContent(state, message, place, 1);
  if (!message.place !== !place)
    for (const { id, size } of message.attachments) {
      const users = countUser(state.fileUsers, id, place ? 1 : -1);
      if (users === 0) state.released.push(id);
      if (users === (place ? 1 : 0)) countOnlySent(state, message, (place ? 1 : -1) * fileBytes(size));
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
  countOnlySent(state, message, sign * place.length);
}

function countOnlySent({ weights }: State, { extras }: Message, bytes: number): void {
  if (extras?.onlySends) weights.onlySentBytes += bytes;
}

/** A file's blocks, and one for its inode and name. */
function fileBytes(size: number): number {
  return (Math.ceil(size / BLOCK_BYTES) + 1) * BLOCK_BYTES;
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
export function countLive({ liveBytes }: State, segment: number, addedBytes: number): void {
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
