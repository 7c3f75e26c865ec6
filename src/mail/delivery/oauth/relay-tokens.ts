/**
 * Opens sessions with access tokens, if the settings name a source of them.
 */
import type { RelayConfig } from '../../../base/config/types.js';
import { assert } from '../../../base/errors.js';
import { type Session, SessionError } from '../smtp/session.js';
import { type OpenTokenSource, TokenError, type TokenSettings, type TokenSource } from './token-source.js';

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
  const { relayTokenUrl, relayClientId, relayClientSecret, relayScope, relayRefreshToken } = config;
  const { relayTokenCa, relayCa, relayTokenFile } = config;
  const application = { relayTokenUrl, relayClientId, relayClientSecret, relayScope, relayRefreshToken };
  return { ...application, relayTokenCa, relayCa, relayTokenFile };
}
