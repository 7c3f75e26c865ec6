/** The watch of several instances over one etcd: who is told what, and when roles move. */
import t from 'tap';
import { MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import { EtcdError } from '../../src/cloud/etcd/etcd.js';
import { bucketOf } from '../../src/cloud/etcd/layout.js';
import { CLOUD_GRACE_MS } from '../../src/cloud/presence.js';
import { DELAYS, FleetWorld } from '../support/fleet-world.js';
import { testSeed } from '../support/random.js';

const seed = testSeed();
t.comment(`FIELDPOST_TEST_SEED=${seed}`);

/** Three instances that have shared the roles, and devices that speak. */
async function fleetOf(devices: number): Promise<FleetWorld> {
  const world = await FleetWorld.calm(seed, 'a', 'b', 'c');
  for (let n = 0; n < devices; n++) world.add(`pump-${n}`);
  await world.clock.advance(MINUTE_MS);
  return world;
}

t.test('a silent device is told once, and once that it is back', async (t) => {
  const world = await fleetOf(20);
  world.devices.get('pump-3')?.silence();
  await world.clock.advance(DELAYS.delayMs + 45 * SECOND_MS);
  t.strictSame(
    world.told.map(({ device, kind }) => [device, kind]),
    [['pump-3', 'silent']],
  );
  world.devices.get('pump-3')?.speak();
  await world.clock.advance(MINUTE_MS);
  t.strictSame(world.toldOf('pump-3'), ['silent', 'back']);
  t.equal(world.told.length, 2);
});

const ID = 'pump-1';
const SEEN = `seen/${bucketOf(ID)}/${ID}`;
const OFFLINE_MS = DELAYS.delayMs + 12 * SECOND_MS;

/** One instance, one device, and what comes between a decision and etcd: `meanwhile` is called once for each try. */
async function decided(meanwhile: (world: FleetWorld, tries: number) => void): Promise<FleetWorld> {
  const world = new FleetWorld(seed);
  await world.start('a');
  const device = world.add(ID);
  await world.clock.advance(CLOUD_GRACE_MS + 2 * MINUTE_MS);
  let tries = 0;
  world.server.onOp = (_client, description) => {
    if (description.startsWith(`txn told/${ID}`) && !description.endsWith(': done'))
      meanwhile(world, ++tries);
  };
  device.silence();
  return world;
}

t.test('a heartbeat at the last moment counts more than the decision', async (t) => {
  let heardMs = 0;
  const world = await decided(({ server, clock }, tries) => {
    if (tries > 1) return;
    heardMs = clock.bootMs();
    const { u, ...heartbeat } = JSON.parse(server.keyOf(SEEN)?.value ?? '');
    server.txn([], [{ put: SEEN, value: JSON.stringify({ ...heartbeat, u: u + 1 }) }]);
  });
  await world.clock.advance(OFFLINE_MS);
  t.ok(heardMs > 0);
  t.strictSame(world.told, []);
  // Nobody was told, so the next outage needs one delay as well.
  await world.clock.advance(DELAYS.delayMs);
  t.match(world.told, [{ kind: 'silent' }]);
  t.ok((world.told[0]?.atMs ?? 0) >= heardMs + DELAYS.delayMs);
  await world.stop('a');
});

t.test('a heartbeat that is written twice is heard once', async (t) => {
  const world = await decided(() => undefined);
  await world.clock.advance(DELAYS.delayMs / 2);
  const silentMs = world.clock.bootMs();
  world.server.txn([], [{ put: SEEN, value: world.server.keyOf(SEEN)?.value ?? '' }]);
  await world.clock.advance(OFFLINE_MS - DELAYS.delayMs / 2);
  t.match(world.told, [{ kind: 'silent' }]);
  t.ok((world.told[0]?.atMs ?? 0) < silentMs + DELAYS.delayMs);
  await world.end();
});

t.test('a device that always reports the same uptime is heard', async (t) => {
  const world = await FleetWorld.calm(seed, 'a', 'b');
  for (let n = 0; n < 20; n++) {
    const sent = { bootId: 'b', uptimeMs: 1000 };
    world.fleetOf('a').watch.heard(ID, { said: 'running', everyMs: 0, sent });
    await world.clock.advance(30 * SECOND_MS);
  }
  t.strictSame(world.told, []);
  await world.end();
});

t.test('a device that was removed and added again is told of, also if the answer was late', async (t) => {
  let isRemoved = false;
  const world = await decided(() => undefined);
  world.server.onOp = (_client, description) => {
    world.server.answerTurns = 1;
    if (isRemoved || !(description.startsWith(`txn told/${ID}`) && description.endsWith(': done'))) return;
    isRemoved = true;
    world.server.answerTurns = 10;
    world.server.txn([], [{ delete: SEEN }, { delete: `told/${ID}` }, { deletePrefix: `outbox/${ID}/` }]);
  };
  await world.clock.advance(OFFLINE_MS);
  t.ok(isRemoved);
  world.told.splice(0);
  world.devices.get(ID)?.say('running');
  await world.clock.advance(OFFLINE_MS);
  t.match(world.told, [{ kind: 'silent' }]);
  await world.end();
});

t.test('a decision of an instance that has just lost the bucket does not hold', async (t) => {
  let lostMs = 0;
  const world = await decided(({ server, clock }, tries) => {
    if (tries > 1) return;
    lostMs = clock.bootMs();
    server.txn([], [{ delete: `owner/${bucketOf(ID)}` }]);
  });
  await world.clock.advance(OFFLINE_MS);
  t.ok(lostMs > 0);
  t.strictSame(world.told, []);
  await world.clock.advance(OFFLINE_MS);
  t.match(world.told, [{ kind: 'silent' }]);
  t.ok((world.told[0]?.atMs ?? 0) >= lostMs + DELAYS.delayMs, 'after a fresh delay');
  await world.stop('a');
});

t.test('a decision that another instance has just made is not made again', async (t) => {
  const world = await decided(({ server }, tries) => {
    if (tries === 1) server.txn([], [{ put: `told/${ID}`, value: '{"o":1,"a":null}' }]);
  });
  await world.clock.advance(5 * MINUTE_MS);
  t.strictSame(world.told, []);
  t.equal(world.fleetOf('a').watch.sighting(ID)?.state, 'offline');
  await world.stop('a');
});

t.test('a decision that fails is made again; one that has happened without an answer is not', async (t) => {
  const failing = await decided((_world, tries) => {
    if (tries <= 3) throw new EtcdError('unavailable', 'etcd: no leader');
  });
  await failing.clock.advance(OFFLINE_MS + MINUTE_MS);
  t.match(failing.told, [{ kind: 'silent' }]);
  failing.devices.get(ID)?.speak();
  await failing.clock.advance(MINUTE_MS);
  t.strictSame(failing.toldOf(ID), ['silent', 'back']);
  await failing.stop('a');

  const lost = await decided(() => undefined);
  lost.server.losesAnswer = (_client, description) => description.startsWith(`txn told/${ID}`);
  await lost.clock.advance(OFFLINE_MS + MINUTE_MS);
  lost.devices.get(ID)?.speak();
  await lost.clock.advance(MINUTE_MS);
  t.strictSame(lost.toldOf(ID), ['silent', 'back']);
  t.equal(lost.told.length, 2);
  await lost.stop('a');
});

t.test('a return that cannot be decided at once is decided later', async (t) => {
  const world = await decided((_world, tries) => {
    if (tries >= 2 && tries <= 4) throw new EtcdError('unavailable', 'etcd: no leader');
  });
  await world.clock.advance(OFFLINE_MS);
  t.strictSame(world.toldOf(ID), ['silent']);
  world.devices.get(ID)?.say('running');
  await world.clock.advance(45 * SECOND_MS);
  t.strictSame(world.toldOf(ID), ['silent', 'back']);
  await world.stop('a');
});
