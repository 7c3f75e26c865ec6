/**
 * What the SMTP server is made of: the rest of the house, as the root hands it over.
 */
import type { ErrorCode } from '../../base/errors.js';
import type { Clock } from '../../base/system/clock.js';
import type { Log } from '../../base/system/log.js';
import type { SecureSocket, TlsIdentity } from '../../base/system/tls-door.js';
import type { BeginMail } from '../message/mail-intake.js';
import type { EnvelopeRules } from './transaction.js';

/** The parts of an SMTP server. A function is called at each use, because a reload changes its value. */
export interface SmtpParts extends EnvelopeRules {
  readonly begin: BeginMail;
  /** A client, a sender, a recipient or a mail was refused. */
  readonly refused?: (code: ErrorCode) => void;
  /** The name of this device, for the greeting and EHLO. */
  readonly name: () => string;
  /** The passwords, any of which lets in. None: nobody needs to log in. */
  readonly tokens: readonly string[];
  /** Those of them whose owners may only send. */
  readonly sendTokens?: readonly string[];
  /** True if clients that need not log in may only send. */
  readonly strangersOnlySend?: () => boolean;
  /** How STARTTLS is done. Null, or without an identity: there is none. */
  readonly tls: { readonly identity: () => TlsIdentity | null; readonly secure: SecureSocket } | null;
  readonly clock: Clock;
  readonly log: Log;
  /** How many files the process may open for its clients; undefined: no limit. */
  readonly descriptors?: number | undefined;
  /** Called with the number of octets that came and went. */
  readonly streamed?: ((bytes: number) => void) | undefined;
}
