/** Who may call (local-api §6): the whole matrix, since each of these headers is all that stands before a web page. */
import { type Test, test } from 'tap';
import type { ListenConfig } from '../../src/base/config/types.js';
import { HOUR_MS } from '../../src/base/limits.js';
import { type Answer, EMAIL, isProblem, MESSAGES, startApi, type TestApi } from '../support/api.js';
import { socketPath } from '../support/short-directory.js';

const DESTINATIONS = '/api/internal/offline_notification_destinations';
const PATHS = ['/healthz', '/api/internal/state', MESSAGES, '/metrics', '/openapi.json', '/none'];

/** The answer to a good POST with these headers instead of the usual Host. */
async function postWith(api: TestApi, headers: readonly string[], target = MESSAGES): Promise<Answer> {
  await using client = await api.connect();
  const body = JSON.stringify([EMAIL]);
  const head = [...headers, 'Content-Type: application/json', `Content-Length: ${body.length}`];
  client.write(`POST ${target} HTTP/1.1\r\n${head.join('\r\n')}\r\n\r\n${body}`);
  return await client.answer();
}

test('Host', async (t) => {
  await using api = await startApi({ settings: { allowedHosts: ['Gateway.lan', '[fe80::1]'] } });
  const good = [
    'localhost',
    'LocalHost:1',
    '127.0.0.1',
    '127.0.0.1:43770',
    '127.0.0.1:',
    '[::1]',
    '[::1]:80',
    'gateway.LAN',
    'gateway.lan:8080',
    '[FE80::1]:80',
  ];
  const bad = [
    '',
    'evil.example',
    'localhost.evil.example',
    'evil.example:43770',
    'localhost.',
    'localhost:80:80',
    'localhost:x',
    'localhost@evil.example',
    'evil@localhost',
    '127.0.0.2',
    '127.1',
    '0.0.0.0',
    '::1',
    '[::1',
    '[::2]',
    'xgateway.lan',
    'gateway.lan.',
    'localhost, evil.example',
    'localhost/x',
  ];
  for (const host of good) t.equal((await postWith(api, [`Host: ${host}`])).status, 202, host);
  t.equal((await postWith(api, [])).status, 202, 'none at all');
  const accepted = api.size;
  for (const host of bad) isProblem(t, await postWith(api, [`Host: ${host}`]), 403, 'not-local', host);
  for (const path of PATHS) {
    isProblem(t, await api.call('GET', path, { headers: { Host: 'evil.example' } }), 403, 'not-local', path);
  }
  for (const second of ['Host: localhost', 'hOST: evil.example']) {
    const both = await postWith(api, ['Host: localhost', second]);
    isProblem(t, both, 400, 'malformed-request', `and ${second}`);
  }

  const absolute = (authority: string) => `http://${authority}${MESSAGES}`;
  const evil = ['Host: localhost'];
  for (const authority of ['evil.example', 'localhost@evil.example', '']) {
    isProblem(t, await postWith(api, evil, absolute(authority)), 403, 'not-local', authority);
  }
  t.equal(api.size, accepted);
  const target = await postWith(api, ['Host: evil.example'], absolute('localhost'));
  t.equal(target.status, 202, 'the target counts');
});

test('Origin and Sec-Fetch-Site', async (t) => {
  await using api = await startApi({ settings: { allowedHosts: ['gateway.lan'] } });
  const host = 'Host: localhost:43770';
  const good = [
    [host, 'Origin: http://localhost:43770'],
    ['Host: Gateway.lan', 'Origin: http://gateway.lan'],
    [host, 'Sec-Fetch-Site: same-origin', 'Origin: http://LOCALHOST:43770'],
    ['Host: gateway.lan', 'Sec-Fetch-Site: same-origin', 'Origin: https://gateway.lan'],
    [host, 'Sec-Fetch-Site: none'],
  ];
  const bad = [
    [host, 'Origin: http://evil.example'],
    [host, 'Origin: http://localhost'],
    [host, 'Origin: http://localhost:8080'],
    [host, 'Origin: http://127.0.0.1:43770'],
    [host, 'Origin: https://localhost:43770'],
    ['Host: gateway.lan', 'Origin: https://gateway.lan:8443'],
    ['Host: gateway.lan', 'Origin: ftp://gateway.lan'],
    [host, 'Origin: null'],
    [host, 'Origin: '],
    [host, 'Origin: http://localhost:43770', 'Origin: http://evil.example'],
    ['Origin: http://localhost:43770'],
    ['Origin: http://undefined'],
    [host, 'Sec-Fetch-Site: cross-site'],
    [host, 'Sec-Fetch-Site: same-site'],
    [host, 'Sec-Fetch-Site: '],
    [host, 'Sec-Fetch-Site: same-origin', 'Sec-Fetch-Site: cross-site'],
    [host, 'Sec-Fetch-Site: cross-site', 'Origin: http://localhost:43770'],
  ];
  for (const headers of good) t.equal((await postWith(api, headers)).status, 202, headers.join(', '));
  for (const headers of bad) {
    isProblem(t, await postWith(api, headers), 403, 'not-local', headers.join(', '));
  }
  t.equal(api.size, good.length);
  const many = Array.from({ length: 2500 }, (_, i) => `${i.toString(36)}:`);
  const last = await postWith(api, [host, ...many, 'Origin: http://evil.example']);
  isProblem(t, last, 403, 'not-local', 'behind 2500 others');
  const preflight = await api.call('OPTIONS', MESSAGES, { headers: { Origin: 'http://evil.example' } });
  isProblem(t, preflight, 403, 'not-local', 'a preflight');
});

test('the token', async (t) => {
  await using api = await startApi({ settings: { apiToken: 's3cret-tökén' } });
  const call = (path: string, authorization?: string) =>
    api.call('GET', path, { headers: authorization === undefined ? {} : { Authorization: authorization } });
  const wrong = [undefined, '', 'Bearer', 'Bearer ', 'Bearer s3cret', 'Basic czNjcmV0', 's3cret'];
  for (const path of PATHS) {
    for (const authorization of wrong) {
      const answer = await call(path, authorization);
      if (path === '/healthz') t.equal(answer.status, 200, 'open to all');
      else {
        isProblem(t, answer, 401, 'unauthorized', `${path} ${authorization}`);
        t.equal(answer.headers['www-authenticate'], 'Bearer');
      }
    }
  }
  isProblem(t, await api.call('POST', '/healthz'), 401, 'unauthorized', 'only its GET');
  isProblem(t, await api.post([EMAIL]), 401, 'unauthorized', 'a post');
  isProblem(t, await api.post([EMAIL], { Host: 'evil.example' }), 403, 'not-local', 'Host goes before');
  t.equal(api.size, 0);
  await using plain = await startApi({ settings: { apiToken: 's3cret' } });
  for (const authorization of ['Bearer s3cret', 'bearer s3cret', 'Bearer  s3cret']) {
    t.equal((await plain.post([EMAIL], { Authorization: authorization })).status, 202, authorization);
  }
  for (const Authorization of ['Bearer s3cret x', 'Bearer S3CRET']) {
    isProblem(t, await plain.post([EMAIL], { Authorization }), 401, 'unauthorized', Authorization);
  }
});

test('wrong tokens: a line at once, then one an hour with their count', async (t) => {
  await using api = await startApi({ settings: { apiToken: 's3cret' } });
  const lines = () => api.lines.filter((line) => line.includes('wrong tokens'));
  const tries = async (count: number, headers: Record<string, string>) => {
    for (let n = 0; n < count; n++) t.equal((await api.call('GET', MESSAGES, { headers })).status, 401);
  };
  await tries(3, {});
  t.strictSame(lines(), [], 'a page that was opened without a token');
  await tries(20, { Authorization: 'Bearer guess' });
  t.match(lines(), [/^<4>wrong tokens count=1 peer=127\.0\.0\.1 path=\/api\/internal\/messages\n$/]);
  await api.clock.advance(HOUR_MS);
  t.match(lines().slice(1), [/wrong tokens count=19 /]);
  await api.clock.advance(5 * HOUR_MS);
  t.equal(lines().length, 2);
  await tries(1, { Authorization: 'Bearer guess' });
  t.match(lines().slice(2), [/wrong tokens count=1 /]);
  t.notMatch(api.lines.join(''), /guess/);
});

test('the unix socket asks for neither Host nor token, but web pages stay out', async (t) => {
  const listen: ListenConfig = { kind: 'unix', path: socketPath(t) };
  await using api = await startApi({ listen, settings: { apiToken: 's3cret' } });
  t.equal((await postWith(api, ['Host: whatever'])).status, 202);
  t.equal((await postWith(api, [])).status, 202);
  const page = ['Host: whatever', 'Origin: http://evil.example'];
  isProblem(t, await postWith(api, page), 403, 'not-local', 'Origin');
  isProblem(t, await postWith(api, ['Sec-Fetch-Site: cross-site']), 403, 'not-local', 'Sec-Fetch-Site');
});

/** What a program that may only send may do, and what not. */
async function isSendOnly(t: Test, api: TestApi, headers: Readonly<Record<string, string>>): Promise<void> {
  const posted = await api.post([EMAIL], headers);
  t.equal(posted.status, 202);
  const own = `${MESSAGES}/${posted.json[0].id}`;
  t.equal((await api.call('GET', own, { headers })).status, 200, 'what became of its message');
  t.equal((await api.call('GET', '/healthz', { headers })).status, 200);
  const refused = [
    `GET ${MESSAGES}`,
    `DELETE ${own}`,
    `POST ${own}/retry`,
    ...['flush', 'hold', 'release', 'purge'].map((what) => `POST /api/internal/queue/${what}`),
    ...['GET', 'POST'].map((method) => `${method} ${DESTINATIONS}`),
    ...['GET', 'PUT', 'DELETE'].map((method) => `${method} ${DESTINATIONS}/1`),
    ...['/api/internal/state', '/api/internal/history', '/metrics', '/openapi.json', '/none'].map(
      (path) => `GET ${path}`,
    ),
  ];
  for (const call of refused) {
    const [method = '', path = ''] = call.split(' ');
    isProblem(t, await api.call(method, path, { headers }), 403, 'forbidden', call);
  }
  t.equal(api.store.held, false);
  t.equal(api.size, 1);
}

test('a broken path tells nothing to a client without permission', async (t) => {
  await using api = await startApi({ settings: { apiToken: 's3cret' } });
  const call = (headers: Readonly<Record<string, string>>) => api.call('GET', '/%ff', { headers });
  isProblem(t, await call({ Host: 'evil.example' }), 403, 'not-local', 'a foreign name');
  isProblem(t, await call({}), 401, 'unauthorized', 'no token');
  isProblem(t, await call({ Authorization: 'Bearer s3cret' }), 400, 'malformed-request', 'who may');
});

test('the token for sending only', async (t) => {
  await using api = await startApi({ settings: { apiToken: 'operator', sendToken: 'program' } });
  await isSendOnly(t, api, { Authorization: 'Bearer program' });
  t.equal((await api.call('GET', MESSAGES, { headers: { Authorization: 'Bearer operator' } })).status, 200);
  isProblem(t, await api.post([EMAIL]), 401, 'unauthorized', 'none');
  isProblem(t, await api.post([EMAIL], { Authorization: 'Bearer other' }), 401, 'unauthorized', 'another');
});

test('the socket for sending only', async (t) => {
  const listen: ListenConfig = { kind: 'unix', path: socketPath(t), sendOnly: true };
  await using api = await startApi({ listen, settings: { apiToken: 'operator', sendToken: null } });
  await isSendOnly(t, api, {});
  const asOperator = await api.call('GET', MESSAGES, { headers: { Authorization: 'Bearer operator' } });
  isProblem(t, asOperator, 403, 'forbidden', 'whatever token is brought');
  const page = ['Host: whatever', 'Origin: http://evil.example'];
  isProblem(t, await postWith(api, page), 403, 'not-local', 'web pages stay out');
});
