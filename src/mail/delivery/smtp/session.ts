/**
 * The interface of a conversation with a relay. smtp-session.ts is the real one, tests have their own.
 */
import type { TLSSocket } from 'node:tls';
import type { RelayConfig } from '../../../base/config/types.js';
import type { Envelope } from './envelope.js';
import type { Ending, Phase, Reply } from './reply.js';

/** An open connection to a relay, for one message after another. */
export interface Session {
  /**
   * Sends one message; never rejects. An ending with phase `dot` and a 2xx reply means sent. The content is read only after
   * the relay has asked for it; an error of the content breaks the connection before the final dot. With `takesAhead`, a
   * `next` may be announced together with the final dot: it must be the envelope of the next send.
   */
  send(envelope: Envelope, content: Buffer | AsyncIterable<Buffer>, next?: Envelope | null): Promise<Ending>;
  /** True if the next message may be announced while this one is answered (RFC 2920). */
  readonly takesAhead: boolean;
  /** From now on it sends one command at a time, whatever the relay offers. */
  oneByOne(): void;
  /** False after a failure: the session must be closed and not be used again. */
  readonly usable: boolean;
  /** The largest message the relay takes, in bytes; null if it names none. */
  readonly sizeLimit: number | null;
  /** Sends QUIT if the session is usable, and closes the connection. Takes at most QUIT_MS; never rejects. */
  close(): Promise<void>;
}

/** A conversation could not begin, or broke. */
export class SessionError extends Error {
  readonly ending: Ending;

  constructor(ending: Ending) {
    super('reply' in ending ? ending.reply.text : ending.trouble.words);
    this.name = 'SessionError';
    this.ending = ending;
  }
}

/** Opens a session to a relay; rejects with SessionError. */
export type OpenSession = (relay: RelayConfig) => Promise<Session>;

/**
 * What a session tells of its way, besides its end: the name has an address; the address that was connected; the
 * certificate, before it is verified, and after; a mechanism of AUTH that is tried; each reply that refuses nothing.
 */
export type SessionStep =
  | { readonly kind: 'resolved' }
  | { readonly kind: 'connected'; readonly address: string }
  | { readonly kind: 'certificate'; readonly socket: TLSSocket }
  | { readonly kind: 'verified' }
  | { readonly kind: 'login'; readonly mechanism: string }
  | {
      readonly kind: 'reply';
      readonly phase: Phase;
      readonly reply: Reply;
      readonly lines: readonly string[];
    };

/** Is told each step of a session as it happens. */
export type SessionWatch = (step: SessionStep) => void;
