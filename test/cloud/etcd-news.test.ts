/** The way of news and messages from etcd into an outbox: what is closed, refused, handed over, and told twice or not. */
import t from 'tap';
import { MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import { EtcdError } from '../../src/cloud/etcd/etcd.js';
import { TELLER } from '../../src/cloud/etcd/layout.js';
import { FLEET_MESSAGES_MAX } from '../../src/cloud/etcd/messages.js';
import { DIGEST_WINDOW_MS, type NewsBatch } from '../../src/cloud/fleet-store.js';
import { OUTBOX_DEVICE_SHARE } from '../../src/cloud/outbox.js';
import { settled } from '../support/clock.js';
import { DELAYS, FleetWorld } from '../support/fleet-world.js';
import { testSeed } from '../support/random.js';
import { SMS } from './fleet-store-behaviour.js';

const seed = testSeed();
t.comment(`FIELDPOST_TEST_SEED=${seed}`);
const OFFLINE_MS = DELAYS.delayMs + 12 * SECOND_MS;

const worldOf = (...machines: string[]) => FleetWorld.calm(seed, ...machines);

const turns = async () => {
  for (let times = 0; times < 100; times++) await settled();
};

/** News in etcd as an owner of the devices has put them. */
function put(world: FleetWorld, ids: readonly string[]): void {
  for (const id of ids)
    world.server.txn(
      [],
      [{ put: `outbox/${id}/n`, value: JSON.stringify({ kind: 'silent', sinceMs: null }) }],
    );
}

t.test('a batch that could be closed by half only is told as a whole, under one id', async (t) => {
  const world = await worldOf('a');
  const ids = Array.from({ length: 100 }, (_, n) => `pump-${n + 100}`);
  // As a digest: of a closed batch that was told before under this id nothing more is told.
  const digests = new Map<string, readonly string[]>();
  world.tells = (machine, batch, isClosed) => {
    if (!isClosed) return { told: new Set(), refusal: null };
    if (!digests.has(batch.id)) digests.set(batch.id, batch.news.map(({ device }) => device).sort());
    return world.tellAll(machine, batch);
  };
  put(world, ids);
  await turns();
  let closes = 0;
  world.server.onOp = (_client, description) => {
    if (!/^txn outbox\/pump-\d+\/n outbox\/[^:]*$/.test(description)) return;
    // The second transaction of the first try.
    if (++closes === 2) throw new EtcdError('unavailable', 'etcd: no leader');
  };
  await world.clock.advance(DIGEST_WINDOW_MS + 10 * SECOND_MS);
  await turns();
  await world.clock.advance(10 * SECOND_MS);
  await turns();
  t.ok(closes > 2);
  t.strictSame([...digests.values()].flat().sort(), ids, 'everybody hears of every device');
  t.equal(world.server.keys('outbox/').length, 0);
  await world.clock.advance(MINUTE_MS);
  t.equal(world.server.keys('whole/').length, 0, 'nothing of the batch stays');
  await world.end();
});

t.test('a batch whose close had no answer is told, and what came after it as well', async (t) => {
  const world = await worldOf('a');
  const ids = Array.from({ length: 30 }, (_, n) => `pump-${n + 10}`);
  // As a digest: of a batch that was told under this id nothing more is told.
  const digests = new Map<string, readonly string[]>();
  world.tells = (machine, batch, isClosed) => {
    if (!isClosed) return { told: new Set(), refusal: null };
    if (digests.has(batch.id)) return { told: new Set(batch.news.map(({ id }) => id)), refusal: null };
    digests.set(
      batch.id,
      batch.news.map(({ device }) => device),
    );
    return world.tellAll(machine, batch);
  };
  put(world, ids);
  await turns();
  let isLost = false;
  world.server.losesAnswer = (_client, description) => {
    if (isLost || !/^txn outbox.* whole\//.test(description)) return false;
    isLost = true;
    put(world, ['late']);
    return true;
  };
  for (let n = 0; n < 3; n++) {
    await world.clock.advance(DIGEST_WINDOW_MS + 10 * SECOND_MS);
    await turns();
  }
  t.ok(isLost);
  t.strictSame([...digests.values()].flat().sort(), ['late', ...ids]);
  t.equal(world.server.keys('outbox/').length, 0);
  await world.end();
});

t.test('news that come while the teller does not know that its lease goes on are told', async (t) => {
  const world = await worldOf('a');
  world.server.losesAnswer = (_client, description) => description === 'keepAlive';
  await world.clock.advance(12 * SECOND_MS);
  t.notOk(world.fleetOf('a').mayTell());
  put(world, ['pump-1']);
  await world.clock.advance(SECOND_MS);
  t.strictSame(world.told, []);
  world.server.losesAnswer = () => false;
  await world.clock.advance(10 * SECOND_MS);
  t.match(world.told, [{ device: 'pump-1' }]);
  await world.end();
});

t.test('what was accepted and not deleted is deleted, and not told again', async (t) => {
  const world = await worldOf('a');
  const batches: NewsBatch[] = [];
  world.tells = (machine, batch) => {
    batches.push(batch);
    return world.tellAll(machine, batch);
  };
  let deletes = 0;
  world.server.onOp = (_client, description) => {
    if (description === 'txn outbox/pump-1/n' && ++deletes === 1)
      throw new EtcdError('unavailable', 'etcd: no leader');
  };
  put(world, ['pump-1']);
  // The test's own put is none of the instance's operations.
  await world.clock.advance(SECOND_MS);
  t.equal(world.server.keys('outbox/').length, 1);
  await world.clock.advance(10 * SECOND_MS);
  t.equal(world.server.keys('outbox/').length, 0);
  t.equal(batches.length, 1);
  await world.end();
});

t.test('after a list the news of a device are in the order in which they came', async (t) => {
  const world = await worldOf('a');
  world.tells = () => ({ told: new Set(), refusal: new Error('full') });
  for (const [name, kind] of [
    ['z', 'silent'],
    ['a', 'back'],
    ['m', 'silent'],
  ] as const)
    world.server.txn(
      [],
      [{ put: `outbox/pump-1/${name}`, value: JSON.stringify({ kind, sinceMs: null, lastedMs: null }) }],
    );
  await world.end();
  const batches: NewsBatch[] = [];
  world.tells = (machine, batch) => {
    batches.push(batch);
    return world.tellAll(machine, batch);
  };
  await world.start('b');
  await world.clock.advance(30 * SECOND_MS);
  t.strictSame(
    batches[0]?.news.map(({ id }) => id),
    ['z', 'a', 'm'],
  );
  await world.end();
});

t.test('a clean stop tells the open batch, so the next teller tells nobody again', async (t) => {
  const world = await worldOf('a', 'b');
  const teller = world.ownerOf(TELLER) as string;
  const calls: [string, boolean][] = [];
  // One person of the device is told at once, another waits for the end of the batch.
  world.tells = (machine, batch, isClosed) => {
    calls.push([machine, isClosed]);
    return isClosed ? world.tellAll(machine, batch) : { told: new Set(), refusal: null };
  };
  put(world, ['pump-1']);
  await world.clock.advance(SECOND_MS);
  t.strictSame(calls, [[teller, false]]);
  await world.stop(teller);
  t.strictSame(calls.slice(1), [[teller, true]]);
  await world.clock.advance(5 * MINUTE_MS);
  t.strictSame([...new Set(calls.map(([machine]) => machine))], [teller]);
  t.equal(world.server.keys('outbox/').length, 0);
  await world.end();
});

t.test('nothing new is told after a stop', async (t) => {
  const world = await worldOf('a');
  let isStopping = false;
  world.server.onOp = (_client, description) => {
    // News come when the last run is over and the lease is not given up yet.
    if (description !== 'revoke' || isStopping) return;
    isStopping = true;
    put(world, ['pump-1']);
  };
  await world.stop('a');
  await turns();
  t.ok(isStopping);
  t.strictSame(world.told, []);
  t.equal(world.server.keys('outbox/').length, 1);
});

t.test('of two instances one tells, and after it was killed the other', async (t) => {
  const world = await worldOf('a', 'b');
  const teller = world.ownerOf(TELLER) as string;
  const other = teller === 'a' ? 'b' : 'a';
  put(world, ['pump-1']);
  await world.clock.advance(2 * SECOND_MS);
  t.strictSame(
    world.told.map(({ machine }) => machine),
    [teller],
  );
  t.ok(world.fleetOf(teller).mayTell());
  t.notOk(world.fleetOf(other).mayTell());
  world.kill(teller);
  put(world, ['pump-2']);
  await world.clock.advance(15 * SECOND_MS);
  t.strictSame(
    world.told.map(({ machine }) => machine),
    [teller, other],
  );
  await world.end();
});

t.test('a teller that was cut off tells nothing once its lease may have run out', async (t) => {
  const world = await worldOf('a', 'b');
  const teller = world.ownerOf(TELLER) as string;
  const fleet = world.fleetOf(teller);
  world.cut(teller);
  await world.clock.advance(11 * SECOND_MS);
  t.notOk(fleet.mayTell());
  put(world, ['pump-1']);
  await world.clock.advance(MINUTE_MS);
  world.heal(teller);
  await world.clock.advance(MINUTE_MS);
  t.equal(world.told.length, 1);
  t.not(world.told[0]?.machine, teller);
  await world.end();
});

t.test('a device that moves takes its news back, also those of a closed batch', async (t) => {
  const world = await worldOf('a');
  const device = world.add('pump-1');
  await world.clock.advance(MINUTE_MS);
  world.tells = () => ({ told: new Set(), refusal: new Error('full') });
  device.silence();
  await world.clock.advance(OFFLINE_MS + 2 * DIGEST_WINDOW_MS);
  t.equal(world.server.keys('outbox/').length, 1);
  t.equal(world.server.keys('whole/').length, 1, 'it is closed');
  device.say('moved');
  await world.clock.advance(15 * SECOND_MS);
  t.equal(world.server.keys('outbox/').length, 0);
  t.match(world.server.keyOf('told/pump-1')?.value, /"o":0/);
  world.tells = (machine, batch) => world.tellAll(machine, batch);
  await world.clock.advance(5 * MINUTE_MS);
  t.strictSame(world.told, []);
  await world.end();
});

t.test('a message whose acceptance fails does not hold back others, nor news', async (t) => {
  const world = await worldOf('a');
  const fleet = world.fleetOf('a');
  const take = (key: string) => fleet.takeMessage('pump-1', SMS, { key, hash: key }, () => undefined);
  world.refusedKeys.add('bad');
  await take('bad');
  await take('good');
  put(world, ['pump-1']);
  await world.clock.advance(10 * SECOND_MS);
  t.strictSame(
    world.accepted.map(({ key }) => key),
    ['good'],
  );
  t.equal(world.told.length, 1);
  t.equal(world.server.keys('message/').length, 1);
  world.refusedKeys.clear();
  await world.clock.advance(10 * SECOND_MS);
  t.strictSame(
    world.accepted.map(({ key }) => key),
    ['good', 'bad'],
  );
  t.equal(world.server.keys('message/').length, 0);
  await world.end();
});

t.test(
  'messages of a device beyond its share are refused, or wait without holding back the others',
  async (t) => {
    const world = await worldOf('a');
    const fleet = world.fleetOf('a');
    const take = (device: string, id: number) => {
      const key = `message ${device} ${id}`;
      if (device === 'thief') world.refusedKeys.add(key);
      return fleet.takeMessage(device, SMS, { key, hash: key }, () => undefined);
    };
    const share = FLEET_MESSAGES_MAX * OUTBOX_DEVICE_SHARE;
    for (let id = 0; id < share; id++) await take('thief', id);
    await settled();
    await t.rejects(take('thief', share), { code: 'queue-full' });
    t.equal(await take('thief', 0), false, 'it has its room already');
    t.equal(await take('pump-1', 1), true);
    t.equal(await take('pump-1', 1), false, 'the same again');
    await world.clock.advance(10 * SECOND_MS);
    t.match(world.accepted, [{ key: 'message pump-1 1' }]);
    world.refusedKeys.clear();
    await world.clock.advance(10 * SECOND_MS);
    t.equal(world.accepted.length, share + 1);
    t.equal(await take('thief', share), true);
    await world.end();
  },
);
