/**
 * Where the contents of messages lie: in which segments, and in which files.
 */
import type { Message, Place } from '../message/message.js';
import type { State } from './state.js';

/** Null: the content is dropped. Counts the live bytes of each segment. */
export function setPlace(state: State, message: Message, place: Place | null): void {
  if (message.place) countLive(state, message.place, -1);
  if (place) countLive(state, place, 1);
  if (message.place && !place) for (const { id } of message.attachments) state.released.push(id);
  message.place = place;
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

/** The bytes that dropping a message's content frees: its files at once, its text with the segment. */
export function bytesOfContent({ place, attachments }: Message): { fileBytes: number; textBytes: number } {
  return { fileBytes: attachments.reduce((sum, { size }) => sum + size, 0), textBytes: place?.length ?? 0 };
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
