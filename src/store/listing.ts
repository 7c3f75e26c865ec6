/** Pages of messages for the api, newest first. */
import type { Message, Status } from '../message/message.js';
import type { State } from './state.js';
import type { Page } from './store.js';

/**
 * At most `limit` messages, of one status if given, accepted before the message `after`. Ids sort by
 * acceptance, so a page stays right when the message that `after` names is forgotten meanwhile.
 */
export function listMessages(
  state: State,
  query: { status: Status | null; limit: number; after: string | null },
): Page {
  const { status, limit, after } = query;
  const messages: Message[] = [];
  for (const message of [...state.messages.values()].reverse()) {
    if (after !== null && message.id >= after) continue;
    if (status !== null && message.status !== status) continue;
    if (messages.length === limit) return { messages, next: (messages[limit - 1] as Message).id };
    messages.push(message);
  }
  return { messages, next: null };
}
