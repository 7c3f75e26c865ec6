/**
 * Access tokens from a token endpoint. One token is good for all connections and relays. It is fetched when a session needs
 * it, and renewed ahead of its end.
 */
import { wordsOf } from '../../../base/errors.js';
import { patienceMs } from '../../../base/retry/backoff.js';
import type { Clock } from '../../../base/system/clock.js';
import type { SendRequest } from '../../../base/system/https.js';
import type { Log } from '../../../base/system/log.js';
import { TOKEN_AHEAD_MS, TOKEN_AHEAD_SHARE, TOKEN_RETRY_MS } from '../../mail-limits.js';
import type { GivenToken, RefreshToken } from '../../store/refresh-token.js';
import { type Grant, requestToken, type TokenRequest } from './token-endpoint.js';
import { TokenError, type TokenSource } from './token-source.js';

/** What the fetching needs. */
interface FetchOptions {
  /** With the refresh token of the settings. */
  readonly request: TokenRequest;
  /** Keeps the refresh tokens that follow it. */
  readonly refresh: Pick<RefreshToken, 'newest' | 'replaceBy' | 'close'>;
  readonly send: SendRequest;
  readonly clock: Clock;
  /** In [0, 1). */
  readonly random: () => number;
  readonly log: Log;
}

/** A token, and its times on the boot's clock. */
interface Current {
  readonly token: string;
  readonly endMs: number;
  readonly renewMs: number;
}

/** The tokens of one application at one endpoint. */
export class FetchedTokens implements TokenSource {
  readonly #options: FetchOptions;
  readonly #control = new AbortController();
  #current: Current | null = null;
  #fetching: Promise<string> | null = null;
  /** The endpoint's Retry-After, on the boot's clock, and what it said. */
  #pause: { readonly untilMs: number; readonly words: string } | null = null;
  /** A failed renewal was logged. */
  #isTold = false;

  constructor(options: FetchOptions) {
    this.#options = options;
  }

  async token(): Promise<string> {
    const nowMs = this.#options.clock.bootMs();
    if (this.#current !== null && nowMs < this.#current.renewMs) return this.#current.token;
    // All sessions wait for the same fetch.
    this.#fetching ??= this.#renew().finally(() => {
      this.#fetching = null;
    });
    return await this.#fetching;
  }

  refused(token: string): void {
    // Another session may have replaced it already.
    if (this.#current?.token === token) this.#current = null;
  }

  /** Waits for an answer that may hold a new refresh token: without it the device would be locked out. */
  async close(): Promise<void> {
    if (this.#options.request.refreshToken === null) this.#control.abort();
    await this.#fetching?.catch(() => undefined);
    this.#control.abort();
    await this.#options.refresh.close();
  }

  async #renew(): Promise<string> {
    const { clock, log } = this.#options;
    try {
      const grant = await this.#fetch();
      this.#isTold = false;
      return this.#take(grant);
    } catch (error) {
      if (!(error instanceof TokenError)) throw error;
      const nowMs = clock.bootMs();
      this.#heed(error, nowMs);
      // The old token still works. It may have been refused meanwhile.
      if (this.#current === null || nowMs >= this.#current.endMs) throw error;
      if (!this.#isTold) log.warn('access token not renewed', { reason: error.message });
      this.#isTold = true;
      const { endMs } = this.#current;
      this.#current = { ...this.#current, renewMs: Math.min(endMs, nowMs + TOKEN_RETRY_MS) };
      return this.#current.token;
    }
  }

  #take({ token, lifeMs }: Grant): string {
    const { clock, log } = this.#options;
    const endMs = clock.bootMs() + lifeMs;
    const aheadMs = Math.min(TOKEN_AHEAD_MS, lifeMs * TOKEN_AHEAD_SHARE);
    this.#current = { token, endMs, renewMs: endMs - aheadMs };
    log.debug('access token fetched', { lifeMs });
    return token;
  }

  async #fetch(): Promise<Grant> {
    const { request, refresh, send, clock } = this.#options;
    if (this.#pause !== null && clock.bootMs() < this.#pause.untilMs) throw new TokenError(this.#pause.words);
    const { url, clientId, refreshToken: token } = request;
    const given = token === null ? null : { url, clientId, token };
    const refreshToken = given && (await this.#newest(given));
    const signal = this.#control.signal;
    const grant = await requestToken({ ...request, refreshToken }, { send, wallMs: clock.wallMs(), signal });
    // Synced before the old one is forgotten.
    if (given !== null && grant.refreshToken !== null && grant.refreshToken !== refreshToken)
      await refresh.replaceBy(grant.refreshToken, given);
    return grant;
  }

  /** An old refresh token must not be used: some endpoints take that for theft, and revoke all. */
  async #newest(given: GivenToken): Promise<string> {
    return await this.#options.refresh.newest(given).catch((error) => {
      throw new TokenError(`the kept refresh token cannot be read: ${wordsOf(error)}`);
    });
  }

  #heed({ retryAfterMs, message }: TokenError, nowMs: number): void {
    if (retryAfterMs === 0) return;
    this.#pause = { untilMs: nowMs + patienceMs(retryAfterMs, this.#options.random()), words: message };
  }
}
