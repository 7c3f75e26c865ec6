/**
 * The valid recipients of each type of message (local-api §1), for messages and the address book.
 */
import { parseAddress } from './address.js';
import type { MessageType } from './message.js';

/** The fault of a type that isMessageType refuses. */
export const TYPE_FAULT = 'must be the integer 1 (email), 2 (SMS), 3 (phone) or 4 (push)';

const E164 = /^\+[1-9]\d{0,14}$/;
const PLACEHOLDER = /^[A-Z][A-Z0-9_]*$/;

/** True for the integers 1 to 4. */
export function isMessageType(value: unknown): value is MessageType {
  return value === 1 || value === 2 || value === 3 || value === 4;
}

/** What is wrong with `destination` as the recipient of a message of this type, or null if nothing is. */
export function recipientFault(type: MessageType, destination: unknown): string | null {
  if (typeof destination !== 'string') {
    return `is required and must be a string${type === 1 ? ', one email address' : ''}`;
  }
  if (type === 1) {
    const isAddress = parseAddress(destination) !== null;
    return isAddress ? null : 'must be exactly one email address, like john@example.com';
  }
  if (type !== 4) {
    return E164.test(destination) ? null : 'must be a phone number: +, then up to 15 digits, the first not 0';
  }
  const isGood = PLACEHOLDER.test(destination) || parseAddress(destination) !== null;
  return isGood ? null : 'must be one email address, or a placeholder in capitals like OWNER';
}
