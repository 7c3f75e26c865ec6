/**
 * The Message-ID of a mail (RFC 5322 §3.6.4): the same at every attempt, and for all recipients.
 */
import { type Address, domainOf, withALabel } from './address.js';
import type { Message } from './message.js';

/** A new Message-ID, without angle brackets. `mail` is the id of the first recipient's message. */
export function newMessageId(mail: string, storeId: string, sender: Address): string {
  return `${mail}.${storeId}@${domainOf(withALabel(sender))}`;
}

/** The Message-ID of an email, without angle brackets; null for other messages. */
export function messageIdOf(
  { id, from, extras }: Pick<Message, 'id' | 'from' | 'extras'>,
  storeId: string,
): string | null {
  if (extras?.messageId !== undefined) return extras.messageId;
  return from ? newMessageId(extras?.mail ?? id, storeId, from) : null;
}
