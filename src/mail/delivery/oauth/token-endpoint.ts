/**
 * Access tokens from a token endpoint (RFC 6749 §4.4 and §6). One token is good for all connections and relays. It is fetched
 * when a session needs it, and renewed ahead of its end.
 */
import { wordsOf } from '../../../base/errors.js';
import { retryAfterMsOf } from '../../../base/http/answer.js';
import { type JsonObject, objectIn } from '../../../base/json.js';
import { DAY_MS, HOUR_MS, KIB, MINUTE_MS, SECOND_MS } from '../../../base/limits.js';
import { patienceMs } from '../../../base/retry/backoff.js';
import { requestWordsOf } from '../../../base/retry/call-error.js';
import type { Clock } from '../../../base/system/clock.js';
import type { HttpAnswer, SendRequest } from '../../../base/system/https.js';
import type { Log } from '../../../base/system/log.js';
import { oneLine, withoutSecrets } from '../../../base/text.js';
import type { GivenToken, RefreshToken } from '../../store/refresh-token.js';
import { isToken, TokenError, type TokenSource } from './access-tokens.js';

/** From the look-up of the token endpoint's name to the last byte of its answer. */
export const TOKEN_TIMEOUT_MS = 15 * SECOND_MS;
const ANSWER_BYTES_MAX = 64 * KIB;
/** A token is renewed this long before its end, or in the last fifth of its life if that is shorter. */
const AHEAD_MS = 5 * MINUTE_MS;
const AHEAD_SHARE = 1 / 5;
/** The life of a token whose endpoint names none: that of most endpoints. */
const LIFE_MS = HOUR_MS;
const LIFE_MS_MAX = DAY_MS;
/** While the old token is good, a failed renewal is tried again after this long. */
export const TOKEN_RETRY_MS = 30 * SECOND_MS;
const ERROR_CHARS_MAX = 300;
const HINTS = { 'certificate-unknown-authority': '; see FIELDPOST_RELAY_OAUTH_CA_FILE' };

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
    const aheadMs = Math.min(AHEAD_MS, lifeMs * AHEAD_SHARE);
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

/** What is asked for. */
export interface TokenRequest {
  readonly url: string;
  readonly clientId: string;
  /** Null: a public client. */
  readonly clientSecret: string | null;
  readonly scope: string | null;
  /** Null: the grant is client_credentials. */
  readonly refreshToken: string | null;
}

/** What the endpoint gave. */
interface Grant {
  readonly token: string;
  /** How long the token is good. */
  readonly lifeMs: number;
  /** The refresh token to use next; null: the same. */
  readonly refreshToken: string | null;
}

/**
 * Asks for an access token, once. The application's id and secret stand in the body, as Microsoft and Google write it.
 * Rejects with TokenError.
 */
export async function requestToken(
  request: TokenRequest,
  { send, wallMs, signal }: { send: SendRequest; wallMs: number; signal: AbortSignal },
): Promise<Grant> {
  const { url, clientSecret, refreshToken } = request;
  const answer = await send({
    method: 'POST',
    url,
    headers: { 'Content-Type': 'application/x-www-form-urlencoded', Accept: 'application/json' },
    body: formOf(request),
    timeoutMs: TOKEN_TIMEOUT_MS,
    answerBytesMax: ANSWER_BYTES_MAX,
    signal,
  }).catch((error) => {
    const words = requestWordsOf(error, new URL(url).hostname, wallMs, HINTS);
    throw new TokenError(`the token endpoint does not answer: ${words}`);
  });
  const fields = objectIn(answer.body);
  // Some endpoints refuse with the status 200.
  if (answer.status === 200 && fields !== null && fields.error === undefined) return grantIn(fields);
  const words = withoutSecrets(refusalOf(answer, fields), [clientSecret ?? '', refreshToken ?? '']);
  throw new TokenError(oneLine(words, ERROR_CHARS_MAX), retryAfterMsOf(answer.headers, wallMs) ?? 0);
}

function formOf({ clientId, clientSecret, scope, refreshToken }: TokenRequest): string {
  const fields = {
    grant_type: refreshToken === null ? 'client_credentials' : 'refresh_token',
    client_id: clientId,
    ...(clientSecret !== null && { client_secret: clientSecret }),
    ...(refreshToken !== null && { refresh_token: refreshToken }),
    ...(scope !== null && { scope }),
  };
  return new URLSearchParams(fields).toString();
}

/** RFC 6749 §5.1. */
function grantIn(fields: JsonObject): Grant {
  const { access_token: token, token_type: type, expires_in: life, refresh_token: next } = fields;
  if (type !== undefined && !/^bearer$/i.test(String(type)))
    throw new TokenError('the token endpoint gives a token that is not of the type Bearer');
  if (!isToken(token)) throw new TokenError('the token endpoint gives no access token that can be used');
  return { token, lifeMs: lifeMsOf(life), refreshToken: isToken(next) ? next : null };
}

/** Some endpoints write the seconds as a string. A value that makes no sense counts as missing. */
function lifeMsOf(value: unknown): number {
  const seconds = typeof value === 'string' && /^\d+$/.test(value) ? Number(value) : value;
  const isGood = typeof seconds === 'number' && seconds >= 0;
  return isGood ? Math.min(seconds * SECOND_MS, LIFE_MS_MAX) : LIFE_MS;
}

/** RFC 6749 §5.2. The answer may also be that of something between the device and the endpoint. */
function refusalOf({ status, headers }: HttpAnswer, fields: JsonObject | null): string {
  const { error, error_description: detail } = fields ?? {};
  if (typeof error === 'string' && error !== '')
    return `the token endpoint says ${error}${typeof detail === 'string' && detail !== '' ? `: ${detail}` : ''}`;
  if (status >= 300 && status < 400)
    return `the token endpoint answered ${status}, a redirect to ${originOf(headers.location)}, which is not followed: perhaps a login page of the network`;
  if (status === 200 && fields === null)
    return `the answer of the token endpoint (200, ${headers['content-type'] ?? 'no type'}) is no JSON object: perhaps a login page of the network`;
  return `the token endpoint ${status >= 500 ? 'failed' : 'gave an unexpected answer'} (${status})`;
}

/** Where a redirect leads, without its path and query: they may repeat secrets. */
function originOf(location: string | undefined): string {
  return location !== undefined && URL.canParse(location) ? new URL(location).origin : 'elsewhere';
}
