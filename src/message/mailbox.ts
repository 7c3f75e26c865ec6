/**
 * Who stands in a header of a mail (RFC 5322 §3.4).
 */
import type { Address } from './address.js';

/** An address, and the name beside it. */
export interface Mailbox {
  /** Empty if there is none. */
  readonly name: string;
  readonly address: Address;
}
