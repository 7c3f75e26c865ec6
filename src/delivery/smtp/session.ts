/**
 * What delivery knows of a conversation with a relay; smtp-session.ts is the real one, tests have their own.
 */
import type { RelayConfig } from '../../config.js';
import type { Envelope } from './envelope.js';
import type { Ending } from './reply.js';

/** An open connection to a relay, for one message after another. */
export interface Session {
  /**
   * Sends one message; never rejects. Sent is an ending with phase `dot` and a 2xx reply. The content is begun
   * only when the relay asks for it; an error of the content breaks the connection before the final dot.
   * Where the relay can be told ahead, a `next` may be announced together with the final dot: it must then be
   * the envelope of the next send.
   */
  send(envelope: Envelope, content: Buffer | AsyncIterable<Buffer>, next?: Envelope | null): Promise<Ending>;
  /** True if the next message may be announced while this one is answered (RFC 2920). */
  readonly takesAhead: boolean;
  /** False after anything doubtful: the session must be closed and never used again. */
  readonly usable: boolean;
  /** The largest message the relay takes, in bytes; null if it names none. */
  readonly sizeLimit: number | null;
  /** Says QUIT if all is well, and lets go of the connection. Bounded; never rejects. */
  close(): Promise<void>;
}

/** Opens a session to a relay; rejects with SessionError. */
export type OpenSession = (relay: RelayConfig) => Promise<Session>;
