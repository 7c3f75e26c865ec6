/** Who watches over which devices: roles are spread, and move when instances come and go. */
import t from 'tap';
import { bucketOf, ROLES, rightfulOwner, TELLER } from '../../src/cloud-server/etcd/layout.js';
import { FLEET_LEASE_S, FLEET_STALE_MS, FLEET_TICK_MS, MINUTE_MS, SECOND_MS } from '../../src/limits.js';
import { DELAYS, FleetWorld } from '../support/fleet-world.js';
import { testSeed } from '../support/random.js';

const seed = testSeed();
t.comment(`FIELDPOST_TEST_SEED=${seed}`);

const worldOf = (...machines: string[]) => FleetWorld.calm(seed, ...machines);

t.test('each role has one rightful owner, and each instance its share', async (t) => {
  t.equal(ROLES.length, 257);
  t.ok(ROLES.includes(bucketOf('pump-3')) && ROLES.includes(TELLER));
  t.equal(rightfulOwner('00', []), null);
  for (const instances of [
    ['a-1', 'b-2'],
    ['a-1', 'b-2', 'c-3'],
    ['h-1', 'h-2', 'h-3', 'h-4', 'h-5'],
  ]) {
    const owners = ROLES.map((role) => rightfulOwner(role, instances));
    const fair = ROLES.length / instances.length;
    for (const instance of instances) {
      const share = owners.filter((owner) => owner === instance).length;
      t.ok(share > fair * 0.6 && share < fair * 1.4, `${instance} of ${instances.length}: ${share}`);
    }
    const back = [...instances].reverse();
    t.strictSame(
      ROLES.map((role) => rightfulOwner(role, back)),
      owners,
      'the order does not matter',
    );
    const left = instances.slice(1);
    for (const [index, role] of ROLES.entries()) {
      if (owners[index] !== instances[0] && rightfulOwner(role, left) !== owners[index])
        t.fail(`${role} moves`);
    }
  }
});

t.test('an instance that comes gets its share, and no role moves between others', async (t) => {
  const world = await worldOf('a', 'b');
  t.equal(world.server.keys('owner/').length, ROLES.length);
  const before = new Map(ROLES.map((role) => [role, world.ownerOf(role)]));
  await world.start('c');
  await world.clock.advance(FLEET_STALE_MS - SECOND_MS);
  t.equal(world.shares.c, undefined, 'it may be gone again in a moment');
  await world.clock.advance(FLEET_STALE_MS);
  t.equal(world.server.keys('owner/').length, ROLES.length);
  t.ok((world.shares.c ?? 0) > 40, `c has ${world.shares.c}`);
  for (const role of ROLES) {
    const owner = world.ownerOf(role);
    if (owner !== 'c' && owner !== before.get(role))
      t.fail(`${role} moved from ${before.get(role)} to ${owner}`);
  }
  await world.end();
});

t.test('a clean stop hands all roles over within a second', async (t) => {
  const world = await worldOf('a', 'b', 'c');
  await world.stop('b');
  await world.clock.advance(SECOND_MS);
  t.equal(world.shares.b, undefined);
  t.equal(world.server.keys('owner/').length, ROLES.length);
  t.equal(world.server.keys('instance/').length, 2);
  await world.end();
});

t.test('the roles of a killed instance are handed over when its lease has run out', async (t) => {
  const world = await worldOf('a', 'b', 'c');
  world.kill('b');
  // The lease is renewed at each tick, and etcd may be late by a second.
  await world.clock.advance(FLEET_LEASE_S * SECOND_MS - FLEET_TICK_MS - SECOND_MS);
  t.ok((world.shares.b ?? 0) > 0);
  await world.clock.advance(FLEET_TICK_MS + 3 * SECOND_MS);
  t.equal(world.shares.b, undefined);
  t.equal(world.server.keys('owner/').length, ROLES.length);
  await world.end();
});

t.test('after a hand-over nobody is offline before a fresh delay', async (t) => {
  for (const leave of ['stop', 'kill'] as const) {
    const world = await worldOf('a', 'b');
    for (let n = 0; n < 24; n++) world.add(`pump-${n}`);
    await world.clock.advance(MINUTE_MS);
    const moved = [...world.devices.values()].filter(({ id }) => world.ownerOf(bucketOf(id)) === 'b');
    t.ok(moved.length > 0);
    for (const device of world.devices.values()) device.silence();
    await world.clock.advance(DELAYS.delayMs - 35 * SECOND_MS);
    await world[leave]('b');
    await world.clock.advance(SECOND_MS);
    while (world.shares.b !== undefined) await world.clock.advance(SECOND_MS);
    const handedMs = world.clock.bootMs();
    await world.clock.advance(DELAYS.delayMs + 15 * SECOND_MS);
    for (const { id } of moved) {
      const told = world.told.filter(({ device }) => device === id);
      t.match(told, [{ kind: 'silent' }], `${leave}: ${id} is told once`);
      // The roles moved a second before at most.
      t.ok(
        (told[0]?.atMs ?? 0) >= handedMs + DELAYS.delayMs - 2 * SECOND_MS,
        `${leave}: ${id} after a fresh delay`,
      );
    }
    t.equal(world.told.length, world.devices.size);
    await world.end();
  }
});

t.test('the role of the teller does not move while news are open', async (t) => {
  const world = await worldOf('a');
  const device = world.add('pump-1');
  await world.clock.advance(MINUTE_MS);
  // People of the device wait for the end of the batch.
  world.tells = (machine, batch, isClosed) =>
    isClosed ? world.tellAll(machine, batch) : { told: new Set(), refusal: null };
  device.silence();
  await world.clock.advance(DELAYS.delayMs + 12 * SECOND_MS);
  t.equal(world.server.keys('outbox/').length, 1);
  // Of some machines one is the rightful teller.
  for (const machine of ['b', 'c', 'd', 'e', 'f']) await world.start(machine);
  await world.clock.advance(20 * SECOND_MS);
  t.ok(Object.keys(world.shares).length === 6, 'buckets have moved');
  t.equal(world.ownerOf(TELLER), 'a');
  await world.clock.advance(MINUTE_MS);
  t.strictSame(
    world.told.map(({ machine, device }) => [machine, device]),
    [['a', 'pump-1']],
  );
  const living = world.server.keys('instance/').map(({ key }) => key.slice('instance/'.length));
  await world.clock.advance(20 * SECOND_MS);
  t.equal(world.server.keyOf(`owner/${TELLER}`)?.value, rightfulOwner(TELLER, living), 'then it moves');
  await world.end();
});
