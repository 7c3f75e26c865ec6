/**
 * Trouble of a connection in the words of those who must mend it. Pure; used for relays and for the cloud.
 */
import { systemCodeOf, wordsOf } from '../errors.js';
import { REPLY_CHARS_MAX } from '../limits.js';
import { isPlausible } from '../message/stamp.js';

/** What can be wrong with a connection, TLS included. */
export type SocketTrouble =
  | 'dns'
  | 'refused'
  | 'unreachable'
  | 'lost'
  | 'tls'
  | 'certificate'
  | 'certificate-not-yet-valid';

const KINDS: Readonly<Record<string, SocketTrouble>> = {
  ENOTFOUND: 'dns',
  EAI_AGAIN: 'dns',
  EAI_FAIL: 'dns',
  ECONNREFUSED: 'refused',
  EHOSTUNREACH: 'unreachable',
  ENETUNREACH: 'unreachable',
  EHOSTDOWN: 'unreachable',
  ENETDOWN: 'unreachable',
  EADDRNOTAVAIL: 'unreachable',
  ETIMEDOUT: 'unreachable',
  EACCES: 'unreachable',
  EPERM: 'unreachable',
  ECONNRESET: 'lost',
  EPIPE: 'lost',
  CERT_NOT_YET_VALID: 'certificate-not-yet-valid',
};

// The names OpenSSL's X509_V_ERR_ have in Node, and Node's own.
const CERTIFICATE =
  /^(?:CERT_|CRL_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|ERROR_IN_CERT|ERR_TLS_CERT|HOSTNAME_|INVALID_|PATH_LENGTH_)/;

/**
 * What a socket threw. `wallMs` is the device's belief, to be held against a certificate's dates. The words say
 * of the peer "it" and "its", for whoever shows them names it.
 */
export function socketTrouble(thrown: unknown, wallMs: number): { kind: SocketTrouble; words: string } {
  const code = systemCodeOf(thrown);
  const kind = kindOf(code);
  return { kind, words: wordsFor(kind, plain(wordsOf(thrown)), code, wallMs) };
}

/** What of `text` may be shown and kept: one line, no control characters, at most REPLY_CHARS_MAX. */
export function plain(text: string): string {
  const shown = text.replace(/[\p{C}\p{Z}]+/gu, ' ').trim();
  return shown.length <= REPLY_CHARS_MAX
    ? shown
    : shown.slice(0, REPLY_CHARS_MAX).replace(/[\uD800-\uDBFF]$/, '');
}

function kindOf(code: string): SocketTrouble {
  if (CERTIFICATE.test(code)) return KINDS[code] ?? 'certificate';
  return KINDS[code] ?? (/^(?:ERR_SSL_|ERR_TLS_|EPROTO)/.test(code) ? 'tls' : 'lost');
}

function wordsFor(kind: SocketTrouble, thrown: string, code: string, wallMs: number): string {
  switch (kind) {
    case 'dns':
      return `its name cannot be resolved (${code})`;
    case 'refused':
      return 'the connection was refused';
    case 'certificate':
    case 'certificate-not-yet-valid':
      return certificateWords(thrown, code, wallMs);
    case 'tls':
      return `TLS failed: ${thrown}`;
    case 'lost':
      return thrown === '' ? 'the connection was lost' : `the connection was lost: ${thrown}`;
    case 'unreachable':
      return thrown;
  }
}

/** With a wrong clock a good certificate is not yet valid, or no longer: that is what has to be mended. */
function certificateWords(thrown: string, code: string, wallMs: number): string {
  const today = new Date(wallMs).toISOString().slice(0, 10);
  return /_(?:NOT_YET_VALID|HAS_EXPIRED)$/.test(code) && !isPlausible(wallMs)
    ? `${thrown}, but this device's clock is wrong (${today})`
    : `${thrown} (${code}; the clock of this device says ${today})`;
}
