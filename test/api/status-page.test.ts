import t from 'tap';
import { addressOf } from '../../src/base/config/endpoints.js';
import type { ListenConfig } from '../../src/base/config/types.js';
import { startApi } from '../support/api.js';

t.test('the status page: for every local caller, with the policy that it needs', async (t) => {
  await using api = await startApi();
  const { status, headers, body } = await api.call('GET', '/');
  t.equal(status, 200);
  t.equal(headers['content-type'], 'text/html; charset=utf-8');
  t.equal(headers['x-content-type-options'], 'nosniff');
  t.equal(headers['referrer-policy'], 'no-referrer');
  const policy = headers['content-security-policy'] ?? '';
  for (const part of [
    "default-src 'none'",
    "connect-src 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
  ]) {
    t.ok(policy.split('; ').includes(part), part);
  }
  t.notMatch(policy, /unsafe|\*|https?:/);
  t.notMatch(body, /<html[^>]+data-token/);
});

t.test('the status page: packed for browsers, plain for who does not ask', async (t) => {
  await using api = await startApi();
  const plain = await api.call('GET', '/');
  t.equal(plain.headers['content-encoding'], undefined);
  for (const [asked, isPacked] of [
    ['gzip, deflate, br', true],
    ['br, gzip;q=0.5', true],
    ['gzip;q=0, identity', false],
    ['br', false],
  ] as const) {
    const answer = await fetch(`http://${addressOf(api.listeners.addresses[0] as ListenConfig)}/`, {
      headers: { 'Accept-Encoding': asked },
    });
    t.equal(answer.headers.get('content-encoding'), isPacked ? 'gzip' : null, asked);
    t.equal(answer.headers.get('vary'), 'Accept-Encoding');
    t.equal(await answer.text(), plain.body);
  }
});

t.test('the status page: it asks for a token where calls need one, and needs none itself', async (t) => {
  await using api = await startApi({ settings: { apiToken: 'a-long-enough-token' } });
  const page = await api.call('GET', '/');
  t.equal(page.status, 200);
  t.match(page.body, /<html[^>]+data-token/);
});

t.test('the status page: a page from elsewhere does not get it', async (t) => {
  await using api = await startApi();
  for (const headers of [
    { Host: 'evil.example' },
    { 'Sec-Fetch-Site': 'cross-site' },
    { Origin: 'http://evil.example' },
  ]) {
    t.equal((await api.call('GET', '/', { headers })).status, 403, JSON.stringify(headers));
  }
});
