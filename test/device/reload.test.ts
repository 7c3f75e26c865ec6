/** What a reload does with settings, good and bad. */
import t from 'tap';
import type { Environment } from '../../src/base/config/types.js';
import { MINUTE_MS } from '../../src/base/limits.js';
import { withSockets } from '../../src/device/daemon.js';
import { DEVICE_SETTINGS } from '../../src/device/settings.js';
import { LastSettings } from '../../src/mail/last-settings.js';
import { nextConfig, type Running, reload, Warnings } from '../../src/mail/serve.js';
import { FakeClock } from '../support/clock.js';
import { configOf, testSystem } from '../support/system.js';

/** A service that notes what it is given; `env` is what the next reload finds: an Error cannot be read. */
async function setUp() {
  const clock = new FakeClock();
  const { system, lines } = testSystem({ clock });
  const found: { env: Environment | Error } = { env: {} };
  const settings = {
    reread() {
      if (found.env instanceof Error) throw found.env;
      return found.env;
    },
  };
  const parse = (env: Environment, accepted: ReadonlySet<string>) =>
    DEVICE_SETTINGS.parse(env, () => '', { hostname: system.hostname() }, accepted);
  const { disk, log, version } = system;
  const last = await LastSettings.open({
    settings: DEVICE_SETTINGS,
    parse,
    mayFallBack: true,
    disk,
    log,
    directory: '/var/lib',
    version,
  });
  const given: number[] = [];
  const served = {
    async reload({ maxBatch }: { maxBatch: number }) {
      given.push(maxBatch);
      return { taken: ['FIELDPOST_MAX_BATCH'], waiting: ['FIELDPOST_HISTORY'] };
    },
  };
  const running: Running = { level: 'info', fault: null };
  const warnings = new Warnings(system, { sendsMail: true });
  const fileSystemBytes = async () => Number.POSITIVE_INFINITY;
  const again = async (env: Environment | Error) => {
    found.env = env;
    lines.length = 0;
    await reload({ served, settings, choice: last, running, system, warnings, fileSystemBytes });
    return lines.join('');
  };
  return { clock, running, given, again, last, next: () => nextConfig(settings, last) };
}

t.test('good settings are followed, kept for the next start, and logged with new warnings', async (t) => {
  const { running, given, again, last } = await setUp();
  const env = { FIELDPOST_MAX_BATCH: '2', FIELDPOST_LOG: 'debug' };
  t.match(await again(env), /reloaded taken=FIELDPOST_MAX_BATCH needsRestart=FIELDPOST_HISTORY\n.*no relay/);
  t.same([given, running], [[2], { level: 'debug', fault: null }]);
  t.match(last.choose({ FIELDPOST_LOG: 'loud' }, null), { env });
});

t.test('settings with a fault change nothing; the fault lasts until good ones come', async (t) => {
  const { clock, running, given, again, next } = await setUp();
  const sinceMs = clock.wallMs();
  t.match(await again({ FIELDPOST_LOG: 'loud' }), /reload refused reason=.*FIELDPOST_LOG=loud/);
  t.equal(next(), undefined);
  await clock.advance(MINUTE_MS);
  t.match(await again(new Error('no permission')), /reload refused reason="no permission"/);
  t.same([given, running], [[], { level: 'info', fault: { reason: 'no permission', sinceMs } }]);
  t.equal(next(), undefined);
  await again({ FIELDPOST_MAX_BATCH: '3' });
  t.same([given, running.fault], [[3], null]);
  t.equal(next()?.maxBatch, 3);
});

t.test('sockets from systemd replace only the default listener', async (t) => {
  const handed = [{ fd: 3, use: 'api' as const }];
  const set = { FIELDPOST_LISTEN: '127.0.0.1:0' };
  const config = configOf(set);
  t.same(withSockets(config, {}, handed).listen, []);
  t.equal(withSockets(config, set, handed), config);
  for (const none of [[], undefined]) t.equal(withSockets(config, {}, none), config);
});
