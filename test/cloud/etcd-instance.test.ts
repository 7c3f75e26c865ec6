/** One instance among others: who leads, who serves while etcd is away, and what silence counts after it. */
import t from 'tap';
import { MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import { ETCD_TIMEOUT_MS, EtcdError } from '../../src/cloud/etcd/etcd.js';
import { FLEET_STALE_MS, FLEET_TICK_MS } from '../../src/cloud/etcd/layout.js';
import { CLOUD_GRACE_MS } from '../../src/cloud/presence.js';
import { settled } from '../support/clock.js';
import { DELAYS, FleetWorld, OFFLINE_MS } from '../support/fleet-world.js';

const LEASE_MS = 10 * SECOND_MS;
/** The tick under way fails, and the next one works. */
const RETURN_MS = 2 * (FLEET_TICK_MS + ETCD_TIMEOUT_MS);
const unavailable = { code: 'unavailable' };

const hear = (world: FleetWorld, machine: string, id = 'pump-1') =>
  world.fleetOf(machine).watch.heard(id, { said: 'running', everyMs: 0, sent: null });

t.test('the oldest instance leads, and after it the next one', async (t) => {
  await using world = await FleetWorld.calm('a', 'b', 'c');
  const shared = () => world.log.lines.splice(0).filter((line) => line.includes('fleet shared'));
  t.equal(world.leader, 'a');
  t.match(shared().at(-1), /fleet shared instances=3 leads=(true|false)/);
  await world.stop('a');
  await world.clock.advance(FLEET_TICK_MS);
  t.equal(world.leader, 'b');
  t.match(shared().join(), /instances=2 leads=true/);
  await world.start('a');
  await world.clock.advance(MINUTE_MS);
  t.equal(world.leader, 'b', 'one that comes leads nothing');
  world.kill('b');
  await world.clock.advance(LEASE_MS + 3 * SECOND_MS);
  t.equal(world.leader, 'c');
  shared();
  await world.clock.advance(MINUTE_MS);
  t.strictSame(shared(), [], 'each change once');
});

t.test(
  'without a quorum heartbeats are taken from memory, nothing is decided, and silence begins anew',
  async (t) => {
    await using world = await FleetWorld.calm('a', 'b');
    for (const id of ['speaks', 'falls', 'fell']) hear(world, 'a', id);
    await world.clock.advance(DELAYS.delayMs - 15 * SECOND_MS);
    for (const id of ['speaks', 'falls']) hear(world, 'a', id);
    world.server.quorum = false;
    for (let n = 0; n < 10; n++) {
      await world.clock.advance(30 * SECOND_MS);
      for (const machine of ['a', 'b']) t.ok(world.fleetOf(machine).office.isServing);
      hear(world, n % 2 ? 'a' : 'b', 'speaks');
      hear(world, 'b', 'new');
      await t.rejects(world.fleetOf('a').documents.read('speaks'), unavailable);
    }
    let isAnswered = false;
    const last = world.fleetOf('a').watch.heard('goes', { said: 'stopping', everyMs: 0, sent: null });
    void Promise.resolve(last).then(() => {
      isAnswered = true;
    });
    await settled();
    t.ok(isAnswered, 'a last word does not wait for etcd');
    t.strictSame(world.told, []);
    t.equal(world.fleetOf('a').watch.sighting('fell')?.state, 'online', 'not decided');
    world.server.quorum = true;
    const backMs = world.clock.bootMs();
    await world.clock.advance(RETURN_MS);
    t.ok(world.fleetOf('a').watch.has('new') && world.fleetOf('b').watch.has('new'));
    for (let n = 0; n < 6; n++) {
      hear(world, 'a', 'speaks');
      hear(world, 'b', 'new');
      await world.clock.advance(20 * SECOND_MS);
    }
    t.strictSame(world.told.map(({ device, kind }) => `${device} ${kind}`).sort(), [
      'falls silent',
      'fell silent',
    ]);
    t.ok(
      world.told.every(({ atMs }) => atMs >= backMs + DELAYS.delayMs),
      'after a fresh delay',
    );
    const words = world.log.lines.filter((line) => /etcd (away|back)/.test(line));
    t.equal(words.length, 4, 'told once by each');
  },
);

t.test('an instance that stops when etcd is just back writes what it has heard meanwhile', async (t) => {
  await using world = await FleetWorld.calm('a', 'b');
  hear(world, 'a');
  await world.clock.advance(2 * SECOND_MS);
  const without = { quorum: () => (world.server.quorum = false), etcd: () => world.cut('a') };
  const back = { quorum: () => (world.server.quorum = true), etcd: () => world.heal('a') };
  for (const [what, heardMs, said] of [
    ['quorum', 2 * LEASE_MS, 'stopping'],
    ['etcd', LEASE_MS - SECOND_MS, 'moved'],
  ] as const) {
    without[what]();
    await world.clock.advance(heardMs);
    const heard = world.fleetOf('a').watch.heard('pump-1', { said, everyMs: 0, sent: null });
    await world.clock.advance(2 * LEASE_MS);
    await heard;
    back[what]();
    const stopping = world.stop('a');
    await world.clock.advance(5 * SECOND_MS);
    await stopping;
    t.match(world.recordOf('pump-1'), { s: said }, `without ${what}`);
    await world.start('a');
    await world.clock.advance(2 * SECOND_MS);
  }
});

t.test('an instance that is cut off refuses when its lease is over, and decides nothing', async (t) => {
  await using world = await FleetWorld.calm('a', 'b');
  hear(world, 'a', 'mine');
  await world.clock.advance(2 * SECOND_MS);
  world.cut('a');
  const tries: string[] = [];
  world.server.onOp = (client, description) => {
    if (client.startsWith('a') && /news|cut/.test(description)) tries.push(description);
  };
  await world.clock.advance(LEASE_MS - FLEET_TICK_MS - SECOND_MS);
  t.doesNotThrow(() => hear(world, 'a'), 'a short cut is not noticed');
  hear(world, 'a', 'mine');
  await world.clock.advance(FLEET_TICK_MS + SECOND_MS);
  t.throws(() => hear(world, 'a'), unavailable);
  t.notOk(world.fleetOf('a').office.isServing, 'the load balancer avoids it');
  t.doesNotThrow(() => hear(world, 'b', 'pump-2'));
  await world.clock.advance(5 * MINUTE_MS);
  t.throws(() => hear(world, 'a'), unavailable);
  t.notOk(world.fleetOf('a').office.isLeader);
  t.strictSame(tries, [], 'it does not even try');
  t.match(
    world.told.map(({ machine, device }) => `${machine} ${device}`).sort(),
    ['b mine', 'b pump-2'],
    'the other one has its devices, and tells',
  );
  world.heal('a');
  await world.clock.advance(RETURN_MS);
  t.doesNotThrow(() => hear(world, 'a'));
  await world.clock.advance(3 * MINUTE_MS);
  t.strictSame(
    world.toldOf('mine'),
    ['silent'],
    'a heartbeat that could not be written for long is no return',
  );
  t.equal(new Set(world.told.map(({ id }) => id)).size, world.told.length, 'nothing is told again');
});

t.test('an instance whose memory is old decides nothing, also of a device that calls', async (t) => {
  await using world = await FleetWorld.calm('a');
  const { server } = world;
  hear(world, 'a');
  await world.clock.advance(OFFLINE_MS);
  t.strictSame(world.toldOf('pump-1'), ['silent']);
  const watch = server.watch.bind(server);
  server.watch = () => undefined;
  server.quorum = false;
  server.quorum = true;
  await world.clock.advance(FLEET_STALE_MS + 2 * FLEET_TICK_MS);
  const tries: string[] = [];
  server.onOp = (_client, description) => {
    if (description.includes('news')) tries.push(description);
  };
  hear(world, 'a');
  await world.clock.advance(SECOND_MS);
  t.strictSame(tries, []);
  server.watch = watch;
  await world.clock.advance(RETURN_MS);
  t.strictSame(world.toldOf('pump-1'), ['silent', 'back']);
});

t.test('after refusals devices have as long as they need to call again', async (t) => {
  await using world = await FleetWorld.calm('a');
  hear(world, 'a');
  await world.clock.advance(2 * SECOND_MS);
  world.cut('a');
  await world.clock.advance(2 * MINUTE_MS);
  world.heal('a');
  const backMs = world.clock.bootMs();
  await world.clock.advance(CLOUD_GRACE_MS + OFFLINE_MS + RETURN_MS);
  t.match(world.told, [{ kind: 'silent' }]);
  t.ok((world.told[0]?.atMs ?? 0) >= backMs + CLOUD_GRACE_MS + DELAYS.delayMs - SECOND_MS);
});

t.test('an instance whose lease is gone is another one, and has its devices again', async (t) => {
  await using world = await FleetWorld.calm('a', 'b');
  hear(world, 'a');
  await world.clock.advance(2 * SECOND_MS);
  const [first] = world.server.keys('instance/a');
  world.server.txn([], [{ delete: first?.key ?? '' }]);
  await world.clock.advance(SECOND_MS);
  t.equal(world.leader, 'b');
  for (let n = 0; n < 10; n++) {
    await world.clock.advance(30 * SECOND_MS);
    hear(world, 'a');
  }
  t.strictSame(world.told, []);
  t.equal(world.recordOf('pump-1').home, 'a');
});

t.test('while etcd refuses writes nothing is decided; the instance goes on when it takes them', async (t) => {
  await using world = await FleetWorld.calm('a');
  hear(world, 'a');
  await world.clock.advance(2 * SECOND_MS);
  world.server.onOp = (_client, description) => {
    if (description.startsWith('txn')) throw new EtcdError('refused', 'etcd: database space exceeded');
  };
  await world.clock.advance(5 * MINUTE_MS);
  t.strictSame(world.told, []);
  t.match(world.log.lines.join('\n'), /etcd away reason="etcd: database space exceeded"/);
  t.throws(() => hear(world, 'a'), unavailable);
  world.server.onOp = () => undefined;
  await world.clock.advance(RETURN_MS);
  t.doesNotThrow(() => hear(world, 'a'));
  await world.clock.advance(CLOUD_GRACE_MS + OFFLINE_MS);
  t.strictSame(world.toldOf('pump-1'), ['silent']);
});

t.test('a layout of another version is refused, and not touched', async (t) => {
  await using world = new FleetWorld();
  world.server.txn([], [{ put: 'layout', value: '9' }]);
  await t.rejects(world.start('a'), {
    code: 'unavailable',
    message: /has layout 9, and this program knows 3/,
  });
  t.strictSame(
    world.server.keys().map(({ key, value }) => [key, value]),
    [['layout', '9']],
  );
  world.server.txn([], [{ delete: 'layout' }]);
  await world.start('a');
  t.equal(world.server.keyOf('layout')?.value, '3');
});
