/**
 * Lists of messages, their counts, and the refusal of a change. Used by journaled-store.ts.
 */
import { FieldpostError } from '../errors.js';
import { isFinal, type Message, type Status } from '../message/message.js';
import { isStored, type Known } from './message-map.js';
import type { State } from './state.js';
import type { Page, QueueCounts } from './store.js';

/**
 * At most `limit` messages, newest first, of one status if given, accepted before the message `after`. Ids sort by
 * acceptance, so a page is right even if the message `after` was forgotten.
 */
export function listMessages(
  { messages }: State,
  query: { status: Status | null; limit: number; after: string | null },
): Page {
  const { status, limit, after } = query;
  const isOfStatus = (known: Known) => status === null || known.status === status;
  const found = messages.selectBackwards(
    (head) => isOfStatus(head) && (after === null || head.first < after),
  );
  const page: Message[] = [];
  for (const message of found) {
    if (!isOfStatus(message) || (after !== null && message.id >= after)) continue;
    if (page.length === limit) return { messages: page, next: (page.at(-1) as Message).id };
    page.push(message);
  }
  return { messages: page, next: null };
}

/** How many messages there are in each state; `sending` of them are being sent. */
export function countMessages(
  { queued, deferred, kept, finished }: State,
  sending: number,
): Pick<QueueCounts, 'queued' | 'sending' | 'deferred' | 'failed'> {
  let failed = kept.size;
  for (const part of finished.parts())
    if (isStored(part)) failed += part.head.status === 'failed' ? part.head.count : 0;
    else if (part.status === 'failed') failed++;
  let sendingDeferred = 0;
  for (const part of deferred.parts()) if (!isStored(part) && part.status === 'sending') sendingDeferred++;
  return {
    queued: queued.size - (sending - sendingDeferred),
    sending,
    deferred: deferred.size - sendingDeferred,
    failed,
  };
}

/** The oldest message that is not final. */
export function oldestOpen({ messages }: State): Message | undefined {
  const open = messages.select(({ status }) => !isFinal(status));
  for (const message of open) if (!isFinal(message.status)) return message;
  return undefined;
}

/** Why a message cannot change now. */
export function beingSent(): FieldpostError {
  const words = 'the message is being sent right now';
  return new FieldpostError('conflict', words, { hint: 'look up its status later' });
}

/** Why a final message cannot change. */
export function alreadyFinal(message: Message): FieldpostError {
  if (message.status !== 'failed')
    return new FieldpostError('conflict', `the message is ${message.status} already`);
  if (message.place === null) {
    return new FieldpostError('conflict', 'the message has failed, and its content is no longer kept', {
      hint: 'send it again if it still matters',
    });
  }
  return new FieldpostError(
    'conflict',
    'only a newer version of Fieldpost, which accepted the message, can send it',
    {
      hint: 'try again after the next update',
    },
  );
}
