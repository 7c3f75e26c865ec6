/** What may come between a decision of the watch and the answer of its store. */
import t from 'tap';
import { MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import { settled } from '../support/clock.js';
import { DELAYS, FleetWorld, OFFLINE_MS } from '../support/fleet-world.js';
import { newsIn, tellingBut } from '../support/telling.js';

const ID = 'pump-1';
const REPORT = { said: 'running', everyMs: 30 * SECOND_MS, sent: null } as const;

/** One instance, and one device that has just spoken. */
async function worldOf(): Promise<FleetWorld> {
  const world = await FleetWorld.calm('a');
  world.fleetOf('a').watch.heard(ID, REPORT);
  await world.clock.advance(2 * SECOND_MS);
  return world;
}

/** Calls back at each transaction that decides about the device, before and after it takes effect. */
function onDecision(world: FleetWorld, act: (isDone: boolean) => void): void {
  world.server.onOp = (_client, description) => {
    if (description.startsWith(`txn at/${ID} news/`)) act(description.endsWith(': done'));
  };
}

t.test('a heartbeat while people are being told of a silence does not shorten it', async (t) => {
  await using world = await worldOf();
  const lasted: unknown[] = [];
  world.tells = (machine, all) => {
    for (const news of newsIn(all)) if (news.kind === 'back') lasted.push(news.lastedMs);
    return world.tellAll(machine, all);
  };
  let isSaid = false;
  onDecision(world, (isDone) => {
    if (isSaid || !isDone) return;
    isSaid = true;
    world.fleetOf('a').watch.heard(ID, REPORT);
  });
  await world.clock.advance(OFFLINE_MS);
  t.ok(isSaid);
  t.strictSame(world.toldOf(ID), ['silent', 'back']);
  t.equal(lasted.length, 1);
  t.ok((lasted[0] as number) >= DELAYS.delayMs, `it lasted ${lasted[0]} ms`);
});

t.test('a heartbeat counts more than a decision that waits for etcd', async (t) => {
  await using world = await worldOf();
  const { watch } = world.fleetOf('a');
  await world.clock.advance(DELAYS.delayMs - 4 * SECOND_MS);
  const { server } = world;
  // The answer of one write is late.
  server.onOp = (_client, what) => {
    server.answerTurns = what === 'txn at/pump-2: done' ? 300 : 1;
  };
  watch.heard('pump-2', REPORT);
  await world.clock.advance(16 * SECOND_MS);
  t.strictSame(world.told, []);
  watch.heard(ID, REPORT);
  for (let turns = 0; turns < 300; turns += 4) await settled();
  await world.clock.advance(20 * SECOND_MS);
  t.strictSame(world.told, []);
});

t.test('a silence whose answer is lost is no return, also if the wall clock is set meanwhile', async (t) => {
  await using world = await worldOf();
  world.server.losesAnswer = (_client, description) => description.startsWith(`txn at/${ID} news/`);
  onDecision(world, (isDone) => {
    if (isDone) world.clock.leap(1);
  });
  await world.clock.advance(OFFLINE_MS + 3 * MINUTE_MS);
  t.strictSame(world.toldOf(ID), ['silent']);
});

t.test('a device that is removed while it is decided about is watched again when it calls', async (t) => {
  await using world = await worldOf();
  const { watch } = world.fleetOf('a');
  await world.clock.advance(OFFLINE_MS);
  watch.heard(ID, REPORT);
  await watch.forget(ID);
  await world.clock.advance(2 * SECOND_MS);
  world.told.splice(0);
  watch.heard(ID, REPORT);
  await world.clock.advance(OFFLINE_MS);
  t.strictSame(world.toldOf(ID), ['silent']);
});

t.test('a last word of a device that is removed is answered', async (t) => {
  await using world = await worldOf();
  const { watch } = world.fleetOf('a');
  const said = watch.heard(ID, { ...REPORT, said: 'stopping' });
  let isAnswered = false;
  void Promise.resolve(said).then(() => {
    isAnswered = true;
  });
  await watch.forget(ID);
  await world.clock.advance(20 * SECOND_MS);
  t.ok(isAnswered);
});

t.test('many devices with news move at once', async (t) => {
  await using world = await FleetWorld.calm('a');
  const { watch } = world.fleetOf('a');
  const ids = Array.from({ length: 32 }, (_, n) => `pump-${n}`);
  const say = (said: 'running' | 'moved') => {
    for (const id of ids) watch.heard(id, { ...REPORT, said });
  };
  world.tells = (_machine, all) => tellingBut(all, () => true);
  say('running');
  for (const ms of [OFFLINE_MS, 2 * OFFLINE_MS]) {
    await world.clock.advance(ms);
    say('running');
    await world.clock.advance(5 * SECOND_MS);
  }
  t.equal(world.server.keys('news/').length, 4 * ids.length);
  say('moved');
  await world.clock.advance(MINUTE_MS);
  t.equal(world.server.keys('news/').length, 0);
});

const sent = (uptimeMs: number) => ({ ...REPORT, sent: { bootId: 'b', uptimeMs } });

/** Another instance has heard the device, and decided that it is back. */
function decideElsewhere({ server }: FleetWorld): void {
  const at = { h: 'other', a: 1, f: 1, s: 'running', e: 30_000, b: 'b', u: 2000, st: {} };
  const back = { device: ID, kind: 'back', sinceMs: 1, lastedMs: 1 };
  server.txn(
    [],
    [
      { put: 'instance/other', value: '1' },
      { put: `at/${ID}`, value: JSON.stringify(at) },
      { put: 'news/back', value: JSON.stringify(back) },
    ],
  );
}

t.test('an answer that is late does not undo what another instance has decided since', async (t) => {
  await using world = await FleetWorld.calm('a');
  const { watch } = world.fleetOf('a');
  watch.heard(ID, sent(1000));
  await world.clock.advance(2 * SECOND_MS);
  let isDone = false;
  onDecision(world, (isKept) => {
    if (!isKept || isDone) return;
    isDone = true;
    world.server.answerTurns = 10;
    decideElsewhere(world);
    watch.heard(ID, sent(3000));
  });
  await world.clock.advance(DELAYS.delayMs);
  t.ok(isDone);
  world.server.answerTurns = 1;
  for (let n = 4; n < 8; n++) {
    await world.clock.advance(30 * SECOND_MS);
    watch.heard(ID, sent(n * 1000));
  }
  t.strictSame(world.toldOf(ID), ['silent', 'back']);
});

t.test('a decision that waits is dropped when another instance has decided the same', async (t) => {
  await using world = await FleetWorld.calm('a');
  const { watch } = world.fleetOf('a');
  watch.heard(ID, sent(1000));
  await world.clock.advance(OFFLINE_MS);
  decideElsewhere(world);
  watch.heard(ID, sent(3000));
  await world.clock.advance(30 * SECOND_MS);
  t.strictSame(world.toldOf(ID), ['silent', 'back']);
  t.equal(watch.sighting(ID)?.state, 'online');
});

t.test('a device whose record is damaged is watched', async (t) => {
  await using world = await FleetWorld.calm('a');
  const { watch } = world.fleetOf('a');
  world.server.txn([], [{ put: `at/${ID}`, value: 'x' }]);
  await world.clock.advance(SECOND_MS);
  watch.heard(ID, REPORT);
  await world.clock.advance(OFFLINE_MS);
  t.strictSame(world.toldOf(ID), ['silent']);
});

t.test('an instance whose watch of etcd is dead for long keeps no office and no devices', async (t) => {
  await using world = await FleetWorld.calm('a', 'b');
  const { server } = world;
  const say = (machine: string, id: string) => world.fleetOf(machine).watch.heard(id, REPORT);
  say('a', 'pump-a');
  say('b', 'pump-b');
  await world.clock.advance(2 * SECOND_MS);
  // Its requests go on.
  const watch = server.watch.bind(server);
  server.watch = (one) => {
    if (!one.client.startsWith('a#')) watch(one);
  };
  world.cut('a');
  world.heal('a');
  server.quorum = false;
  server.quorum = true;
  await world.clock.advance(OFFLINE_MS + 3 * MINUTE_MS);
  t.strictSame(world.toldOf('pump-b'), ['silent']);
  t.strictSame(world.toldOf('pump-a'), ['silent']);
  t.ok(world.told.every(({ machine }) => machine === 'b'));
});
