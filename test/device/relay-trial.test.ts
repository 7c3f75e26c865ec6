/** The trial of the relays over the local API: the whole daemon, beside its queue. */
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import t, { type Test } from 'tap';
import { addressOf } from '../../src/base/config/endpoints.js';
import type { Environment } from '../../src/base/config/types.js';
import { systemClock } from '../../src/base/system/clock.js';
import { systemDisk } from '../../src/base/system/disk.js';
import { createDaemon } from '../../src/device/daemon.js';
import { apiAt } from '../support/ask.js';
import { fakeRelay } from '../support/relay.js';
import { configOf, testSystem } from '../support/system.js';

/** A daemon with these settings; gives a function that tries its relays. */
async function start(t: Test, env: Environment) {
  const { system } = testSystem({ disk: systemDisk(), clock: systemClock() });
  const daemon = await createDaemon(configOf({ FIELDPOST_STATE_DIR: t.testdir(), ...env }), system);
  t.teardown(() => daemon.stop());
  const api = apiAt(daemon.addresses.map(addressOf).join());
  return { state: async () => (await api('state')).json, trial: () => api('relay/trial', undefined, 'POST') };
}

t.test('each relay is tried as delivery speaks with it, and gets no mail', async (t) => {
  await using good = await fakeRelay();
  await using bad = await fakeRelay({ ehlo: () => '554 5.7.1 We do not know you' });
  const daemon = await start(t, { FIELDPOST_RELAY: `${good.url},${bad.url}` });
  const { status, json } = await daemon.trial();
  t.equal(status, 200);
  const [first, second] = json.relays;
  t.match(first, { relay: good.url, fault: null });
  t.match(
    first.steps.map(({ step }: { step: string }) => step),
    ['connection', 'greeting', 'EHLO', 'TLS', 'login'],
  );
  t.match(second.fault, { words: /554 5\.7\.1 We do not know you/ });
  t.same([good.mails, bad.mails], [[], []]);
  t.notOk(good.commands.some((line) => line.startsWith('MAIL')));
  const { relay } = await daemon.state();
  t.match(relay, { state: 'unknown', name: `127.0.0.1:${good.port}`, lastSentAt: null });
});

t.test('one trial at a time', async (t) => {
  const silent = createServer().listen(0, '127.0.0.1');
  await once(silent, 'listening');
  t.teardown(() => silent.close());
  const { port } = silent.address() as { port: number };
  const daemon = await start(t, { FIELDPOST_RELAY: `smtp://127.0.0.1:${port}?tls=never` });
  for (let round = 0; round < 2; round++) {
    const connected = once(silent, 'connection');
    const first = daemon.trial();
    const [socket] = (await connected) as [Socket];
    const second = await daemon.trial();
    t.match([second.status, second.json.detail], [503, 'The relay is being tried already']);
    socket.destroy();
    t.match((await first).json.relays, [{ steps: Array, fault: { blame: 'relay', words: /./ } }]);
  }
});

t.test('without a relay there is none to try', async (t) => {
  const { status, json } = await (await start(t, {})).trial();
  t.same([status, json], [200, { relays: [] }]);
});
