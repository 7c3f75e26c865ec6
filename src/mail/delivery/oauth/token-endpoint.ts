/**
 * One call of a token endpoint (RFC 6749 §4.4 and §6). The caller decides when to call again. The application's id and
 * secret stand in the body, as Microsoft and Google write it.
 */
import { retryAfterMsOf } from '../../../base/http/answer.js';
import { type JsonObject, objectIn } from '../../../base/json.js';
import { SECOND_MS } from '../../../base/limits.js';
import { requestWordsOf } from '../../../base/retry/request-error.js';
import type { HttpAnswer, SendRequest } from '../../../base/system/https.js';
import { oneLine, withoutSecrets } from '../../../base/text.js';
import {
  TOKEN_ANSWER_BYTES_MAX,
  TOKEN_LIFE_MS,
  TOKEN_LIFE_MS_MAX,
  TOKEN_TIMEOUT_MS,
} from '../../mail-limits.js';
import { isToken, TokenError } from './token-source.js';

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
export interface Grant {
  readonly token: string;
  /** How long the token is good. */
  readonly lifeMs: number;
  /** The refresh token to use next; null: the same. */
  readonly refreshToken: string | null;
}

const ERROR_CHARS_MAX = 300;
const HINTS = { 'certificate-unknown-authority': '; see FIELDPOST_RELAY_OAUTH_CA_FILE' };

/** Asks for an access token. Rejects with TokenError. */
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
    answerBytesMax: TOKEN_ANSWER_BYTES_MAX,
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
  return isGood ? Math.min(seconds * SECOND_MS, TOKEN_LIFE_MS_MAX) : TOKEN_LIFE_MS;
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
