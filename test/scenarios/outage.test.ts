/**
 * A device loses its power and the people in its address book get mails: the real daemon, the reference cloud and the
 * mail catcher, wired as in `fieldpost dev`. Both clocks are fake: without power the device's clock stands still.
 */
import t from 'tap';
import { addressOf } from '../../src/base/config/endpoints.js';
import { MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import { systemDisk } from '../../src/base/system/disk.js';
import { systemLock } from '../../src/base/system/lock.js';
import { createCloud } from '../../src/cloud/cloud.js';
import { startDev } from '../../src/dev/dev.js';
import { createDaemon } from '../../src/device/daemon.js';
import { ask } from '../support/ask.js';
import { FakeClock, withoutPauses } from '../support/clock.js';
import { until } from '../support/delivery.js';
import { EWA, JAN } from '../support/reference-cloud.js';
import { configOf, testSystem } from '../support/system.js';

const DELAY_MS = 90 * SECOND_MS;

t.test('people get a mail when the device loses its power, and one when it is back', async (t) => {
  const clock = new FakeClock();
  const deviceClock = new FakeClock();
  const printed: string[] = [];
  const { system, lines } = testSystem({ disk: systemDisk(), takeLock: systemLock, clock });
  const env = {
    FIELDPOST_STATE_DIR: t.testdir(),
    FIELDPOST_CLOUD_SERVER_TIME_ZONE: 'Europe/Warsaw',
  };
  let url = '';
  let api = '';
  const dev = await startDev({
    config: configOf(env),
    ...system,
    clock: withoutPauses(clock),
    inboxPort: 0,
    print: (text) => printed.push(text),
    async startCloud(config, send) {
      const cloud = await createCloud(config, system, send);
      const address = cloud.addresses.map(addressOf).join();
      url = `http://${address}/devices`;
      return { address, stop: cloud.stop };
    },
    async startDaemon(config) {
      const daemon = await createDaemon(config, { ...system, clock: deviceClock });
      api = `http://${daemon.addresses.map(addressOf).join()}`;
      return { address: daemon.addresses.map(addressOf).join(), stop: daemon.stop };
    },
  });
  const headers = { Authorization: 'Bearer any' };
  const put = await ask(`${url}/dev/destinations`, 'PUT', {
    headers: { ...headers, 'If-None-Match': '*' },
    body: { name: 'Pomp 3', destinations: [JAN] },
  });
  t.equal(put.status, 204);
  const { uid: _, ...ewa } = EWA;
  const edit = async (method: string, id: string, body: object) =>
    (await ask(`${api}/api/internal/offline_notification_destinations${id}`, method, { body })).json;
  const document = async () => (await ask(`${url}/dev/destinations`, 'GET', { headers })).text;
  const synced = async (words: string) => {
    while (!(await document()).includes(words)) await deviceClock.advance(SECOND_MS);
    t.match(await document(), '"name":"Pomp 3"', 'the device keeps members that it does not know');
  };
  const { id } = await edit('POST', '', { ...ewa, name: 'Ewa' });
  await synced('"name":"Ewa"');
  await edit('PUT', `/${id}`, { ...ewa, name: 'Ewa K.' });
  await synced('"name":"Ewa K."');
  const heardMs = async () => {
    const { json } = await ask(url, 'GET', { headers });
    return Date.parse(json.devices[0]?.lastHeartbeat);
  };
  while ((await heardMs()) !== clock.wallMs());

  await clock.advance(DELAY_MS + 9 * SECOND_MS);
  const mails = () => printed.slice(1);
  await until(() => mails().length === 2);
  const dutch = mails().find((mail) => mail.includes('jan@example.com'));
  t.match(dutch, /Subject: Pomp 3 is offline\n/);
  t.match(dutch, /Laatste signaal: 20 november 2026 om 10:00 uur \(UTC\+01:00\)/);
  const polish = mails().find((mail) => mail.includes('ewa@example.com'));
  t.match(polish, /Subject: Pomp 3 jest offline\n/);
  t.match(polish, /Ostatni sygnał: 20 listopada 2026 r\., godz\. 10:00 \(UTC\+01:00\)/);

  await clock.advance(22 * MINUTE_MS - DELAY_MS - 9 * SECOND_MS);
  t.equal(mails().length, 2);
  await deviceClock.advance(22 * MINUTE_MS);
  while ((await heardMs()) !== clock.wallMs());
  await clock.advance(SECOND_MS);
  await until(() => mails().length === 4);
  const back = mails().slice(2).join('');
  t.match(back, /Subject: Pomp 3 is weer online\n/);
  t.match(back, /Duur van de onderbreking: 22 minuten/);
  t.match(back, /Czas trwania przerwy: 22 minuty/);
  await dev.stop();
  t.match(lines.join(''), /cloud stopped/);
});
