/** One call of a token endpoint over real sockets: what is asked, what is understood, and every fault in words. */
import t from 'tap';
import { createConnect } from '../../../src/base/system/connect.js';
import { openHttps } from '../../../src/base/system/https.js';
import { TOKEN_CHARS_MAX, TokenError } from '../../../src/mail/delivery/oauth/access-tokens.js';
import {
  requestToken,
  TOKEN_TIMEOUT_MS,
  type TokenRequest,
} from '../../../src/mail/delivery/oauth/token-endpoint.js';
import { makeCertificate } from '../../support/certificate.js';
import { FakeClock } from '../../support/clock.js';
import { until } from '../../support/delivery.js';
import {
  CLIENT_ID,
  CLIENT_SECRET,
  refusal,
  type TokenEndpoint,
  tokenEndpoint,
} from '../../support/token-endpoint.js';

function open({ url }: Pick<TokenEndpoint, 'url'>, ca: string | null = null) {
  const clock = new FakeClock({ wallMs: Date.now() });
  const https = openHttps({ ca, clientCertificate: null, clock, connect: createConnect({ clock }) });
  const request = (more: Partial<TokenRequest> = {}) =>
    requestToken(
      { url, clientId: CLIENT_ID, clientSecret: CLIENT_SECRET, scope: null, refreshToken: null, ...more },
      { send: https.send, wallMs: clock.wallMs(), signal: new AbortController().signal },
    );
  return { request, clock, [Symbol.dispose]: () => https.close() };
}

t.test('it asks for what the settings name', async (t) => {
  await using endpoint = await tokenEndpoint();
  using made = open(endpoint);
  const given = { token: 'access-1', lifeMs: 3_600_000, refreshToken: null };
  t.same(await made.request({ scope: 'https://outlook.office365.com/.default' }), given);
  endpoint.refreshToken = 'a/b+c=&d';
  t.match(await made.request({ refreshToken: 'a/b+c=&d' }), { token: 'access-2' });
  endpoint.answer = () => ({ body: { access_token: 'x' } });
  await made.request({ clientSecret: null, refreshToken: 'r' });
  const id = { client_id: CLIENT_ID };
  const secret = { client_secret: CLIENT_SECRET };
  t.same(endpoint.forms, [
    { grant_type: 'client_credentials', ...id, ...secret, scope: 'https://outlook.office365.com/.default' },
    { grant_type: 'refresh_token', ...id, ...secret, refresh_token: 'a/b+c=&d' },
    { grant_type: 'refresh_token', ...id, refresh_token: 'r' },
  ]);
});

t.test('a life that is missing or makes no sense is an hour, and none is longer than a day', async (t) => {
  await using endpoint = await tokenEndpoint();
  using made = open(endpoint);
  for (const [life, lifeMs] of [
    [null, 3_600_000],
    ['soon', 3_600_000],
    ['', 3_600_000],
    [-5, 3_600_000],
    [{}, 3_600_000],
    [true, 3_600_000],
    ['120', 120_000],
    [0, 0],
    [0.5, 500],
    [1e12, 86_400_000],
    ['99999999999999999999999', 86_400_000],
  ] as const) {
    endpoint.lifeS = life;
    t.equal((await made.request()).lifeMs, lifeMs, JSON.stringify(life));
  }
});

t.test('an answer that gives no token is told in words, without secrets', async (t) => {
  await using endpoint = await tokenEndpoint();
  using made = open(endpoint);
  const json = { access_token: 'x', token_type: 'bearer' };
  for (const [answer, words, retryAfterMs] of [
    [refusal(401, 'invalid_client'), 'the token endpoint says invalid_client'],
    [
      refusal(400, 'invalid_grant', 'it has\r\nexpired'),
      'the token endpoint says invalid_grant: it has expired',
    ],
    [refusal(200, 'slow_down'), 'the token endpoint says slow_down'],
    [
      { ...refusal(429, 'temporarily_unavailable'), headers: { 'Retry-After': '7' } },
      'the token endpoint says temporarily_unavailable',
      7000,
    ],
    [
      refusal(
        401,
        'invalid_client',
        `no ${CLIENT_SECRET} here, ${CLIENT_SECRET.slice(0, 15)}… nor r-e-f-r-e-s-h`,
      ),
      'the token endpoint says invalid_client: no (hidden) here, (hidden)… nor (hidden)',
    ],
    [{ status: 503, headers: { 'Retry-After': '9' }, body: 'x' }, 'the token endpoint failed (503)', 9000],
    [{ status: 404, body: '' }, 'the token endpoint gave an unexpected answer (404)'],
    [
      { status: 302, headers: { Location: `https://login.example/x?${CLIENT_SECRET}` } },
      'the token endpoint answered 302, a redirect to https://login.example, which is not followed: perhaps a login page of the network',
    ],
    [
      { status: 307, headers: { Location: '/here' } },
      'the token endpoint answered 307, a redirect to elsewhere, which is not followed: perhaps a login page of the network',
    ],
    [
      { headers: { 'Content-Type': 'text/html' }, body: '<html>' },
      'the answer of the token endpoint (200, text/html) is no JSON object: perhaps a login page of the network',
    ],
    [{ body: '[1]' }, /is no JSON object/],
    [{ body: {} }, 'the token endpoint gives no access token that can be used'],
    [{ body: { error: 7 } }, 'the token endpoint gave an unexpected answer (200)'],
    [{ body: { ...json, access_token: 7 } }, /gives no access token that can be used/],
    [{ body: { ...json, access_token: 'a b' } }, /gives no access token that can be used/],
    [{ body: { ...json, access_token: 'a\x01b' } }, /gives no access token that can be used/],
    [{ body: { ...json, access_token: 'x'.repeat(TOKEN_CHARS_MAX + 1) } }, /gives no access token/],
    [{ body: { ...json, token_type: 'mac' } }, /not of the type Bearer/],
    ['cut', /^the token endpoint does not answer: 127\.0\.0\.1: its answer was cut short$/],
    ['endless', /^the token endpoint does not answer: 127\.0\.0\.1: its answer is larger than 65536 bytes$/],
  ] as const) {
    endpoint.answer = () => answer;
    const before = endpoint.forms.length;
    const error = await made.request({ refreshToken: 'r-e-f-r-e-s-h' }).catch((error) => error);
    t.ok(error instanceof TokenError, String(words));
    t.match(error, { message: words, retryAfterMs: retryAfterMs ?? 0 });
    t.equal(endpoint.forms.length, before + 1, 'asked once: no redirect is followed');
  }
  endpoint.answer = () => ({ body: { ...json, refresh_token: 'a\nb' } });
  t.match(await made.request(), { token: 'x', refreshToken: null }, 'a bad refresh token is passed over');
});

t.test('a slow endpoint is given up', async (t) => {
  await using endpoint = await tokenEndpoint();
  using made = open(endpoint);
  endpoint.answer = () => 'silence';
  const rejected = t.rejects(made.request(), {
    name: 'TokenError',
    message: `the token endpoint does not answer: 127.0.0.1: no answer within ${TOKEN_TIMEOUT_MS / 1000} s`,
  });
  await until(() => endpoint.forms.length === 1);
  await made.clock.advance(TOKEN_TIMEOUT_MS);
  await rejected;
  t.equal(made.clock.pending, 0);
});

t.test('only a certificate of the pinned CA is good', async (t) => {
  const ca = makeCertificate({ name: 'Token CA' });
  const tls = makeCertificate({ name: 'token', hosts: ['127.0.0.1'], issuer: ca });
  await using endpoint = await tokenEndpoint({ tls });
  using pinned = open(endpoint, ca.cert);
  t.match(await pinned.request(), { token: 'access-1' });
  using other = open(endpoint, makeCertificate({ name: 'Other CA' }).cert);
  await t.rejects(other.request(), {
    name: 'TokenError',
    message:
      /^the token endpoint does not answer: .* no authority that .*; see FIELDPOST_RELAY_OAUTH_CA_FILE$/,
  });
  t.equal(endpoint.forms.length, 1, 'nothing is sent to a stranger');
});
