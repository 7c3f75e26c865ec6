/**
 * An email address as RFC 5321 and 6531 have it, without comments, display names or quoted local parts. Only parseAddress
 * makes an Address, so an Address brings no line break, angle bracket or blank into an SMTP command or a header.
 */
import { Buffer } from 'node:buffer';

// RFC 5321 §4.5.3.1, RFC 3696 erratum 1690.
const LOCAL_PART_BYTES_MAX = 64;
const DOMAIN_BYTES_MAX = 255;
const ADDRESS_BYTES_MAX = 254;

declare const parsed: unique symbol;
/** An address that parseAddress has checked. */
export type Address = string & { readonly [parsed]: 'Address' };

const ADDRESS_LITERAL = /^\[(?:\d{1,3}(?:\.\d{1,3}){3}|IPv6:[0-9A-Fa-f:.]{2,45})\]$/;

/** `text` as an address, or null if it is not exactly one. It is not trimmed. */
export function parseAddress(text: string): Address | null {
  const at = text.lastIndexOf('@');
  if (at < 1 || Buffer.byteLength(text) > ADDRESS_BYTES_MAX) return null;
  const localPart = text.slice(0, at);
  const domain = text.slice(at + 1);
  if (Buffer.byteLength(localPart) > LOCAL_PART_BYTES_MAX || !localPart.split('.').every(isAtom)) return null;
  return isDomain(domain) ? (text as Address) : null;
}

/**
 * RFC 5322 atext, and any character beyond ASCII that is not a separator or control (RFC 6531 §3.3). The first pattern is for
 * most addresses: V8 takes 1 ms to make those with \p.
 */
function isAtom(text: string): boolean {
  return (
    /^[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+$/.test(text) ||
    /^(?:[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]|[^\p{ASCII}\p{C}\p{Z}])+$/u.test(text)
  );
}

function isLabel(text: string): boolean {
  if (text.startsWith('-') || text.endsWith('-')) return false;
  return /^[A-Za-z0-9-]+$/.test(text) || /^(?:[A-Za-z0-9-]|[^\p{ASCII}\p{C}\p{Z}])+$/u.test(text);
}

/** True for a host name of any script, or an address literal (RFC 5321 §4.1.3). */
function isDomain(domain: string): boolean {
  if (ADDRESS_LITERAL.test(domain)) return true;
  if (Buffer.byteLength(domain) > DOMAIN_BYTES_MAX) return false;
  return domain.split('.').every((label) => Buffer.byteLength(label) <= 63 && isLabel(label));
}

/** The part after the last `@`. */
export function domainOf(address: Address): string {
  return address.slice(address.lastIndexOf('@') + 1);
}

/**
 * True for a name that a user of this device may have, as useradd(8) or a directory takes it: `root`, `_apt`, `host01$`. Any
 * other word without a domain, such as a telephone number, a command or an encoded word, is no recipient.
 */
export function isUserName(text: string): boolean {
  return /^(?!\d+$)\w[\w.-]{0,63}\$?$/.test(text);
}

/** The address of a user of this device. */
export function localAddressOf(user: string): Address {
  return `${user}@localhost` as Address;
}

/** Equal for two spellings of one recipient: only a domain has no case. */
export function recipientKey(address: Address): string {
  return address.slice(0, address.lastIndexOf('@') + 1) + domainOf(address).toLowerCase();
}

/** True if not all of it is ASCII. */
export function isBeyondAscii(text: string): boolean {
  return /[^\p{ASCII}]/u.test(text);
}

/**
 * The address with the A-label of its domain (RFC 5890 §2.3.2.1) if the domain alone is beyond ASCII: every relay takes it.
 * A local part beyond ASCII needs SMTPUTF8 anyway, and then the domain stays as people write it.
 */
export function withALabel(address: Address): Address {
  const at = address.lastIndexOf('@') + 1;
  if (!isBeyondAscii(address) || isBeyondAscii(address.slice(0, at))) return address;
  try {
    return parseAddress(address.slice(0, at) + new URL(`http://${address.slice(at)}`).hostname) ?? address;
  } catch {
    // A name that IDNA does not allow.
    return address;
  }
}

/** True if a relay must offer SMTPUTF8 before it can be given this address (RFC 6531). */
export function needsSmtpUtf8(address: Address | ''): boolean {
  return address !== '' && isBeyondAscii(withALabel(address));
}
