/** The whole daemon, a cloud and a relay over sockets: a program falls silent, and gives signs again after a restart. */
import PostalMime from 'postal-mime';
import t from 'tap';
import { addressOf } from '../../src/base/config/endpoints.js';
import { HOUR_MS, SECOND_MS } from '../../src/base/limits.js';
import { createDaemon } from '../../src/device/daemon.js';
import { apiAt } from '../support/ask.js';
import { FakeClock } from '../support/clock.js';
import { DEVICE, type FakeCloud, fakeCloud, KEY } from '../support/cloud.js';
import { until } from '../support/delivery.js';
import { FaultyDisk } from '../support/faulty-disk.js';
import { fakeRelay } from '../support/relay.js';
import { STATE_DIR } from '../support/store.js';
import { configOf, testSystem } from '../support/system.js';

const PERSON = { type: 1, destination: 'ewa@example.com', lang: 'pl', name: 'Ewa' };
const PHONE = { type: 2, destination: '+31612345678', lang: 'nl', name: 'Jan' };
const SIGN = 'alive/plc-reader?within=10s';

/** A device that has been up for an hour, so that it calls the cloud at once. */
async function start(disk: FaultyDisk, clock: FakeClock, cloud: FakeCloud, relay: string) {
  const { system, lines } = testSystem({ disk, clock });
  const place = { FIELDPOST_CLOUD: cloud.url, FIELDPOST_DEVICE_ID: DEVICE, FIELDPOST_CLOUD_KEY: KEY };
  const daemon = await createDaemon(
    configOf({ FIELDPOST_STATE_DIR: STATE_DIR, FIELDPOST_RELAY: relay, ...place }),
    system,
  );
  await until(() => lines.some((line) => line.includes('link online')));
  const state = async () => (await call('state')).json.alive;
  const call = apiAt(daemon.addresses.map(addressOf).join());
  return { daemon, lines, call, state };
}

const lateIn = ({ calls }: FakeCloud) =>
  calls.filter(({ path }) => path === 'heartbeat').map(({ body }) => body?.late);

t.test(
  'a program falls silent: people, cloud and state know it at once; a restart tells nothing anew',
  async (t) => {
    await using cloud = await fakeCloud();
    await using relay = await fakeRelay();
    const disk = new FaultyDisk({ directories: ['/var/lib'] });
    const clock = new FakeClock({ bootMs: HOUR_MS });
    const first = await start(disk, clock, cloud, relay.url);
    for (const one of [PERSON, PHONE]) await first.call('offline_notification_destinations', one, 'POST');
    t.equal((await first.call(SIGN, undefined, 'PUT')).status, 201);
    t.equal((await first.call(SIGN, undefined, 'PUT')).status, 204);
    await clock.advance(9 * SECOND_MS);
    t.same(await first.state(), { count: 1, late: [] });
    await clock.advance(SECOND_MS);
    t.same(await first.state(), { count: 1, late: ['plc-reader'] });
    await until(() => lateIn(cloud).at(-1) !== undefined);
    t.same(lateIn(cloud).at(-1), ['plc-reader'], 'not only with the next heartbeat');
    await until(() => relay.mails.length === 1 && cloud.calls.some(({ path }) => path === 'messages'));
    const { subject } = await PostalMime.parse(relay.mails[0]?.content ?? '');
    t.equal(subject, 'device.example: plc-reader nie daje znaku od 10 s');
    t.match(
      cloud.calls.find(({ path }) => path === 'messages'),
      { body: { type: 2, message: 'device.example: plc-reader geeft al 10 s geen teken van leven' } },
    );
    await first.daemon.stop();

    const second = await start(disk, clock, cloud, relay.url);
    t.same(await second.state(), { count: 1, late: ['plc-reader'] });
    await clock.advance(20 * SECOND_MS);
    t.equal((await second.call(SIGN, undefined, 'PUT')).status, 204);
    t.same(await second.state(), { count: 1, late: [] });
    await until(() => lateIn(cloud).at(-1) === undefined);
    await until(() => relay.mails.length === 2);
    const back = await PostalMime.parse(relay.mails[1]?.content ?? '');
    t.equal(back.subject, 'device.example: plc-reader znowu daje znak, po 30 s');
    t.equal((await second.call('alive/plc-reader', undefined, 'DELETE')).status, 204);
    await second.daemon.stop();
  },
);
