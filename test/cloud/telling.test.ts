/** Each person is told once, even if the outbox is full or the power fails. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import t from 'tap';
import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import { until } from '../support/delivery.js';
import { FaultyDisk } from '../support/faulty-disk.js';
import { DESTINATIONS, DEVICE, JAN, startCloud, type TestCloud } from '../support/reference-cloud.js';
import { type FakeRelay, fakeRelay } from '../support/relay.js';
import { CLIENT_ID, CLIENT_SECRET, tokenEndpoint } from '../support/token-endpoint.js';

const through = (relay: FakeRelay) => ({ FIELDPOST_RELAY: `smtp://127.0.0.1:${relay.port}?tls=never` });

/** Stores a document with this many people, and sends a heartbeat of the device. */
async function watched(cloud: TestCloud, people: number): Promise<void> {
  const destinations = Array.from({ length: people }, (_, n) => ({
    ...JAN,
    uid: `${JAN.uid.slice(0, -3)}${String(n).padStart(3, '0')}`,
    destination: `person-${n}@example.com`,
  }));
  const headers = { 'If-None-Match': '*' };
  const { status } = await cloud.call('PUT', DESTINATIONS, { headers, body: { destinations } });
  if (status !== 204) throw new Error(`the document was answered ${status}`);
  await cloud.call('PUT', `${DEVICE}/heartbeat`, { body: { state: 'running' } });
}

/** Advances the cloud's clock until `holds` is true, by at most an hour. */
async function passUntil(cloud: TestCloud, holds: () => boolean): Promise<boolean> {
  for (let passedMs = 0; !holds() && passedMs < HOUR_MS; passedMs += SECOND_MS) {
    await cloud.clock.advance(SECOND_MS);
    await nextTurn();
  }
  return holds();
}

t.test('thirty people are told through an outbox of twenty, each once', async (t) => {
  await using relay = await fakeRelay();
  await using cloud = await startCloud({ env: { ...through(relay), FIELDPOST_MAX_QUEUE: '20' } });
  await watched(cloud, 30);
  t.ok(await passUntil(cloud, () => relay.mails.length >= 30), `${relay.mails.length} were told`);
  await cloud.clock.advance(5 * MINUTE_MS);
  const told = relay.mails.map(({ to }) => to[0]).sort();
  t.equal(told.length, 30);
  t.equal(new Set(told).size, 30);
});

t.test('a power cut after the relay took the mails sends none of them again', async (t) => {
  await using relay = await fakeRelay();
  const disk = new FaultyDisk({ directories: ['/var/lib'] });
  const cloud = await startCloud({ disk, env: through(relay) });
  await watched(cloud, 3);
  const sent = () => cloud.lines.filter((line) => /^<6>sent /.test(line)).length;
  // No time passes after the last outcome, so an outcome that waited for a later sync would be lost.
  await passUntil(cloud, () => cloud.lines.some((line) => line.includes('notified')));
  await until(() => sent() === 3);
  const next = disk.afterPowerCut('nothing');
  disk.cutPower();
  let isGone = false;
  void cloud.stop().then(
    () => undefined,
    () => {
      isGone = true;
    },
  );
  await passUntil(cloud, () => isGone);
  await using again = await startCloud({ disk: next, env: through(relay) });
  await passUntil(again, () => relay.mails.length > 3);
  t.equal(relay.mails.length, 3);
});

t.test('without a relay nobody is told by mail, and the log says so', async (t) => {
  await using cloud = await startCloud({ send: async () => ({ kind: 'taken', reply: 'shown' }) });
  await watched(cloud, 2);
  t.ok(await passUntil(cloud, () => cloud.lines.some((line) => line.includes('notified'))));
  t.match(cloud.lines.join(''), /notified device=pump-3 kind=silent unreachable=2\n/);
});

t.test('a relay may want an access token; its refresh token is kept with the cloud', async (t) => {
  await using endpoint = await tokenEndpoint({ refreshToken: 'refresh-0', rotates: true });
  const takes = (token: string) => endpoint.given.includes(token);
  await using relay = await fakeRelay({}, { user: 'cloud@x.test', mechanisms: 'XOAUTH2', takes });
  await using cloud = await startCloud({
    env: {
      ...through(relay),
      FIELDPOST_RELAY_USER: 'cloud@x.test',
      FIELDPOST_RELAY_OAUTH_TOKEN_URL: endpoint.url,
      FIELDPOST_RELAY_OAUTH_CLIENT_ID: CLIENT_ID,
      FIELDPOST_RELAY_OAUTH_CLIENT_SECRET: CLIENT_SECRET,
      FIELDPOST_RELAY_OAUTH_REFRESH_TOKEN_FILE: '/etc/refresh',
    },
    files: { '/etc/refresh': 'refresh-0\n' },
  });
  await watched(cloud, 1);
  await passUntil(cloud, () => cloud.lines.some((line) => line.includes('notified')));
  await relay.arrived(1);
  const kept = await cloud.disk.readWhole('/var/lib/fieldpost/cloud/relay-token.json');
  t.match(String(kept), '"token":"refresh-1"');
});
