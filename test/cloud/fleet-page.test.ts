/** The operator's page of the reference cloud. */
import t from 'tap';
import { startCloud } from '../support/reference-cloud.js';

t.test('the page has no data in it, and the policy that it needs', async (t) => {
  await using cloud = await startCloud();
  await cloud.call('PUT', '/devices/pump-3/heartbeat', { body: { state: 'running' } });
  const { status, headers, text } = await cloud.call('GET', '/', { key: null });
  t.equal(status, 200);
  t.equal(headers.get('content-type'), 'text/html; charset=utf-8');
  const policy = headers.get('content-security-policy') ?? '';
  for (const part of ["default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'"]) {
    t.ok(policy.split('; ').includes(part), part);
  }
  t.notMatch(policy, /unsafe|\*|https?:|frame-src/);
  t.notMatch(text, /pump-3/);
  t.notMatch(text, /<html[^>]+data-token/, 'any key opens: it does not ask for one');
});

t.test("with keys the page is for everybody, and asks for the operator's key", async (t) => {
  await using cloud = await startCloud({ keys: 'pump-3 three\n* boss\n' });
  const Host = 'cloud.example';
  const { status, text } = await cloud.call('GET', '/', { key: null, headers: { Host } });
  t.equal(status, 200);
  t.match(text, /<html[^>]+data-token/);
  t.equal((await cloud.call('GET', '/devices', { key: null })).status, 401);
  t.equal((await cloud.call('GET', '/devices/pump-3/destinations', { key: null })).status, 401);
  t.equal((await cloud.call('GET', '/devices/pump-3/destinations', { key: 'boss' })).status, 404);
});
