/**
 * The messages of the daemon, page by page.
 */
import { LIST_LIMIT_MAX } from '../base/limits.js';
import type { STATUSES } from '../base/views.js';
import type { Call } from './client.js';

/** A message as the API shows it (local-api §1). */
export interface ShownMessage {
  readonly id: string;
  readonly type: number;
  readonly destination: string;
  readonly status: string;
  readonly acceptedAt: string;
  readonly attempts: number;
  readonly lastReply: string | null;
  readonly nextAttemptAt: string | null;
  /** Empty: the null sender. */
  readonly from?: string | null;
  readonly size?: number;
  readonly subject?: string | null;
  readonly priority?: string;
}

/** The statuses of the messages in the queue. */
export const WAITING = ['sending', 'queued', 'deferred'] as const;

/** The messages with one of these statuses, oldest first. */
export async function messagesWith(
  statuses: readonly (typeof STATUSES)[number][],
  call: Call,
): Promise<ShownMessage[]> {
  // By id, because a message may change its status between two calls; ids sort by acceptance.
  const found = new Map<string, ShownMessage>();
  for (const status of statuses) {
    for await (const message of pages(status, call)) found.set(message.id, message);
  }
  return [...found.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
}

async function* pages(status: string, call: Call): AsyncGenerator<ShownMessage, void, void> {
  let after = '';
  do {
    const path = `/api/internal/messages?status=${status}&limit=${LIST_LIMIT_MAX}${after}`;
    const page = (await call('GET', path)).body as { messages: ShownMessage[]; next: string | null };
    yield* page.messages;
    after = page.next === null ? '' : `&after=${encodeURIComponent(page.next)}`;
  } while (after !== '');
}
