/** The whole daemon and a cloud, over sockets: quiet over a restart, a last word beside a heartbeat that hangs, drills. */
import { randomBytes } from 'node:crypto';
import { access } from 'node:fs/promises';
import { uptime } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { addressOf } from '../../src/base/config/endpoints.js';
import { HOUR_MS, SECOND_MS } from '../../src/base/limits.js';
import { systemClock } from '../../src/base/system/clock.js';
import { systemDisk } from '../../src/base/system/disk.js';
import { systemLock } from '../../src/base/system/lock.js';
import { createDaemon, type Daemon } from '../../src/device/daemon.js';
import { apiAt } from '../support/ask.js';
import { settled } from '../support/clock.js';
import { DEVICE, type FakeCloud, fakeCloud, KEY, problem } from '../support/cloud.js';
import { until } from '../support/delivery.js';
import { configOf, testSystem } from '../support/system.js';

const BOOK = 'offline_notification_destinations';

/** A device that has been up for an hour, so that it calls the cloud at once. */
async function start(FIELDPOST_STATE_DIR: string, cloud: FakeCloud) {
  const clock = systemClock({ uptimeS: () => uptime() + HOUR_MS / SECOND_MS });
  const disk = systemDisk();
  // Slow enough that a stop must wait for it.
  const remove = async (path: string) => {
    for (let turn = 0; turn < 1000; turn++) await settled();
    await disk.remove(path);
  };
  const slow = { ...disk, remove };
  const { system, lines } = testSystem({ disk: slow, takeLock: systemLock, clock, randomBytes });
  const place = { FIELDPOST_CLOUD: cloud.url, FIELDPOST_DEVICE_ID: DEVICE, FIELDPOST_CLOUD_KEY: KEY };
  const daemon: Daemon = await createDaemon(configOf({ FIELDPOST_STATE_DIR, ...place }), system);
  return { daemon, lines, call: apiAt(daemon.addresses.map(addressOf).join()) };
}

const beats = ({ calls }: FakeCloud) => calls.filter(({ path }) => path === 'heartbeat');
const isThere = (path: string) =>
  access(path).then(
    () => true,
    () => false,
  );

t.test('quiet: the cloud hears it at once; a restart remembers it and does not say it again', async (t) => {
  await using cloud = await fakeCloud();
  const directory = t.testdir();
  const file = join(directory, 'quiet.json');
  const first = await start(directory, cloud);
  await until(() => first.lines.some((line) => line.includes('link online')));
  const begun = await first.call('quiet', { for_s: 7200, why: 'battery swap' }, 'PUT');
  t.match(begun.json, { why: 'battery swap', known_to_cloud: true, reason: null });
  t.match(beats(cloud).at(-1)?.body, { why: 'battery swap', state: 'running' });
  const { quietMs } = beats(cloud).at(-1)?.body ?? {};
  t.ok(quietMs > 7_199_000 && quietMs <= 7_200_000, quietMs);
  t.match(first.daemon.status(), /^quiet until \d{4}-\d\d-\d\d \d\d:\d\d UTC \(battery swap\), /);
  await first.daemon.stop();
  t.notOk('quietMs' in (beats(cloud).at(-1)?.body ?? {}), 'the goodbye has nothing to say of it');
  t.ok(await isThere(file));

  const before = beats(cloud).length;
  const second = await start(directory, cloud);
  await until(() => second.lines.some((line) => line.includes('link online')));
  t.match((await second.call('state')).json.quiet, { why: 'battery swap', known_to_cloud: true });
  t.notOk(
    beats(cloud)
      .slice(before)
      .some(({ body }) => 'quietMs' in body),
    'the cloud knows it',
  );
  cloud.answer = ({ path }) => (path === 'heartbeat' ? problem(503, 'not now') : undefined);
  const ended = await second.call('quiet', undefined, 'DELETE');
  t.match(ended.json, { until: null, known_to_cloud: false, reason: /not now/ });
  cloud.answer = () => undefined;
  await second.daemon.stop();
  t.match(beats(cloud).at(-1)?.body, { state: 'stopping', quietMs: 0 }, 'the goodbye tells it');
  t.notOk(await isThere(file), 'and it is forgotten once the cloud has heard it');
});

t.test('a last word passes a heartbeat that hangs', async (t) => {
  await using cloud = await fakeCloud();
  cloud.answer = ({ path, body }) => (path === 'heartbeat' && !body.last ? 'silence' : undefined);
  const { daemon, call } = await start(t.testdir(), cloud);
  await until(() => beats(cloud).length === 1);
  const said = await call('lastword', { text: 'mains failed, battery 10 min' }, 'PUT');
  t.same([said.status, said.json], [200, { delivered: true }]);
  t.match(
    beats(cloud).map(({ body }) => body.last),
    [undefined, 'mains failed, battery 10 min'],
  );
  t.match((await call('state')).json.link, { state: 'online' });
  cloud.answer = ({ path }) => (path === 'heartbeat' ? 'reset' : undefined);
  const failed = await call('lastword', { text: 'x' }, 'PUT');
  t.equal(failed.status, 503);
  t.match(failed.json.detail, /The cloud has not heard it: 127\.0\.0\.1: the connection was lost/);
  await daemon.stop();
});

t.test('a drill goes to the cloud, for one person with the uid; an old cloud has none', async (t) => {
  await using cloud = await fakeCloud();
  const { daemon, call, lines } = await start(t.testdir(), cloud);
  await call(BOOK, { type: 1, destination: 'john@example.com', lang: 'en', name: 'John' });
  await until(() => lines.some((line) => line.includes('destinations synced')));
  await until(() => (cloud.screen.entries ?? []).length === 1);
  const [{ uid }] = cloud.screen.entries as [{ uid: string }];
  cloud.answer = ({ path, body }) =>
    path === 'drill' ? { status: 202, body: { people: body.uid === undefined ? 1 : 7 } } : undefined;
  t.same((await call('drill', undefined, 'POST')).json, { people: 1 });
  t.same((await call(`${BOOK}/1/test`, undefined, 'POST')).json, { people: 7 });
  t.same(
    cloud.calls.flatMap(({ path, method, body }) => (path === 'drill' ? [[method, body]] : [])),
    [
      ['POST', {}],
      ['POST', { uid }],
    ],
  );
  cloud.answer = ({ path }) => (path === 'drill' ? problem(404, 'There is nothing here') : undefined);
  const old = await call('drill', undefined, 'POST');
  t.same([old.status, old.json.detail], [501, 'This cloud has no drill']);
  await daemon.stop();
});
