/** The generator of a fleet's heartbeats: against the reference cloud, and against servers that fail as a test says. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import t, { type Test } from 'tap';
import { HEARTBEAT_TIMEOUT_MS, LINK_SPREAD_MS, SECOND_MS } from '../../src/limits.js';
import { FakeClock, settled } from './clock.js';
import { FleetLoad, type FleetLoadOptions, fleetId } from './fleet-load.js';
import { seededRandom } from './random.js';
import { startCloud } from './reference-cloud.js';

const HEARTBEAT_MS = 30 * SECOND_MS;

/** A server whose answers a test gives, and what it was asked. */
async function fakeServer(t: Test) {
  const made = {
    asked: [] as { readonly path: string; readonly said: Record<string, unknown> }[],
    answer: (_req: IncomingMessage, res: ServerResponse) => void res.end('{}'),
    connections: 0,
    url: '',
    async close() {
      server.close();
      await once(server, 'close');
    },
  };
  const server = createServer(async (req, res) => {
    let text = '';
    for await (const chunk of req) text += chunk;
    made.asked.push({ path: req.url ?? '', said: JSON.parse(text) });
    made.answer(req, res);
  });
  server.on('connection', () => made.connections++);
  await once(server.listen(0, '127.0.0.1'), 'listening');
  made.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return made;
}

function bench(t: Test, urls: readonly string[], options: Partial<FleetLoadOptions> = {}) {
  const clock = new FakeClock();
  const given = { urls, devices: 1, heartbeatMs: HEARTBEAT_MS, random: seededRandom(7), clock, ...options };
  const fleet = new FleetLoad(given);
  t.teardown(() => fleet[Symbol.asyncDispose]());
  return { clock, fleet, device: fleet.devices[0] as FleetLoad['devices'][number] };
}

async function answered(fleet: FleetLoad): Promise<void> {
  while (fleet.underWay > 0) await settled();
}

/** Lets time pass as the devices see it: answers come over real sockets, and take none of it. */
async function pass(clock: FakeClock, fleet: FleetLoad, ms: number): Promise<void> {
  const endMs = clock.bootMs() + ms;
  await answered(fleet);
  while (clock.bootMs() < endMs) {
    await clock.advance(Math.min(endMs - clock.bootMs(), clock.nextInMs ?? ms));
    await answered(fleet);
  }
}

const beats = ({ asked }: { readonly asked: readonly unknown[] }) => asked.length;

t.test('the cloud knows each device by its heartbeats, which come once an interval', async (t) => {
  await using cloud = await startCloud();
  const devices = 50;
  const { clock, fleet } = bench(t, [cloud.url], { devices, connections: 3 });
  fleet.start();
  await pass(clock, fleet, HEARTBEAT_MS);
  const { json } = await cloud.call('GET', '/devices');
  const { devices: known } = json as { devices: { id: string; state: string }[] };
  t.strictSame(
    known.map(({ id }) => id).sort(),
    Array.from({ length: devices }, (_, index) => fleetId(index)),
  );
  t.strictSame([...fleet.counts], [['200', devices]], 'one of each in the first interval');
  for (const { okMs, tries } of fleet.devices)
    t.match(tries, [{ url: cloud.url, state: 'running', sentMs: Number, okMs }]);
  await pass(clock, fleet, 10 * 1.1 * HEARTBEAT_MS);
  t.ok((fleet.counts.get('200') ?? 0) >= 11 * devices, `${fleet.counts.get('200')} in eleven intervals`);
});

t.test('devices have a boot each, and share few connections', async (t) => {
  const server = await fakeServer(t);
  const { fleet } = bench(t, [server.url], { devices: 20, connections: 2 });
  for (const device of fleet.devices) device.start();
  await answered(fleet);
  t.equal(new Set(server.asked.map(({ said }) => said.bootId)).size, 20);
  t.equal(server.connections, 2);
});

t.test(
  'a silent device sends nothing, not even a goodbye; it resumes with the same boot or a new one',
  async (t) => {
    const server = await fakeServer(t);
    const { clock, fleet, device } = bench(t, [server.url]);
    device.start();
    await pass(clock, fleet, SECOND_MS);
    const { okMs } = device;
    device.silence();
    t.equal(device.silentMs, clock.bootMs());
    await pass(clock, fleet, 10 * HEARTBEAT_MS);
    t.equal(beats(server), 1, 'silence');
    t.equal(device.okMs, okMs);
    device.resume();
    await pass(clock, fleet, 1);
    t.equal(beats(server), 2, 'back at once');
    t.equal(device.silentMs, null);
    device.silence();
    device.resume({ isBoot: true });
    await pass(clock, fleet, LINK_SPREAD_MS);
    const boots = server.asked.map(({ said }) => said.bootId);
    t.equal(boots[1], boots[0]);
    t.not(boots[2], boots[0], 'another boot');
  },
);

t.test('a heartbeat under way is given up by a silent device', async (t) => {
  const server = await fakeServer(t);
  server.answer = () => undefined;
  const { clock, fleet, device } = bench(t, [server.url]);
  device.start();
  await clock.advance(1);
  while (beats(server) === 0) await settled();
  device.silence();
  await answered(fleet);
  t.equal(device.okMs, null, 'no answer');
  t.match(device.tries.at(-1), { sentMs: clock.bootMs() - 1, okMs: null }, 'the cloud may have heard it');
  t.strictSame([...fleet.counts], [['ABORT_ERR', 1]]);
});

t.test('a goodbye says that it is planned, and whether the cloud knows', async (t) => {
  const server = await fakeServer(t);
  const { clock, fleet, device } = bench(t, [server.url]);
  device.start();
  await pass(clock, fleet, SECOND_MS);
  t.equal(await device.goodbye(), true);
  t.equal(server.asked[1]?.said.state, 'stopping');
  t.equal(device.silentMs, clock.bootMs());
  await pass(clock, fleet, 10 * HEARTBEAT_MS);
  t.equal(beats(server), 2, 'silent');
  device.resume({ isBoot: true });
  await pass(clock, fleet, HEARTBEAT_MS);
  server.answer = (_, res) => void res.writeHead(500, { 'Content-Length': 0 }).end();
  t.equal(await device.goodbye('moved'), false, 'the cloud has not heard it');
});

t.test('a device turns to the next server at once if one refuses, and stays there', async (t) => {
  const [dead, server] = [await fakeServer(t), await fakeServer(t)];
  await dead.close();
  const { clock, fleet, device } = bench(t, [dead.url, server.url]);
  t.equal(device.url, dead.url);
  device.start();
  await pass(clock, fleet, 3 * HEARTBEAT_MS);
  t.equal(device.url, server.url);
  t.equal(fleet.counts.get('ECONNREFUSED'), 1);
  t.ok(beats(server) >= 3);
});

t.test(
  'a server that answers 503 is left alone for its Retry-After; then the next one is tried',
  async (t) => {
    const [busy, server] = [await fakeServer(t), await fakeServer(t)];
    busy.answer = (_, res) => void res.writeHead(503, { 'Retry-After': '200', 'Content-Length': 0 }).end();
    const { clock, fleet, device } = bench(t, [busy.url, server.url]);
    device.start();
    await pass(clock, fleet, 200 * SECOND_MS - 1);
    t.equal(beats(busy) + beats(server), 1, 'Retry-After');
    await pass(clock, fleet, 20 * SECOND_MS + 2);
    t.equal(beats(busy), 1);
    t.equal(beats(server), 1);
  },
);

t.test('a server that does not answer costs one heartbeat its time', async (t) => {
  const [mute, server] = [await fakeServer(t), await fakeServer(t)];
  mute.answer = () => undefined;
  const { clock, fleet, device } = bench(t, [mute.url, server.url]);
  device.start();
  await clock.advance(1);
  while (beats(mute) === 0) await settled();
  await clock.advance(HEARTBEAT_TIMEOUT_MS);
  t.equal(fleet.counts.get('DEADLINE'), 1);
  await pass(clock, fleet, LINK_SPREAD_MS);
  t.equal(beats(server), 1);
});

t.test('a kept connection that the server has closed costs no heartbeat', async (t) => {
  const server = await fakeServer(t);
  server.answer = (req, res) => {
    // The second request of a connection meets its end.
    if (server.connections === 1 && beats(server) === 2) req.socket.destroy();
    else res.end('{}');
  };
  const { clock, fleet, device } = bench(t, [server.url]);
  device.start();
  await pass(clock, fleet, 1.1 * HEARTBEAT_MS);
  t.strictSame([...fleet.counts], [['200', 2]]);
  t.equal(beats(server), 3);
});

t.test('the longest time without an answer leaves out a silence on purpose', async (t) => {
  const server = await fakeServer(t);
  const { clock, fleet, device } = bench(t, [server.url]);
  device.start();
  await pass(clock, fleet, 3 * HEARTBEAT_MS);
  const usualMs = device.gapMs;
  t.ok(usualMs > 0 && usualMs < 1.5 * HEARTBEAT_MS, `${usualMs} ms`);
  device.silence();
  await clock.advance(5 * HEARTBEAT_MS);
  device.resume();
  await pass(clock, fleet, HEARTBEAT_MS);
  t.ok(device.gapMs < 1.5 * HEARTBEAT_MS, `${device.gapMs} ms`);

  server.answer = (_req, res) => void res.writeHead(503).end();
  await pass(clock, fleet, 2 * HEARTBEAT_MS);
  server.answer = (_req, res) => void res.end('{}');
  const before = fleet.counts.get('200');
  while (fleet.counts.get('200') === before) await pass(clock, fleet, SECOND_MS);
  t.ok(device.gapMs > 2 * HEARTBEAT_MS, `${device.gapMs} ms`);
});
