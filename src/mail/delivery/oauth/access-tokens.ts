/**
 * Access tokens for relays: where they come from, and sessions that are opened with them. The sources are a file that another
 * program renews, and a token endpoint (token-endpoint.ts).
 */

import { assert, wordsOf } from '../../../base/errors.js';
import { KIB } from '../../../base/limits.js';
import type { Disk } from '../../../base/system/disk.js';
import type { MailConfig, RelayConfig } from '../../settings.js';
import { SessionError } from '../smtp/protocol.js';
import type { Session } from '../smtp/session.js';

/** In base64, with a user of 255 characters, this fits the 12,288 octets of a SASL response (RFC 4954). */
export const TOKEN_CHARS_MAX = 8 * KIB;

const SETTINGS = [
  'relayTokenUrl',
  'relayClientId',
  'relayClientSecret',
  'relayScope',
  'relayRefreshToken',
  'relayTokenCa',
  'relayCa',
  'relayTokenFile',
] as const;

/** The settings that choose the source, and that it follows. */
type TokenSettings = Pick<MailConfig, (typeof SETTINGS)[number]>;

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

/** Opens a session with this token, or with the password of the settings. Rejects with SessionError. */
type OpenWith = (token: string | null) => Promise<Session>;

/** The token source of the present settings, opened when it is needed. */
export class RelayTokens {
  /** A reload changes it; its new values hold with reload(). */
  readonly #config: TokenSettings;
  readonly #open: OpenTokenSource | undefined;
  #settings: TokenSettings;
  #source: Promise<TokenSource> | null = null;

  constructor(config: TokenSettings, open: OpenTokenSource | undefined) {
    this.#config = config;
    this.#open = open;
    this.#settings = settingsIn(config);
  }

  /**
   * Opens a session to `relay`. If the relay refuses a token that should be good, it opens one more with another token.
   * Rejects with SessionError.
   */
  async session({ user }: RelayConfig, open: OpenWith): Promise<Session> {
    const { relayTokenUrl, relayTokenFile } = this.#settings;
    if (user === null || (relayTokenUrl === null && relayTokenFile === null)) return await open(null);
    assert(this.#open !== undefined, 'a service with such settings has a source');
    this.#source ??= this.#open(this.#settings);
    const source = await this.#source;
    const token = await tokenOf(source);
    try {
      return await open(token);
    } catch (error) {
      if (!isRefusal(error)) throw error;
      source.refused(token);
      const other = await tokenOf(source);
      if (other === token) throw error;
      return await open(other);
    }
  }

  /** Follows new settings, when no session is being opened. A source whose settings stay goes on. */
  async reload(): Promise<void> {
    const settings = settingsIn(this.#config);
    if (JSON.stringify(settings) === JSON.stringify(this.#settings)) return;
    await this.close();
    this.#settings = settings;
  }

  async close(): Promise<void> {
    const source = this.#source;
    this.#source = null;
    await (await source)?.close();
  }
}

/** Trouble with the token is trouble of the relay. */
async function tokenOf(source: TokenSource): Promise<string> {
  return await source.token().catch((error) => {
    if (!(error instanceof TokenError)) throw error;
    throw new SessionError({ phase: 'token', trouble: { kind: 'no-token', words: error.message } });
  });
}

function isRefusal(error: unknown): boolean {
  if (!(error instanceof SessionError)) return false;
  const { ending } = error;
  return ending.phase === 'token' && 'reply' in ending && ending.reply.code === 535;
}

function settingsIn(config: TokenSettings): TokenSettings {
  return Object.fromEntries(SETTINGS.map((name) => [name, config[name]])) as unknown as TokenSettings;
}

/** Tokens from a file, which is read for each session. */
export class TokenFile implements TokenSource {
  readonly #path: string;
  readonly #disk: Disk;

  constructor(path: string, disk: Disk) {
    this.#path = path;
    this.#disk = disk;
  }

  async token(): Promise<string> {
    const text = (await this.#read()).trim();
    if (text === '') throw new TokenError(`the token file ${this.#path} is empty`);
    if (isToken(text)) return text;
    throw new TokenError(
      `the token file ${this.#path} holds something else than a token: blanks within, characters beyond ASCII, or more than ${TOKEN_CHARS_MAX} characters`,
    );
  }

  /** The next session reads the file anyway. */
  refused(): void {}

  async close(): Promise<void> {}

  async #read(): Promise<string> {
    try {
      const file = await this.#disk.open(this.#path, 'read');
      try {
        // Blanks around the token, and one character too many.
        return (await file.read(0, 2 * TOKEN_CHARS_MAX)).toString('latin1');
      } finally {
        await file.close();
      }
    } catch (error) {
      throw new TokenError(`the token file ${this.#path} cannot be read: ${wordsOf(error)}`);
    }
  }
}
