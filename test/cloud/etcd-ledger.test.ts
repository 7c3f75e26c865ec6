/** What instances write of devices in etcd: who is a device's home, and decisions that hold or do not. */
import t from 'tap';
import { MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import { ETCD_TIMEOUT_MS, EtcdError } from '../../src/cloud/etcd/etcd.js';
import type { Said } from '../../src/cloud/presence.js';
import { PRESENCE_WRITE_MS } from '../../src/cloud/watch.js';
import { settled } from '../support/clock.js';
import { DELAYS, FleetWorld, OFFLINE_MS } from '../support/fleet-world.js';

const ID = 'pump-1';
const AT = `at/${ID}`;

/** A heartbeat to one instance. */
function say(world: FleetWorld, machine: string, uptimeMs: number, said: Said = 'running', id = ID) {
  const sent = { bootId: 'b', uptimeMs };
  return world.fleetOf(machine).watch.heard(id, { said, everyMs: 30 * SECOND_MS, sent });
}

/** Calls `act` for each transaction that has this in its description, before it is done. */
function before(world: FleetWorld, what: RegExp, act: (tries: number) => void): void {
  let tries = 0;
  world.server.onOp = (_client, description) => {
    if (what.test(description) && !description.endsWith(': done')) act(++tries);
  };
}

const away = () => new EtcdError('unavailable', 'etcd: the connection was lost');

/** One instance, and one device that falls silent; `meanwhile` comes between each decision and etcd. */
async function decided(meanwhile: (world: FleetWorld, tries: number) => void): Promise<FleetWorld> {
  const world = await FleetWorld.calm('a');
  const device = world.add(ID);
  await world.clock.advance(2 * MINUTE_MS);
  before(world, /^txn at\/\S+ news\//, (tries) => meanwhile(world, tries));
  device.silence();
  return world;
}

t.test(
  'heartbeats are not written, but a change within a second, and the times every 5 minutes',
  async (t) => {
    await using world = await FleetWorld.calm('a', 'b');
    const writes: number[] = [];
    before(world, new RegExp(`^txn ${AT}`), () => writes.push(world.clock.bootMs()));
    const steady = async (ms: number) => {
      for (let passedMs = 0; passedMs < ms; passedMs += 30 * SECOND_MS) {
        void say(world, 'a', world.clock.bootMs());
        await world.clock.advance(30 * SECOND_MS);
      }
    };
    await steady(4 * PRESENCE_WRITE_MS);
    // The second one is at a random moment: a fleet that comes at once does not write at once later.
    t.ok(writes.length === 4 || writes.length === 5, `${writes.length} writes`);
    t.match(world.fleetOf('b').watch.sighting(ID), { state: 'online' }, 'the others show it');
    const status = { version: '2', queue: null, relay: 'failing', link: null, late: [] };
    const changedMs = world.clock.bootMs();
    world.fleetOf('a').watch.heard(ID, { said: 'running', everyMs: 0, status });
    await world.clock.advance(1500);
    t.ok((writes.at(-1) ?? 0) - changedMs <= SECOND_MS);
    t.match(world.fleetOf('b').watch.sighting(ID)?.status, status);
  },
);

t.test('the instance that heard a device last watches it', async (t) => {
  await using world = await FleetWorld.calm('a', 'b');
  void say(world, 'a', 1);
  await world.clock.advance(2 * SECOND_MS);
  t.equal(world.recordOf(ID).home, 'a');
  await world.clock.advance(58 * SECOND_MS);
  void say(world, 'b', 60_000);
  await world.clock.advance(2 * SECOND_MS);
  t.equal(world.recordOf(ID).home, 'b');
  await world.clock.advance(DELAYS.delayMs - 3 * SECOND_MS);
  t.strictSame(world.told, [], 'the earlier home has heard nothing for longer');
  await world.clock.advance(15 * SECOND_MS);
  t.strictSame(world.toldOf(ID), ['silent']);
  void say(world, 'a', 300_000);
  await world.clock.advance(3 * SECOND_MS);
  t.strictSame(world.toldOf(ID), ['silent', 'back'], 'it returns at another one');
  t.equal(world.recordOf(ID).home, 'a');
});

t.test('of two heartbeats through two instances the later one stays, in etcd too', async (t) => {
  await using world = await FleetWorld.calm('a', 'b');
  void say(world, 'a', 1);
  await world.clock.advance(2 * SECOND_MS);
  void say(world, 'b', 3000, 'stopping');
  await world.clock.advance(500);
  void say(world, 'a', 2000);
  await world.clock.advance(5 * SECOND_MS);
  t.match(world.recordOf(ID), { home: 'b', s: 'stopping', u: 3000 });
  // The home has a later heartbeat that it has not written, and another instance writes a delayed one.
  void say(world, 'b', 4000, 'stopping');
  const { h: _, home: __, ...record } = world.recordOf(ID);
  world.server.txn(
    [],
    [{ put: AT, value: JSON.stringify({ ...record, h: 'gone-1', s: 'running', u: 3500 }) }],
  );
  await world.clock.advance(5 * SECOND_MS);
  t.match(world.recordOf(ID), { home: 'b', s: 'stopping', u: 4000 });
  await world.clock.advance(10 * MINUTE_MS);
  t.strictSame(world.told, []);
});

for (const [name, said] of [
  ['a last word', 'moved'],
  ['a heartbeat', 'running'],
] as const)
  t.test(`${name} to another instance is not lost when the home writes at the same time`, async (t) => {
    await using world = await FleetWorld.calm('a', 'b');
    void say(world, 'a', 1);
    await world.clock.advance(2 * SECOND_MS);
    const { home: _, ...record } = world.recordOf(ID);
    before(world, new RegExp(`^txn ${AT}`), (tries) => {
      // Also if it decides that the device is offline.
      const value = JSON.stringify({ ...record, u: 2000, ...(said === 'running' && { o: 1, l: 1 }) });
      if (tries === 1) world.server.txn([], [{ put: AT, value }]);
    });
    const answered = say(world, 'b', 3000, said);
    await world.clock.advance(5 * SECOND_MS);
    await answered;
    t.match(world.recordOf(ID), { home: 'b', s: said, u: 3000 });
    await world.clock.advance(12 * SECOND_MS);
    t.strictSame(world.toldOf(ID), said === 'running' ? ['back'] : []);
  });

t.test('a last word that was answered survives a kill, and an outage of etcd', async (t) => {
  await using world = await FleetWorld.calm('a', 'b');
  void say(world, 'a', 1);
  await world.clock.advance(2 * SECOND_MS);
  void say(world, 'a', 2);
  let isAnswered = false;
  const answered = Promise.resolve(say(world, 'a', 3, 'stopping')).then(() => {
    isAnswered = true;
  });
  await world.clock.advance(0);
  t.notOk(isAnswered, 'it is not in etcd yet');
  await world.clock.advance(1);
  await answered;
  world.kill('a');
  await world.clock.advance(DELAYS.stopDelayMs + 3 * MINUTE_MS);
  t.strictSame(world.toldOf(ID), ['stopped']);

  void say(world, 'b', 1, 'running', 'pump-2');
  await world.clock.advance(2 * SECOND_MS);
  world.server.quorum = false;
  const later = say(world, 'b', 2, 'stopping', 'pump-2');
  await world.clock.advance(ETCD_TIMEOUT_MS + SECOND_MS);
  await later;
  world.server.quorum = true;
  await world.clock.advance(10 * SECOND_MS);
  t.match(world.recordOf('pump-2'), { s: 'stopping' });
});

t.test('a removed device does not return with a heartbeat on its way', async (t) => {
  for (const other of ['a', 'b']) {
    await using world = await FleetWorld.calm('a', 'b');
    void say(world, 'a', 1);
    await world.clock.advance(2 * SECOND_MS);
    world.fleetOf(other).watch.heard(ID, { said: 'running', everyMs: 0 });
    let removing: Promise<void> | null = null;
    before(world, new RegExp(`^txn ${AT}$`), () => {
      removing ??= world.fleetOf('a').watch.forget(ID);
    });
    await world.clock.advance(2 * SECOND_MS);
    t.ok(removing, 'the removal came during the flush');
    await removing;
    await world.clock.advance(MINUTE_MS);
    t.equal(world.server.keyOf(AT), null, other);
    t.notOk(world.fleetOf('a').watch.has(ID) || world.fleetOf('b').watch.has(ID));
    void say(world, 'b', 1);
    await world.clock.advance(OFFLINE_MS);
    t.strictSame(world.toldOf(ID), ['silent'], 'it is new, and watched');
    // One that is not in etcd yet.
    void say(world, 'b', 1, 'running', 'pump-2');
    const removed = world.fleetOf('b').watch.forget('pump-2');
    await world.clock.advance(2 * SECOND_MS);
    await removed;
    t.notOk(world.fleetOf('b').watch.has('pump-2'));
  }
});

t.test(
  'a heartbeat that another instance took at the last moment counts more than the decision',
  async (t) => {
    let heardMs = 0;
    await using world = await decided(({ server, clock }, tries) => {
      if (tries > 1) return;
      heardMs = clock.bootMs();
      const { u, ...record } = JSON.parse(server.keyOf(AT)?.value ?? '');
      server.txn([], [{ put: AT, value: JSON.stringify({ ...record, h: 'b-1', u: u + 90_000 }) }]);
    });
    await world.clock.advance(OFFLINE_MS);
    t.ok(heardMs > 0);
    t.strictSame(world.told, []);
    await world.clock.advance(OFFLINE_MS);
    t.match(world.told, [{ kind: 'silent' }]);
    t.ok((world.told[0]?.atMs ?? 0) >= heardMs + DELAYS.delayMs);
  },
);

t.test('a decision that another instance has just made is not made again', async (t) => {
  await using world = await decided(({ server }, tries) => {
    const record = JSON.parse(server.keyOf(AT)?.value ?? '');
    if (tries === 1)
      server.txn([], [{ put: AT, value: JSON.stringify({ ...record, h: 'b-1', o: 1, l: record.a }) }]);
  });
  await world.clock.advance(5 * MINUTE_MS);
  t.strictSame(world.told, []);
  t.equal(world.fleetOf('a').watch.sighting(ID)?.state, 'offline');
});

t.test('a decision that etcd gets after the lease has run out does not hold', async (t) => {
  let lostMs = 0;
  await using world = await decided(({ server, clock }, tries) => {
    if (tries > 1) return;
    lostMs = clock.bootMs();
    for (const { key } of server.keys('instance/')) server.txn([], [{ delete: key }]);
  });
  await world.clock.advance(OFFLINE_MS);
  t.ok(lostMs > 0);
  t.strictSame(world.told, []);
  await world.clock.advance(OFFLINE_MS);
  t.match(world.told, [{ kind: 'silent' }]);
  t.ok((world.told[0]?.atMs ?? 0) >= lostMs + DELAYS.delayMs, 'after a fresh delay');
});

t.test('a decision that fails is made again; one that has happened without an answer is not', async (t) => {
  // Tries 5 and 6 are those of its return.
  await using failing = await decided((_world, tries) => {
    if (tries <= 3 || tries === 5 || tries === 6) throw away();
  });
  await using lost = await decided(() => undefined);
  lost.server.losesAnswer = (_client, description) => description.startsWith(`txn ${AT} news/`);
  for (const world of [failing, lost]) {
    await world.clock.advance(OFFLINE_MS + MINUTE_MS);
    t.strictSame(world.toldOf(ID), ['silent']);
    world.devices.get(ID)?.say('running');
    await world.clock.advance(MINUTE_MS);
    t.strictSame(world.toldOf(ID), ['silent', 'back']);
    t.equal(world.told.length, 2);
    t.equal(world.server.keys('news/').length, 0);
  }
});

t.test('a record that fails holds back no other decision of its transaction', async (t) => {
  await using world = await FleetWorld.calm('a');
  const ids = Array.from({ length: 30 }, (_, n) => `pump-${n + 10}`);
  for (const id of ids) void say(world, 'a', 1, 'running', id);
  await world.clock.advance(2 * SECOND_MS);
  let triedMs = 0;
  before(world, /news\//, () => {
    triedMs ||= world.clock.bootMs();
    const { home: _, ...record } = world.recordOf('pump-20');
    world.server.txn(
      [],
      [{ put: 'at/pump-20', value: JSON.stringify({ ...record, h: 'b-1', u: world.clock.bootMs() }) }],
    );
  });
  while (triedMs === 0) await world.clock.advance(SECOND_MS);
  // At once, and not at the next check.
  for (let times = 0; times < 300; times++) await settled();
  await world.clock.advance(10);
  t.strictSame(
    world.told.map(({ device }) => device).sort(),
    ids.filter((id) => id !== 'pump-20'),
  );
});

t.test('the devices of an instance that is gone have a fresh delay', async (t) => {
  for (const leave of ['stop', 'kill'] as const) {
    for (const machine of ['a', 'b']) {
      await using world = await FleetWorld.calm('a', 'b');
      void say(world, machine, 1);
      await world.clock.advance(DELAYS.delayMs - 12 * SECOND_MS);
      await world[leave](machine);
      while (world.server.keys('instance/').length > 1) await world.clock.advance(SECOND_MS);
      const goneMs = world.clock.bootMs();
      await world.clock.advance(OFFLINE_MS);
      t.match(world.told, [{ kind: 'silent' }], `${leave} ${machine}`);
      t.ok((world.told[0]?.atMs ?? 0) >= goneMs + DELAYS.delayMs - SECOND_MS, `${leave} ${machine}`);
    }
  }
});

t.test('an instance that was away takes no silence back with a heartbeat of before', async (t) => {
  await using world = await FleetWorld.calm('b', 'a');
  void say(world, 'a', 1);
  await world.clock.advance(30 * SECOND_MS);
  // Only memory has this one.
  void say(world, 'a', 30_001);
  await world.clock.advance(SECOND_MS);
  world.cut('a');
  await world.clock.advance(DELAYS.delayMs + 40 * SECOND_MS);
  t.strictSame(world.toldOf(ID), ['silent']);
  world.heal('a');
  await world.clock.advance(3 * MINUTE_MS);
  t.strictSame(world.toldOf(ID), ['silent']);
});

/** The home of a device is `a`. Then etcd has no quorum, and `b` hears the device. */
async function heardElsewhere(): Promise<FleetWorld> {
  const world = await FleetWorld.calm('a', 'b');
  void say(world, 'a', 1);
  await world.clock.advance(2 * SECOND_MS);
  world.server.quorum = false;
  await world.clock.advance(20 * SECOND_MS);
  void say(world, 'b', 20_000);
  return world;
}

t.test('the home keeps a device whose earlier heartbeat another instance writes later', async (t) => {
  await using world = await heardElsewhere();
  for (const uptimeMs of [50_000, 80_000]) {
    await world.clock.advance(30 * SECOND_MS);
    void say(world, 'a', uptimeMs);
  }
  await world.clock.advance(20 * SECOND_MS);
  world.server.quorum = true;
  await world.clock.advance(10 * SECOND_MS);
  t.match(world.recordOf(ID), { home: 'a', u: 80_000 });
});

t.test('what was heard without a quorum is no silence yet when it is written late', async (t) => {
  await using world = await heardElsewhere();
  await world.clock.advance(2 * DELAYS.delayMs);
  world.server.onOp = (client, what) => {
    if (client.startsWith('b') && what === `txn ${AT}`) throw away();
  };
  world.server.quorum = true;
  // A check for silence comes before the write.
  await world.clock.advance(15 * SECOND_MS);
  world.server.onOp = () => undefined;
  await world.clock.advance(2 * SECOND_MS);
  t.match(world.recordOf(ID), { home: 'b', u: 20_000 });
  await world.clock.advance(DELAYS.delayMs - 20 * SECOND_MS);
  t.strictSame(world.toldOf(ID), []);
  await world.clock.advance(40 * SECOND_MS);
  t.strictSame(world.toldOf(ID), ['silent']);
});

t.test('people hear in time of a device whose home dies after the next leader was away', async (t) => {
  await using world = await FleetWorld.calm('a', 'b');
  void say(world, 'b', 1);
  await world.clock.advance(2 * SECOND_MS);
  world.cut('a');
  await world.clock.advance(30 * SECOND_MS);
  world.heal('a');
  await world.clock.advance(20 * SECOND_MS);
  world.kill('b');
  await world.clock.advance(10 * SECOND_MS + OFFLINE_MS);
  t.strictSame(world.toldOf(ID), ['silent']);
});

t.test('a call that cannot be kept does not take the device from its home', async (t) => {
  await using world = await FleetWorld.calm('a', 'b');
  // It reports no boot.
  const beat = () => world.fleetOf('a').watch.heard(ID, { said: 'running', everyMs: 30 * SECOND_MS });
  for (let times = 0; times < 8; times++) {
    void beat();
    await world.clock.advance(30 * SECOND_MS);
  }
  let isAway = true;
  before(world, new RegExp(`^txn ${AT}`), () => {
    if (isAway) throw away();
  });
  const refused = t.rejects(world.fleetOf('b').watch.drill(ID, null), { code: 'unavailable' });
  await world.clock.advance(100);
  await refused;
  isAway = false;
  void beat();
  await world.clock.advance(29 * SECOND_MS);
  t.equal(world.recordOf(ID).home, 'a');
  t.strictSame(world.told, [], 'it is not offline');
});

t.test('a heartbeat counts beside a call that comes with it', async (t) => {
  for (const isCallFirst of [false, true]) {
    await using world = await FleetWorld.calm('a', 'b');
    void say(world, 'a', 1);
    await world.clock.advance(80 * SECOND_MS);
    if (!isCallFirst) void say(world, 'b', 80_000);
    const drill = world.fleetOf('b').watch.drill(ID, null);
    if (isCallFirst) void say(world, 'b', 80_000);
    await world.clock.advance(2 * SECOND_MS);
    await drill;
    t.equal(world.recordOf(ID).home, 'b');
    await world.clock.advance(DELAYS.delayMs - 5 * SECOND_MS);
    t.strictSame(world.toldOf(ID), ['drill']);
  }
});

t.test('what is kept and not answered is not told again', async (t) => {
  await using world = await FleetWorld.calm('a');
  void say(world, 'a', 1);
  await world.clock.advance(2 * SECOND_MS);
  let lost = 0;
  world.server.losesAnswer = (_client, description) => /^txn at\/\S+ news\//.test(description) && ++lost <= 2;
  const { watch } = world.fleetOf('a');
  const untilMs = world.clock.wallMs() + MINUTE_MS;
  const quiet = watch.quiet(ID, { untilMs, why: null });
  await world.clock.advance(10 * SECOND_MS);
  await quiet;
  t.strictSame(world.toldOf(ID), ['quiet']);
  lost = 0;
  const word = watch.heard(ID, { said: 'running', everyMs: 0, last: 'mains failed' });
  await world.clock.advance(10 * SECOND_MS);
  await word;
  t.strictSame(world.toldOf(ID), ['quiet', 'word']);
  lost = 1;
  await world.clock.advance(2 * MINUTE_MS + OFFLINE_MS);
  t.strictSame(world.toldOf(ID), ['quiet', 'word', 'silent']);
  t.match(world.fleetOf('a').watch.sighting(ID)?.marks, { word: { text: 'mains failed' } });
  for (let hours = 0; hours < 23; hours++) {
    world.clock.suspend(59 * MINUTE_MS);
    await world.clock.advance(MINUTE_MS);
  }
  lost = 1;
  for (let hours = 0; hours < 3; hours++) {
    world.clock.suspend(59 * MINUTE_MS);
    await world.clock.advance(MINUTE_MS);
  }
  t.strictSame(world.toldOf(ID), ['quiet', 'word', 'silent', 'still']);
  lost = 1;
  void say(world, 'a', 9);
  await world.clock.advance(20 * SECOND_MS);
  t.strictSame(world.toldOf(ID), ['quiet', 'word', 'silent', 'still', 'back']);
  t.match(world.fleetOf('a').watch.sighting(ID)?.marks, {
    word: null,
    reminded: 0,
    past: [[Number, Number]],
  });
});

t.test('a fleet that moves takes back more news than one transaction takes', async (t) => {
  await using world = await FleetWorld.calm('a');
  world.tells = () => ({ settled: new Map(), refusal: new Error('the outbox is full') });
  const { watch } = world.fleetOf('a');
  const ids = Array.from({ length: 40 }, (_, n) => `pump-${n}`);
  for (const id of ids) void say(world, 'a', 1, 'running', id);
  await world.clock.advance(2 * SECOND_MS);
  for (let times = 0; times < 4; times++) {
    for (const id of ids) void watch.drill(id, null);
    await world.clock.advance(SECOND_MS);
  }
  await world.clock.advance(OFFLINE_MS);
  t.equal(world.server.keys('news/').length, 5 * ids.length);
  for (const id of ids) void say(world, 'a', 200_000, 'moved', id);
  await world.clock.advance(10 * SECOND_MS);
  t.equal(world.server.keys('news/').length, 0);
});
