/**
 * Trouble without a reply, in the words of those who must mend it. Pure; used by conversation.ts.
 */
import { systemCodeOf, wordsOf } from '../errors.js';
import { SECOND_MS } from '../limits.js';
import { isPlausible } from '../message/stamp.js';
import { type Ending, type Phase, plain, type Trouble } from './reply.js';

const MISSED: Readonly<Record<Phase, string>> = {
  resolve: 'no answer from DNS',
  connect: 'no connection',
  tls: 'no TLS handshake',
  greeting: 'no greeting',
  ehlo: 'no answer to EHLO',
  starttls: 'no answer to STARTTLS',
  auth: 'no answer to AUTH',
  mail: 'no answer to MAIL FROM',
  rcpt: 'no answer to RCPT TO',
  data: 'no answer to DATA',
  content: 'the message did not get on',
  dot: 'no answer to the message',
};

const KINDS: Readonly<Record<string, Trouble['kind']>> = {
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

/** A deadline that passed in this phase. */
export function lateEnding(phase: Phase, afterMs: number): Ending {
  return {
    phase,
    trouble: { kind: 'deadline', words: `${MISSED[phase]} within ${afterMs / SECOND_MS} s` },
  };
}

/** What a socket threw in this phase. `wallMs` is the device's belief, to be held against a certificate's dates. */
export function socketEnding(phase: Phase, thrown: unknown, wallMs: number): Ending {
  const code = systemCodeOf(thrown);
  const kind = kindOf(code);
  const words = wordsFor(kind, plain(wordsOf(thrown)), code, wallMs);
  // With TLS from the first byte the handshake is part of connecting.
  const isTls = kind === 'tls' || kind === 'certificate' || kind === 'certificate-not-yet-valid';
  return { phase: isTls ? 'tls' : phase, trouble: { kind, words } };
}

function kindOf(code: string): Trouble['kind'] {
  if (CERTIFICATE.test(code)) return KINDS[code] ?? 'certificate';
  return KINDS[code] ?? (/^(?:ERR_SSL_|ERR_TLS_|EPROTO)/.test(code) ? 'tls' : 'lost');
}

function wordsFor(kind: Trouble['kind'], thrown: string, code: string, wallMs: number): string {
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
    default:
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
