/**
 * Lists of messages, their counts, and the refusal of a change.
 */
import { FieldpostError } from '../../base/errors.js';
import type { QueueCounts } from '../../base/views.js';
import { isFinal, type Status } from '../../base/views.js';
import type { Message } from '../message/message.js';
import { countWaiting } from './lists.js';
import type { State } from './state.js';
import type { Page } from './store.js';

/**
 * At most `limit` messages, newest first, of one status if given, accepted before the message `after`. Ids sort by
 * acceptance, so a page is right even if the message `after` was forgotten.
 */
export function listMessages(
  { messages }: State,
  query: { status: Status | null; limit: number; after: string | null },
): Page {
  const { status, limit, after } = query;
  const page: Message[] = [];
  for (const message of messages.selectBackwards(
    (known) => (status ?? known.status) === known.status,
    after,
  )) {
    if (page.length === limit) return { messages: page, next: (page.at(-1) as Message).id };
    page.push(message);
  }
  return { messages: page, next: null };
}

/** How many messages there are in each state; those of `sending` are being sent. */
export function countMessages(
  state: State,
  sending: ReadonlySet<string>,
): Pick<QueueCounts, 'queued' | 'sending' | 'deferred' | 'failed'> {
  const { messages, kept, finished } = state;
  let failed = kept.size;
  for (const id of finished) if (messages.known(id)?.status === 'failed') failed++;
  let deferred = state.deferred.size;
  for (const id of sending) if (state.deferred.has(id)) deferred--;
  return {
    queued: countWaiting(state) - deferred - sending.size,
    sending: sending.size,
    deferred,
    failed,
  };
}

/** The oldest message that is not final. */
export function oldestOpen({ messages }: State): Message | undefined {
  for (const message of messages.select(({ status }) => !isFinal(status))) return message;
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
