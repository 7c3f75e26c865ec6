/** Each person is told once, even if the outbox is full or the power fails. */
import t from 'tap';
import { MINUTE_MS } from '../../src/base/limits.js';
import { until } from '../support/delivery.js';
import { FaultyDisk } from '../support/faulty-disk.js';
import { entry, startCloud, type TestCloud, through } from '../support/reference-cloud.js';
import { fakeRelay } from '../support/relay.js';
import { CLIENT_ID, CLIENT_SECRET, tokenEndpoint } from '../support/token-endpoint.js';

/** Stores a document with this many people, and sends a heartbeat of the device. */
async function watched(cloud: TestCloud, people: number): Promise<void> {
  const destinations = Array.from({ length: people }, (_, n) =>
    entry(n, { destination: `person-${n}@example.com` }),
  );
  const { status } = await cloud.putFirst({ destinations });
  if (status !== 204) throw new Error(`the document was answered ${status}`);
  await cloud.beat();
}

const isNotified = ({ lines }: TestCloud) => lines.some((line) => line.includes('notified'));

t.test('thirty people are told through an outbox of twenty, each once', async (t) => {
  await using relay = await fakeRelay();
  await using cloud = await startCloud({ env: { ...through(relay), FIELDPOST_MAX_QUEUE: '20' } });
  await watched(cloud, 30);
  t.ok(await cloud.passUntil(() => relay.mails.length >= 30), `${relay.mails.length} were told`);
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
  await cloud.passUntil(() => isNotified(cloud));
  await until(() => sent() === 3);
  const next = disk.afterPowerCut('nothing');
  disk.cutPower();
  let isGone = false;
  const isEnding = t.rejects(cloud.stop()).then(() => {
    isGone = true;
  });
  await cloud.passUntil(() => isGone);
  await isEnding;
  await using again = await startCloud({ disk: next, env: through(relay) });
  await again.passUntil(() => relay.mails.length > 3);
  t.equal(relay.mails.length, 3);
});

t.test('without a relay nobody is told by mail, and the log says so', async (t) => {
  await using cloud = await startCloud({ send: async () => ({ kind: 'taken', reply: 'shown' }) });
  await watched(cloud, 2);
  t.ok(await cloud.passUntil(() => isNotified(cloud)));
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
  await cloud.passUntil(() => isNotified(cloud));
  await relay.arrived(1);
  const kept = await cloud.disk.readWhole('/var/lib/fieldpost/cloud/relay-token.json');
  t.match(String(kept), '"token":"refresh-1"');
});
