/** The daemon behind a proxy: the state tells its faults, and a reload follows the setting. */
import t from 'tap';
import { addressOf } from '../../src/base/config/endpoints.js';
import { createDaemon } from '../../src/device/daemon.js';
import { apiAt } from '../support/ask.js';
import { makeCertificate } from '../support/certificate.js';
import { FakeClock } from '../support/clock.js';
import { DEVICE, fakeCloud, KEY } from '../support/cloud.js';
import { until } from '../support/delivery.js';
import { fakeProxy } from '../support/proxy.js';
import { configOf, testSystem } from '../support/system.js';

t.test('a corrected password holds at once after a reload, and no text shows any', async (t) => {
  const ca = makeCertificate({ name: 'Test CA' });
  const server = makeCertificate({ name: 'cloud', hosts: ['127.0.0.1'], issuer: ca });
  await using cloud = await fakeCloud(server);
  await using proxy = await fakeProxy({ login: 'pump-3:right' });
  const clock = new FakeClock({ bootMs: 3_600_000, wallMs: Date.now() });
  const { system, lines } = testSystem({ clock });
  const settings = (password: string) =>
    configOf(
      {
        FIELDPOST_STATE_DIR: '/var/lib/fieldpost',
        FIELDPOST_CLOUD: cloud.url,
        FIELDPOST_DEVICE_ID: DEVICE,
        FIELDPOST_CLOUD_KEY: KEY,
        FIELDPOST_CLOUD_CA_FILE: '/ca',
        FIELDPOST_CLOUD_PROXY: `http://pump-3:${password}@127.0.0.1:${proxy.port}`,
      },
      () => ca.cert,
    );
  const daemon = await createDaemon(settings('wrong'), system);
  const state = async () => (await apiAt(daemon.addresses.map(addressOf).join())('state')).json;
  await clock.advance(30_000);
  await until(() => lines.some((line) => line.includes('link ')));
  const { link } = await state();
  t.match(link.reason, `the proxy 127.0.0.1:${proxy.port} refuses our password (407)`);
  t.equal(cloud.calls.length, 0);
  t.match(await daemon.reload(settings('right')), { taken: ['FIELDPOST_CLOUD_PROXY'], waiting: [] });
  await until(() => lines.some((line) => line.includes('link online')));
  t.notMatch(lines.join() + JSON.stringify(await state()), /wrong|right/);
  await daemon.stop();
});
