/**
 * Random histories of a fleet: instances are killed, stopped, started and cut off, etcd loses its quorum or an answer, while
 * devices speak, fall silent and return. Nobody is told of a device that spoke, everybody of one that did not. News are told
 * twice only if the first teller was killed or cut off.
 */
// A process of its own: it takes long.
import t from 'tap';
import { CLOUD_GRACE_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/limits.js';
import { DELAYS, FleetWorld } from '../support/fleet-world.js';
import { pick, testSeed } from '../support/random.js';

const seed = testSeed();
t.comment(`FIELDPOST_TEST_SEED=${seed}`);
const HISTORIES = process.env.FIELDPOST_TEST_LONG === '1' ? 40 : 3;
const MACHINES = ['a', 'b', 'c'];
const DEVICES = 15;
/** A silence of at most this is shorter than a delay, with the interval before it. */
const SHORT_MS = 40 * SECOND_MS;
/** Within this everything is told again: a grace, a delay, and a start. */
const CALM_MS = CLOUD_GRACE_MS + 3 * DELAYS.delayMs;

for (let history = 0; history < HISTORIES; history++) {
  t.test(`history ${history}`, async (t) => {
    const world = new FleetWorld(seed + history);
    const { clock, random, server } = world;
    const troubles: { readonly machine: string; readonly atMs: number }[] = [];
    const long = new Map<string, number>();
    for (const machine of MACHINES) await world.start(machine);
    server.losesAnswer = () => random() < 0.005;
    for (let n = 0; n < DEVICES; n++) world.add(`pump-${n}`);
    await clock.advance(MINUTE_MS);

    const trouble = (machine: string) => troubles.push({ machine, atMs: clock.bootMs() });
    const faults: Record<string, () => Promise<void> | void> = {
      async kill() {
        const machine = pick(random, MACHINES);
        world.kill(machine);
        trouble(machine);
        await clock.advance(random() * MINUTE_MS);
        await startAgain(world, machine);
      },
      async stop() {
        const machine = pick(random, MACHINES);
        const stopping = world.stop(machine);
        await clock.advance(random() * MINUTE_MS);
        await stopping;
        await startAgain(world, machine);
      },
      async cut() {
        const machine = pick(random, MACHINES);
        world.cut(machine);
        trouble(machine);
        await clock.advance(random() * MINUTE_MS);
        world.heal(machine);
      },
      async quorum() {
        server.quorum = false;
        for (const machine of MACHINES) trouble(machine);
        await clock.advance(random() * 2 * MINUTE_MS);
        server.quorum = true;
      },
      async short() {
        const device = pick(random, [...world.devices.values()]);
        if (device.isSilent) return;
        device.silence();
        await clock.advance(random() * SHORT_MS);
        device.speak();
        device.say('running');
      },
      long() {
        const device = pick(random, [...world.devices.values()]);
        if (device.isSilent) device.speak();
        else {
          long.set(device.id, (long.get(device.id) ?? 0) + 1);
          device.silence();
        }
      },
    };
    for (const endMs = clock.bootMs() + HOUR_MS; clock.bootMs() < endMs; ) {
      await pick(random, Object.values(faults))();
      await clock.advance(random() * 2 * MINUTE_MS);
    }
    server.losesAnswer = () => false;
    for (const machine of MACHINES) await startAgain(world, machine);
    await clock.advance(CALM_MS);

    for (const { id, isSilent } of world.devices.values()) {
      const told = world.toldOf(id);
      const alternates = told.every((kind, n) => kind === (n % 2 === 0 ? 'silent' : 'back'));
      t.ok(alternates, `${id} is told in turns: ${told}`);
      t.equal(told.at(-1) ?? 'back', isSilent ? 'silent' : 'back', `${id}: what was told last is so`);
      const silent = told.filter((kind) => kind === 'silent').length;
      t.ok(silent <= (long.get(id) ?? 0), `${id} was silent ${long.get(id)} times, told ${silent} times`);
    }
    t.ok(world.told.length > 0, 'people are told');
    for (const [index, one] of world.told.entries()) {
      const earlier = world.told.slice(0, index).find(({ id }) => id === one.id);
      if (earlier === undefined) continue;
      const excuse = troubles.some(
        ({ machine, atMs }) =>
          machine === earlier.machine && atMs >= earlier.atMs - 2 * MINUTE_MS && atMs <= one.atMs,
      );
      t.ok(excuse, `${one.id} was told by ${earlier.machine} and by ${one.machine}`);
    }
    for (const machine of MACHINES) await world.stop(machine);
  });
}

/** Starts the instance of a machine, unless it runs, as soon as etcd is there. */
async function startAgain(world: FleetWorld, machine: string): Promise<void> {
  while (!world.running.has(machine)) {
    const starting = world.start(machine).catch(() => undefined);
    let isOver = false;
    void starting.then(() => {
      isOver = true;
    });
    while (!isOver) await world.clock.advance(SECOND_MS);
  }
}
