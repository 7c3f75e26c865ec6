/** The operator's page of the reference cloud, and since when a device is in its state. */
import t from 'tap';
import { MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import { FakeClock } from '../support/clock.js';
import { durable } from '../support/durable.js';
import { FaultyDisk } from '../support/faulty-disk.js';
import { startCloud, type TestCloud } from '../support/reference-cloud.js';

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

/** The state of pump-3, and since when. */
async function sinceOf(cloud: TestCloud): Promise<readonly [state: string, since: string | null]> {
  const { json } = await cloud.call('GET', '/devices');
  return [json.devices[0].state, json.devices[0].since];
}

t.test('since: the first heartbeat, the last one, the return, the move, the return from there', async (t) => {
  const clock = new FakeClock();
  await using cloud = await startCloud({ clock });
  const beat = (state: string) => cloud.call('PUT', '/devices/pump-3/heartbeat', { body: { state } });
  const now = () => new Date(clock.wallMs()).toISOString();
  const first = now();
  await beat('running');
  t.same(await sinceOf(cloud), ['online', first]);
  await clock.advance(MINUTE_MS);
  await beat('running');
  t.same(await sinceOf(cloud), ['online', first], 'more heartbeats change nothing');
  const last = now();
  for (let minute = 0; minute < 10; minute++) await clock.advance(MINUTE_MS);
  t.same(await sinceOf(cloud), ['offline', last]);
  const back = now();
  await beat('running');
  t.same(await sinceOf(cloud), ['online', back]);
  await clock.advance(SECOND_MS);
  const moved = now();
  await beat('moved');
  await clock.advance(SECOND_MS);
  await beat('moved');
  t.same(await sinceOf(cloud), ['moved', moved]);
  await clock.advance(SECOND_MS);
  const again = now();
  await beat('stopping');
  t.same(await sinceOf(cloud), ['online', again]);
});

t.test('since: it survives a restart; a file of an earlier version does not have it', async (t) => {
  const disk = new FaultyDisk({ directories: ['/var/lib'] });
  const clock = new FakeClock();
  const cloud = await startCloud({ disk, clock });
  const first = new Date(clock.wallMs()).toISOString();
  await cloud.call('PUT', '/devices/pump-3/heartbeat', { body: { state: 'running' } });
  await clock.advance(MINUTE_MS);
  await cloud.call('PUT', '/devices/pump-3/heartbeat', { body: { state: 'running' } });
  await cloud.stop();
  const again = await startCloud({ disk, clock });
  t.same(await sinceOf(again), ['online', first]);
  await again.stop();

  const path = '/var/lib/fieldpost/cloud/presence.json';
  type Kept = Record<string, { since?: unknown }>;
  const file = durable<Kept | null>(disk, path);
  const kept = await file.read();
  delete kept?.['pump-3']?.since;
  await file.write(kept);
  await using earlier = await startCloud({ disk, clock });
  t.same(await sinceOf(earlier), ['online', null]);
});
