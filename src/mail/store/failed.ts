/**
 * What may still happen to a failed message; and to all of them at once: batch by batch, so that ten thousand neither block
 * the event loop nor make a record of a megabyte.
 */
import { FieldpostError } from '../../base/errors.js';
import { isUnderstood, type Message } from '../message/message.js';
import type { StoreEvent } from './event.js';
import type { Ledger } from './ledger.js';

/** Messages in one record. */
export const BATCH_MESSAGES = 100;

/** How many messages were queued anew, and the shortest life that one of them gave itself. */
export interface Retried {
  readonly count: number;
  readonly lifeMs: number | undefined;
}

/** Queues anew all failed messages whose content is kept, but those that `mayNot` names. Rejects like Ledger.record. */
export async function retryFailed(ledger: Ledger, mayNot: ReadonlySet<string>): Promise<Retried> {
  let count = 0;
  let lifeMs = Number.POSITIVE_INFINITY;
  await forFailed(ledger, async (ids) => {
    const messages = ids.flatMap((id) => ledger.state.messages.read(id) ?? []);
    const batch = messages.filter((message) => isUnderstood(message) && !mayNot.has(message.id));
    const events = batch.map(({ id }): StoreEvent => ({ e: 'retried', id, ...ledger.birth() }));
    if (events.length > 0) await ledger.record(events, 'synced');
    count += batch.length;
    for (const { extras } of batch) lifeMs = Math.min(lifeMs, extras?.lifeMs ?? lifeMs);
  });
  return { count, lifeMs: Number.isFinite(lifeMs) ? lifeMs : undefined };
}

/** Drops the content of all failed messages; gives their number. */
export async function dropFailed(ledger: Ledger, hasReserve: () => boolean): Promise<number> {
  let count = 0;
  await forFailed(ledger, async (ids) => {
    // On a full disk this may use the reserve for outcomes, because it frees room.
    await ledger.record([{ e: 'dropped', ids }], hasReserve() ? 'synced-outcome' : 'synced');
    count += ids.length;
  });
  return count;
}

/** Calls `work` for each batch of those that have failed by now, and still are. */
async function forFailed(
  { state }: Ledger,
  work: (ids: readonly Message['id'][]) => Promise<void>,
): Promise<void> {
  const all = [...state.kept];
  for (let at = 0; at < all.length; at += BATCH_MESSAGES) {
    const ids = all.slice(at, at + BATCH_MESSAGES).filter((id) => state.kept.has(id));
    if (ids.length > 0) await work(ids);
  }
}

/** The error for a message that cannot change now. */
export function conflict(words: string, hint?: string): FieldpostError {
  return new FieldpostError('conflict', words, { ...(hint !== undefined && { hint }) });
}

/** Why a final message cannot change. */
export function alreadyFinal({ status, place }: Message): FieldpostError {
  if (status !== 'failed') return conflict(`the message is ${status} already`);
  if (place === null)
    return conflict(
      'the message has failed, and its content is no longer kept',
      'send it again if it still matters',
    );
  return conflict(
    'only a newer version of Fieldpost, which accepted the message, can send it',
    'try again after the next update',
  );
}
