/** Who watches over which devices: roles are spread, and move when instances come and go. */
import t from 'tap';
import { MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import { bucketOf, FLEET_STALE_MS, ROLES, rightfulOwner, TELLER } from '../../src/cloud/etcd/layout.js';
import { DELAYS, FleetWorld } from '../support/fleet-world.js';
import { testSeed } from '../support/random.js';

const seed = testSeed();
t.comment(`FIELDPOST_TEST_SEED=${seed}`);

const worldOf = (...machines: string[]) => FleetWorld.calm(seed, ...machines);

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
