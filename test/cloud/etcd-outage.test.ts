/** Outages: of etcd as a whole, of one instance, and of the time in which a process does not run. */
import t from 'tap';
import { MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import { ETCD_TIMEOUT_MS } from '../../src/cloud/etcd/etcd.js';
import { bucketOf, FLEET_STALE_MS, FLEET_TICK_MS } from '../../src/cloud/etcd/layout.js';
import { CLOUD_GRACE_MS } from '../../src/cloud/presence.js';
import { DELAYS, FleetWorld } from '../support/fleet-world.js';
import { testSeed } from '../support/random.js';

const seed = testSeed();
t.comment(`FIELDPOST_TEST_SEED=${seed}`);

const worldOf = (...machines: string[]) => FleetWorld.calm(seed, ...machines);

const isServing = (world: FleetWorld, machine: string) => {
  try {
    world.fleetOf(machine).assertServing();
    return true;
  } catch {
    return false;
  }
};

t.test(
  'without a quorum heartbeats are refused after FLEET_STALE_MS, and taken again when it is back',
  async (t) => {
    const world = await worldOf('a', 'b');
    const hear = () => world.fleetOf('a').watch.heard('pump-1', { said: 'running', everyMs: 0, sent: null });
    world.server.quorum = false;
    await world.clock.advance(FLEET_STALE_MS - FLEET_TICK_MS - SECOND_MS);
    hear();
    t.ok(isServing(world, 'a'), 'a new leader is elected in less');
    await world.clock.advance(FLEET_TICK_MS + 2 * SECOND_MS);
    t.throws(hear, { code: 'unavailable' });
    t.notOk(isServing(world, 'a'));
    await t.rejects(world.fleetOf('a').documents.read('pump-1'), { code: 'unavailable' });
    await world.clock.advance(MINUTE_MS);
    world.server.quorum = true;
    // The tick under way fails, and the next one works.
    await world.clock.advance(2 * (FLEET_TICK_MS + ETCD_TIMEOUT_MS));
    hear();
    t.ok(isServing(world, 'a') && isServing(world, 'b'));
    await world.clock.advance(2 * SECOND_MS);
    t.ok(world.fleetOf('b').watch.has('pump-1'), 'the other one hears of it');
    await world.end();
  },
);

t.test(
  'after an outage of etcd silence does not count for a grace, also where an instance starts',
  async (t) => {
    const world = await worldOf('a', 'b');
    world.add('pump-1').silence();
    world.devices.get('pump-1')?.say('running');
    await world.clock.advance(20 * SECOND_MS);
    world.server.quorum = false;
    await world.clock.advance(MINUTE_MS);
    world.server.quorum = true;
    await world.clock.advance(15 * SECOND_MS);
    t.ok(world.server.keyOf('grace'), 'the outage is noted');
    const backMs = world.clock.bootMs();
    await world.start('c');
    world.kill('a');
    world.kill('b');
    await world.clock.advance(CLOUD_GRACE_MS + DELAYS.delayMs - 20 * SECOND_MS);
    t.strictSame(world.told, []);
    await world.clock.advance(DELAYS.delayMs);
    t.match(world.told, [{ machine: 'c', device: 'pump-1', kind: 'silent' }]);
    t.ok((world.told[0]?.atMs ?? 0) >= backMs + CLOUD_GRACE_MS, 'after the grace');
    await world.end();
  },
);

t.test('one instance that was away makes no grace', async (t) => {
  const world = await worldOf('a', 'b', 'c');
  for (let n = 0; n < 6; n++) world.add(`pump-${n}`);
  await world.clock.advance(MINUTE_MS);
  world.cut('b');
  await world.clock.advance(MINUTE_MS);
  world.heal('b');
  await world.clock.advance(MINUTE_MS);
  t.equal(world.server.keyOf('grace'), null);
  t.ok(isServing(world, 'b'));
  t.equal(Object.keys(world.shares).length, 3, 'it has roles again');
  for (const device of world.devices.values()) device.silence();
  await world.clock.advance(DELAYS.delayMs + 15 * SECOND_MS);
  // A device that found only the instance that was away may have been told before.
  t.equal(new Set(world.told.map(({ device }) => device)).size, 6);
  await world.end();
});

t.test('the first instance begins with a grace, one that joins others does not', async (t) => {
  const world = new FleetWorld(seed);
  await world.start('a');
  await world.clock.advance(2 * FLEET_STALE_MS);
  t.ok(world.server.keyOf('grace'));
  await world.clock.advance(CLOUD_GRACE_MS);
  t.equal(world.server.keyOf('grace'), null, 'for a while');
  const told = world.log.lines.flatMap((line) => /^<6>(grace .*)$/.exec(line.trim())?.[1] ?? []);
  t.strictSame(told, [`grace begun forMs=${CLOUD_GRACE_MS}`, 'grace over']);
  await world.start('b');
  await world.clock.advance(MINUTE_MS);
  t.equal(world.server.keyOf('grace'), null);
  await world.end();
});

t.test('instances that start together find nobody offline who was away with them', async (t) => {
  const world = await worldOf('a', 'b', 'c');
  world.add('pump-1');
  await world.clock.advance(MINUTE_MS);
  for (const machine of ['a', 'b', 'c']) world.kill(machine);
  world.devices.get('pump-1')?.silence();
  await world.clock.advance(5 * MINUTE_MS);
  const backMs = world.clock.bootMs();
  await Promise.all(['a', 'b', 'c'].map((machine) => world.start(machine)));
  await world.clock.advance(2 * FLEET_STALE_MS);
  t.ok(world.server.keyOf('grace'), 'the outage is noted');
  await world.clock.advance(CLOUD_GRACE_MS + 2 * DELAYS.delayMs);
  t.strictSame(world.toldOf('pump-1'), ['silent']);
  t.ok((world.told[0]?.atMs ?? 0) >= backMs + CLOUD_GRACE_MS, 'after the grace');
  await world.end();
});

t.test('what could not be decided before an outage is decided anew after its grace', async (t) => {
  const world = await worldOf('a', 'b');
  const devices = Array.from({ length: 400 }, (_, n) => world.add(`pump-${n}`));
  await world.clock.advance(MINUTE_MS);
  for (const device of devices) {
    device.silence();
    device.say('running');
  }
  let tries = 0;
  world.server.onOp = (_client, description) => {
    if (!description.startsWith('txn told/')) return;
    world.server.quorum = false;
    tries++;
  };
  // They are so many that the lease runs out before the last try.
  await world.clock.advance(DELAYS.delayMs + 20 * SECOND_MS);
  world.server.onOp = () => undefined;
  t.ok(tries > 0 && tries < devices.length, `${tries} tries`);
  await world.clock.advance(MINUTE_MS);
  world.server.quorum = true;
  await world.clock.advance(CLOUD_GRACE_MS);
  // A try without an answer may have happened.
  t.ok(world.told.length <= tries, `${world.told.length} were told in the grace`);
  await world.clock.advance(2 * MINUTE_MS + DELAYS.delayMs);
  t.equal(new Set(world.told.map(({ device }) => device)).size, devices.length);
  await world.end();
});

t.test('no decision once the lease may have run out', async (t) => {
  const world = await worldOf('a', 'b');
  for (let n = 0; n < 12; n++) world.add(`pump-${n}`);
  await world.clock.advance(MINUTE_MS);
  const mine = [...world.devices.values()].find(({ id }) => world.ownerOf(bucketOf(id)) === 'a');
  mine?.silence();
  await world.clock.advance(40 * SECOND_MS);
  const txns: string[] = [];
  world.cut('a');
  world.server.onOp = (client, description) => {
    if (client.startsWith('a') && description.includes('told/')) txns.push(description);
  };
  await world.clock.advance(10 * MINUTE_MS);
  t.strictSame(txns, [], 'it does not even try');
  t.strictSame(
    world.told.filter(({ device }) => device === mine?.id).map(({ machine, kind }) => [machine, kind]),
    [['b', 'silent']],
    'the other one has told',
  );
  world.heal('a');
  await world.clock.advance(5 * MINUTE_MS);
  t.strictSame(world.toldOf(mine?.id ?? ''), ['silent']);
  await world.end();
});

t.test('all processes that did not run for a while find nobody offline', async (t) => {
  const world = await worldOf('a', 'b');
  for (let n = 0; n < 6; n++) world.add(`pump-${n}`);
  await world.clock.advance(MINUTE_MS);
  // The whole host stands still; etcd on it as well.
  world.clock.suspend(10 * MINUTE_MS);
  await world.clock.advance(CLOUD_GRACE_MS + 10 * MINUTE_MS);
  t.strictSame(world.told, []);
  await world.end();
});
