/**
 * The commands that announce a message to a relay before its content (RFC 5321 §3.3, with the parameters of
 * RFC 1870, 6152 and 6531). Pure.
 */
import { type Address, withALabel } from '../../message/address.js';
import type { Sender } from '../../message/message.js';
import type { Extensions } from './extensions.js';
import type { Phase, Trouble } from './reply.js';

/** Sender, recipient, and the kind of content that follows. */
export interface Envelope {
  readonly from: Sender;
  readonly to: Address;
  /** Bytes of the content, before dots are doubled. */
  readonly size: number;
  /** True if an address or a header is not ASCII (RFC 6531). */
  readonly smtpUtf8: boolean;
  /** True if the content may have octets beyond ASCII (RFC 6152). A relay that does not offer that gets them all the same. */
  readonly isEightBit?: boolean;
}

/** A command line, and the phase in which it is answered. */
export type SmtpCommand = readonly [phase: Phase, line: string];

/** MAIL, RCPT and DATA. */
export function introductionOf(
  { from, to, size, smtpUtf8, isEightBit }: Envelope,
  offered: Extensions,
): SmtpCommand[] {
  const sizes = offered.size ? ` SIZE=${size}` : '';
  const body = (smtpUtf8 || isEightBit) && offered.eightBitMime ? ' BODY=8BITMIME' : '';
  return [
    ['mail', `MAIL FROM:<${from && withALabel(from)}>${sizes}${body}${smtpUtf8 ? ' SMTPUTF8' : ''}\r\n`],
    ['rcpt', `RCPT TO:<${withALabel(to)}>\r\n`],
    ['data', 'DATA\r\n'],
  ];
}

/** Why the relay cannot take such a message, by its extensions; null if it can. */
export function unsendable({ size, smtpUtf8 }: Envelope, offered: Extensions): Trouble | null {
  if (smtpUtf8 && !offered.smtpUtf8)
    return { kind: 'no-smtputf8', words: 'the relay takes no addresses beyond ASCII (no SMTPUTF8)' };
  const { sizeLimit } = offered;
  if (sizeLimit !== null && size > sizeLimit)
    return {
      kind: 'too-large',
      words: `the relay takes at most ${sizeLimit} bytes (SIZE), and the mail has ${size}`,
    };
  return null;
}
