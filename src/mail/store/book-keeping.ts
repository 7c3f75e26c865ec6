/**
 * How the address book is kept: in the journal of the messages.
 */
import { Buffer } from 'node:buffer';
import type { BookKeeping } from '../book/book.js';
import { type RandomBytes, uuidOf } from './ids.js';
import type { Ledger } from './ledger.js';
import type { Quota } from './quota.js';

/** So many random bytes that no nonce occurs twice. */
const NONCE_BYTES = 12;

/** The book of this ledger. */
export function keepBook(ledger: Ledger, quota: Quota, randomBytes: RandomBytes): BookKeeping {
  return {
    get book() {
      return ledger.state.book;
    },
    record: (event) => ledger.record([event], 'synced'),
    // Only the disk's reserve counts: a full queue must not keep people from editing the book.
    checkRoom: async () => {
      if (quota.space.stale) await quota.look();
      quota.space.check();
    },
    newUid: () => uuidOf(randomBytes(16)),
    newNonce: () => Buffer.from(randomBytes(NONCE_BYTES)).toString('base64url'),
  };
}
