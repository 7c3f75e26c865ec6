/**
 * Keeps the address book in the ledger: its events go into the journal.
 */
import { Buffer } from 'node:buffer';
import type { BookKeeping } from '../book/book.js';
import type { Budget } from './budget.js';
import type { RandomBytes } from './ids.js';
import type { Ledger } from './ledger.js';

/** So many random bytes that no nonce occurs twice. */
const NONCE_BYTES = 12;

/** Keeps the book of this ledger's state. */
export function keepBook(ledger: Ledger, budget: Budget, randomBytes: RandomBytes): BookKeeping {
  return {
    get book() {
      return ledger.state.book;
    },
    record: (event) => ledger.record([event], 'synced'),
    // Only the disk's reserve counts: a full queue must not keep people from editing the book.
    async checkRoom() {
      if (budget.stale) await budget.look();
      budget.space.check();
    },
    newUid: () => uuidOf(randomBytes(16)),
    newNonce: () => Buffer.from(randomBytes(NONCE_BYTES)).toString('base64url'),
  };
}

/** A UUID of version 4 (RFC 9562 §5.4) of 16 random bytes. */
function uuidOf(random: Uint8Array): string {
  const bytes = Buffer.from(random);
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}
