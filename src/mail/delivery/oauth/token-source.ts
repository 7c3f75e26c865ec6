/**
 * Where access tokens for relays come from: a token endpoint (fetched-tokens.ts), or a file that another program renews
 * (token-file.ts).
 */
import type { Config } from '../../../base/config/settings.js';
import { TOKEN_CHARS_MAX } from '../../mail-limits.js';

/** The settings that choose the source, and that it follows. */
export type TokenSettings = Pick<
  Config,
  | 'relayTokenUrl'
  | 'relayClientId'
  | 'relayClientSecret'
  | 'relayScope'
  | 'relayRefreshToken'
  | 'relayTokenCa'
  | 'relayCa'
  | 'relayTokenFile'
>;

/** One source of tokens. */
export interface TokenSource {
  /** A token for a new session. Rejects with TokenError. */
  token(): Promise<string>;
  /** A relay has refused this token, although it should be good: it is not given again. */
  refused(token: string): void;
  /** Ends what is under way. Resolves when nothing is. */
  close(): Promise<void>;
}

/** Opens the source of these settings. */
export type OpenTokenSource = (settings: TokenSettings) => Promise<TokenSource>;

/** There is no token. `message` is a sentence for a technician, without a secret. */
export class TokenError extends Error {
  /** The pause that the endpoint asks for; 0: none. */
  readonly retryAfterMs: number;

  constructor(message: string, retryAfterMs = 0) {
    super(message);
    this.name = 'TokenError';
    this.retryAfterMs = retryAfterMs;
  }
}

/** True for a text that may stand in an AUTH command: visible ASCII, of a length that servers take. */
export function isToken(text: unknown): text is string {
  return typeof text === 'string' && /^[\x21-\x7e]+$/.test(text) && text.length <= TOKEN_CHARS_MAX;
}
