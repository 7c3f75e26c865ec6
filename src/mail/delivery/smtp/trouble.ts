/**
 * Failures without a reply, in words for a technician. Pure.
 */
import { SECOND_MS } from '../../../base/limits.js';
import { socketErrorOf } from '../../../base/retry/socket-error.js';
import type { Ending, Phase } from './reply.js';

const MISSED: Readonly<Record<Phase, string>> = {
  resolve: 'no answer from DNS',
  connect: 'no connection',
  tls: 'no TLS handshake',
  greeting: 'no greeting',
  ehlo: 'no answer to EHLO',
  starttls: 'no answer to STARTTLS',
  auth: 'no answer to AUTH',
  token: 'no answer to AUTH',
  mail: 'no answer to MAIL FROM',
  rcpt: 'no answer to RCPT TO',
  data: 'no answer to DATA',
  content: 'no progress of the message',
  dot: 'no answer to the message',
};

/** A deadline that passed in this phase. */
export function lateEnding(phase: Phase, afterMs: number): Ending {
  return {
    phase,
    trouble: { kind: 'deadline', words: `${MISSED[phase]} within ${afterMs / SECOND_MS} s` },
  };
}

/** The ending for an error of the socket. The words of a certificate error give the date of `wallMs`. */
export function socketEnding(phase: Phase, thrown: unknown, wallMs: number): Ending {
  const { kind, words } = socketErrorOf(thrown, wallMs);
  const hint = kind === 'certificate-unknown-authority' ? '; see FIELDPOST_RELAY_CA_FILE' : '';
  // With implicit TLS the handshake is a part of the connect.
  const isTls = /^(?:tls|certificate|client-certificate)/.test(kind);
  return { phase: isTls ? 'tls' : phase, trouble: { kind, words: `${words}${hint}` } };
}
