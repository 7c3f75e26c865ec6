/** Heartbeats on their way into etcd: late ones, overtaken ones, and those of a device that is removed. */
import t from 'tap';
import { MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import { EtcdError } from '../../src/cloud/etcd/etcd.js';
import { bucketOf, FLEET_STALE_MS } from '../../src/cloud/etcd/layout.js';
import { Heartbeats } from '../../src/cloud/etcd/watch.js';
import { FakeClock } from '../support/clock.js';
import { DELAYS, FleetWorld } from '../support/fleet-world.js';
import { testSeed } from '../support/random.js';

const seed = testSeed();
t.comment(`FIELDPOST_TEST_SEED=${seed}`);
const ID = 'pump-1';
const SEEN = `seen/${bucketOf(ID)}/${ID}`;
const report = (uptimeMs: number, said: 'running' | 'stopping' = 'running') =>
  ({ said, everyMs: 30 * SECOND_MS, sent: { bootId: 'b', uptimeMs } }) as const;

const worldOf = (...machines: string[]) => FleetWorld.calm(seed, ...machines);

t.test('a removed device does not return with its heartbeat under way', async (t) => {
  const world = await worldOf('a', 'b');
  const [a, b] = [world.fleetOf('a'), world.fleetOf('b')];
  a.watch.heard(ID, report(1));
  await world.clock.advance(2 * SECOND_MS);
  a.watch.heard(ID, report(2));
  let removing: Promise<void> | null = null;
  world.server.onOp = (client, description) => {
    if (client.startsWith('a') && description === `txn ${SEEN}`) removing ??= a.watch.forget(ID);
  };
  await world.clock.advance(2 * SECOND_MS);
  t.ok(removing, 'the removal came during the flush');
  await removing;
  await world.clock.advance(MINUTE_MS);
  t.equal(world.server.keyOf(SEEN), null);
  t.notOk(a.watch.has(ID) || b.watch.has(ID));
  await world.end();
});

t.test('a clean stop writes the last heartbeats, even if that fails at first', async (t) => {
  const world = await worldOf('a', 'b');
  world.fleetOf('a').watch.heard(ID, report(1));
  let tries = 0;
  world.server.onOp = (client, description) => {
    if (client.startsWith('a') && description === `txn ${SEEN}` && ++tries < 3)
      throw new EtcdError('unavailable', 'etcd: the connection was lost');
  };
  await world.stop('a');
  t.equal(tries, 3);
  t.ok(world.server.keyOf(SEEN));
  await world.end();
});

t.test('a goodbye that could not be written does not replace a heartbeat after it', async (t) => {
  const world = await worldOf('a');
  const { watch } = world.fleetOf('a');
  let isFirst = true;
  world.server.onOp = (_client, description) => {
    if (description !== `txn ${SEEN}` || !isFirst) return;
    isFirst = false;
    // The device has booted meanwhile.
    void watch.heard(ID, { ...report(1), sent: { bootId: 'c', uptimeMs: 1 } });
    throw new EtcdError('unavailable', 'etcd: no leader');
  };
  await t.rejects(Promise.resolve(watch.heard(ID, report(1, 'stopping'))), { code: 'unavailable' });
  await world.clock.advance(5 * SECOND_MS);
  t.match(JSON.parse(world.server.keyOf(SEEN)?.value ?? ''), { b: 'c', s: 'running' });
  await world.end();
});

for (const [name, uptimes, expected] of [
  ['a goodbye without an answer is written again, though an earlier heartbeat comes', [8], ['goodbye']],
  ['a goodbye without an answer does not replace what was written since', [8, 10], ['running 10']],
] as const)
  t.test(name, async (t) => {
    const clock = new FakeClock();
    const written: string[] = [];
    let giveUp: (() => void) | null = null;
    const heartbeats = new Heartbeats({
      clock,
      conditions: () => [],
      etcd: {
        async txn(_compares, ops) {
          const [{ value }] = ops as unknown as [{ value: string }];
          if (value === 'goodbye' && giveUp === null)
            await new Promise((_resolve, reject) => {
              giveUp = () => reject(new EtcdError('unavailable', 'etcd: no answer'));
            });
          written.push(value);
          return { succeeded: true, revision: 1, current: null };
        },
      },
    });
    const goodbye = heartbeats.addNow('seen/x', 'goodbye', { bootId: 'a', uptimeMs: 9 });
    await clock.advance(1);
    for (const uptimeMs of uptimes)
      heartbeats.add('seen/x', `running ${uptimeMs}`, { bootId: 'a', uptimeMs });
    await clock.advance(2 * SECOND_MS);
    (giveUp as (() => void) | null)?.();
    await t.rejects(goodbye, { code: 'unavailable' });
    await clock.advance(5 * SECOND_MS);
    t.strictSame(written, expected);
    await heartbeats.stop();
  });

t.test('a heartbeat that waits in an instance is dropped when another removes the device', async (t) => {
  const world = await worldOf('a', 'b');
  const [a, b] = [world.fleetOf('a'), world.fleetOf('b')];
  a.watch.heard(ID, report(1));
  await world.clock.advance(2 * SECOND_MS);
  b.watch.heard(ID, report(2));
  await a.watch.forget(ID);
  await world.clock.advance(MINUTE_MS);
  t.equal(world.server.keyOf(SEEN), null);
  await world.end();
});

t.test('a heartbeat that could not be written for long is not written later', async (t) => {
  const world = await worldOf('a', 'b');
  const [a, b] = [world.fleetOf('a'), world.fleetOf('b')];
  b.watch.heard(ID, report(1));
  await world.clock.advance(2 * SECOND_MS);
  a.watch.heard(ID, report(2));
  world.cut('a');
  await world.clock.advance(DELAYS.delayMs + 20 * SECOND_MS);
  t.strictSame(world.toldOf(ID), ['silent']);
  world.heal('a');
  await world.clock.advance(MINUTE_MS);
  t.strictSame(world.toldOf(ID), ['silent'], 'it is not back');
  await world.end();
});

t.test('a request that etcd gets after the lease has run out writes nothing', async (t) => {
  const world = await worldOf('a', 'b');
  const a = world.fleetOf('a');
  let isHeld = false;
  world.server.onOp = (client, description) => {
    if (!client.startsWith('a') || description !== `txn ${SEEN}`) return;
    // As if it had been on its way until the lease was gone.
    isHeld = true;
    for (const { key, value } of world.server.keys('instance/a')) {
      world.server.txn([], [{ delete: key }]);
      t.ok(value);
    }
  };
  a.watch.heard(ID, report(1));
  await world.clock.advance(1500);
  t.ok(isHeld);
  t.equal(world.server.keyOf(SEEN), null);
  await world.end();
});

t.test('of two heartbeats through two instances the later one stays, in etcd too', async (t) => {
  const world = await worldOf('a', 'b');
  const [a, b] = [world.fleetOf('a'), world.fleetOf('b')];
  a.watch.heard(ID, report(1));
  await world.clock.advance(2 * SECOND_MS);
  b.watch.heard(ID, report(3000, 'stopping'));
  await world.clock.advance(500);
  // The later one is not in etcd yet, and is written first.
  a.watch.heard(ID, report(2000));
  await world.clock.advance(5 * SECOND_MS);
  t.match(world.server.keyOf(SEEN)?.value, /"s":"stopping"/);
  await world.clock.advance(10 * MINUTE_MS);
  t.strictSame(world.toldOf(ID), []);
  await world.stop('a');
  await world.clock.advance(DELAYS.stopDelayMs + MINUTE_MS);
  t.match(world.told, [{ device: ID, kind: 'stopped' }]);
  await world.end();
});

t.test(
  'an instance that cannot write heartbeats soon takes none, and takes them again at once',
  async (t) => {
    const world = await worldOf('a', 'b');
    const [a, b] = [world.fleetOf('a'), world.fleetOf('b')];
    a.watch.heard(ID, report(1));
    await world.clock.advance(2 * SECOND_MS);
    world.cut('a');
    a.watch.heard(ID, report(2));
    await world.clock.advance(FLEET_STALE_MS / 2 + 2 * SECOND_MS);
    t.throws(() => a.watch.heard('pump-2', report(3)), { code: 'unavailable' });
    t.doesNotThrow(() => b.watch.heard('pump-3', report(4)), 'the other instance serves');
    t.throws(() => a.assertServing(), { code: 'unavailable' }, 'the load balancer avoids it');
    world.heal('a');
    await world.clock.advance(5 * SECOND_MS);
    t.doesNotThrow(() => a.watch.heard('pump-2', report(5)));
    await world.end();
  },
);

t.test('a last word that was answered survives a kill, and one that was not is refused', async (t) => {
  const world = await worldOf('a', 'b');
  const a = world.fleetOf('a');
  a.watch.heard(ID, report(1));
  await world.clock.advance(2 * SECOND_MS);
  a.watch.heard(ID, report(2));
  const answered = Promise.resolve(a.watch.heard(ID, report(3, 'stopping')));
  await world.clock.advance(0);
  await answered;
  world.kill('a');
  await world.clock.advance(DELAYS.stopDelayMs + 3 * MINUTE_MS);
  t.strictSame(world.toldOf(ID), ['stopped']);

  const b = world.fleetOf('b');
  b.watch.heard('pump-2', report(1));
  await world.clock.advance(2 * SECOND_MS);
  world.cut('b');
  const refused = t.rejects(Promise.resolve(b.watch.heard('pump-2', report(2, 'stopping'))), {
    code: 'unavailable',
  });
  await world.clock.advance(MINUTE_MS);
  await refused;
  world.heal('b');
  await world.end();
});
