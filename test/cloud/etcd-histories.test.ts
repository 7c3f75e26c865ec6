/**
 * Random histories of a fleet: instances are killed, stopped, started and cut off, etcd loses its quorum or an answer, clocks jitter, while
 * devices speak, fall silent and return. Everybody is told of a device that fell silent, and nobody of one that spoke. News
 * are told twice only if the first teller was killed or cut off.
 *
 * A heartbeat that was taken counts, but for one that the device's home could not learn of: another instance took it, and
 * was killed or cut off before it wrote that to etcd. A device mostly calls the instance that took its last heartbeat, else
 * any.
 */
// A process of its own: it takes long.
import t, { type Test } from 'tap';
import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import { CLOUD_GRACE_MS } from '../../src/cloud/presence.js';
import { type Call, DELAYS, FleetWorld } from '../support/fleet-world.js';
import { pick, testSeed } from '../support/random.js';

const seed = testSeed();
t.comment(`FIELDPOST_TEST_SEED=${seed}`);
const HISTORIES = process.env.FIELDPOST_TEST_LONG === '1' ? 40 : 12;
/** Histories in which this test once failed; each run has them. */
const KEPT_SEEDS = [2_405_002_489, 8081, 451_173_796];
const MACHINES = ['a', 'b', 'c'];
const DEVICES = 15;
/** A silence of at most this is shorter than a delay, with the interval before it. */
const SHORT_MS = 40 * SECOND_MS;
/** Within this everything is told again: a grace, the longest damped delay, and a check for silence. */
const CALM_MS = CLOUD_GRACE_MS + 9 * DELAYS.delayMs;
/** A check for silence, and the way through etcd. */
const SLACK_MS = DELAYS.delayMs / 10 + 3 * SECOND_MS;
/** A home is in etcd after this: records are written each second. */
const WRITTEN_MS = 2 * SECOND_MS;
/** An instance that is cut off takes heartbeats for as long: its lease. */
const LEASE_MS = 10 * SECOND_MS;
/** After a longer time without a quorum devices get a fresh delay: memory was old, or a request has failed. */
const STALE_MS = 16 * SECOND_MS;

/** A machine is killed, or etcd is away for it. */
interface Trouble {
  readonly machine: string;
  /** Etcd is away for all. */
  readonly isOfAll: boolean;
  readonly fromMs: number;
  toMs: number;
}

let tellings = 0;
for (const history of [...KEPT_SEEDS, ...Array.from({ length: HISTORIES }, (_, n) => seed + n)]) {
  t.test(`history ${history}`, async (t) => {
    const world = new FleetWorld(history);
    const { clock, random, server } = world;
    const troubles: Trouble[] = [];
    for (const machine of MACHINES) await world.start(machine);
    server.losesAnswer = (_client, what) => random() < (what.includes(' news/') ? 0.2 : 0.005);
    server.onOp = () => {
      server.answerTurns = 1 + Math.floor(random() * 6);
      // The wall and the boot clock of a real machine are rounded, and not at the same moment.
      clock.leap(pick(random, [-1, 0, 1]));
    };
    for (let n = 0; n < DEVICES; n++) world.add(`pump-${n}`);
    await clock.advance(MINUTE_MS);

    /** Returns what ends it. */
    const trouble = (machine: string, isOfAll = false) => {
      const one = { machine, isOfAll, fromMs: clock.bootMs(), toMs: clock.bootMs() };
      troubles.push(one);
      return () => {
        one.toMs = clock.bootMs();
      };
    };
    /** Mostly less than a lease and a delay. */
    const awhile = () => clock.advance(random() * (random() < 0.3 ? 5 : 1) * MINUTE_MS);
    const faults: Record<string, () => Promise<void> | void> = {
      async kill() {
        const machine = pick(random, MACHINES);
        world.kill(machine);
        trouble(machine);
        await awhile();
        await startAgain(world, machine);
      },
      async stop() {
        const machine = pick(random, MACHINES);
        const stopping = world.stop(machine);
        await awhile();
        await stopping;
        await startAgain(world, machine);
      },
      async cut() {
        const machine = pick(random, MACHINES);
        world.cut(machine);
        const end = trouble(machine);
        await awhile();
        world.heal(machine);
        end();
      },
      async quorum() {
        server.quorum = false;
        const ends = MACHINES.map((machine) => trouble(machine, true));
        await awhile();
        server.quorum = true;
        for (const end of ends) end();
      },
      async short() {
        const device = pick(random, [...world.devices.values()]);
        if (device.isSilent) return;
        device.silence();
        await clock.advance(random() * SHORT_MS);
        device.speak();
        device.say('running');
      },
      twice() {
        const device = pick(random, [...world.devices.values()]);
        for (let times = 0; times < 3 && !device.isSilent; times++) device.say('running');
      },
      compact() {
        server.compact(server.revision);
      },
      long() {
        const device = pick(random, [...world.devices.values()]);
        if (device.isSilent) device.speak();
        else device.silence();
      },
    };
    for (const endMs = clock.bootMs() + HOUR_MS; clock.bootMs() < endMs; ) {
      await pick(random, Object.values(faults))();
      await clock.advance(random() * 2 * MINUTE_MS);
    }
    server.losesAnswer = () => false;
    // In a world that is silent few timers give answers their turns.
    server.onOp = () => undefined;
    server.answerTurns = 1;
    for (const machine of MACHINES) await startAgain(world, machine);
    await clock.advance(CALM_MS);

    const isLost = ({ machine, home, atMs }: Call) =>
      machine !== home &&
      troubles.some(
        (one) =>
          one.machine === machine &&
          atMs >= one.fromMs - WRITTEN_MS &&
          atMs <= Math.min(one.toMs, one.fromMs + LEASE_MS) &&
          !(one.isOfAll && one.toMs - one.fromMs > STALE_MS),
      );
    const bootedMs = clock.wallMs() - clock.bootMs();
    for (const { device, kind, sinceMs, atMs } of world.told) {
      if (kind !== 'silent') continue;
      if (sinceMs === null) throw new Error(`people are not told since when ${device} is silent`);
      const calls = world.calls.filter((call) => call.device === device && !isLost(call));
      const moments = [sinceMs - bootedMs, ...calls.map((call) => call.atMs), atMs];
      const spoke = moments.filter((momentMs) => momentMs >= sinceMs - bootedMs && momentMs <= atMs);
      const silentMs = Math.max(...spoke.map((momentMs, n) => momentMs - (spoke[n - 1] ?? momentMs)));
      t.ok(silentMs >= DELAYS.delayMs - WRITTEN_MS, `${device} was silent for ${silentMs} ms`);
    }
    await assertPrompt(t, world);
    for (const { id, isSilent } of world.devices.values()) {
      const told = world.toldOf(id);
      const alternates = told.every((kind, n) => kind === (n % 2 === 0 ? 'silent' : 'back'));
      t.ok(alternates, `${id} is told in turns: ${told}`);
      const heard = world.told.filter(({ device }) => device === id);
      for (const [n, { kind, sinceMs }] of heard.entries()) {
        const before = heard.slice(0, n).findLast((one) => one.kind === 'silent');
        if (kind !== 'back' || before === undefined) continue;
        const silentMs = (sinceMs ?? 0) - (before.sinceMs ?? 0);
        t.ok(
          silentMs > SECOND_MS,
          `${id} is back because it was heard ${silentMs} ms after its silence began`,
        );
      }
      t.equal(told.at(-1) ?? 'back', isSilent ? 'silent' : 'back', `${id}: what was told last is so`);
    }
    for (const [index, one] of world.told.entries()) {
      const earlier = world.told.slice(0, index).find(({ id }) => id === one.id);
      if (earlier === undefined) continue;
      const excuse = troubles.some(
        ({ machine, fromMs }) =>
          machine === earlier.machine && fromMs >= earlier.atMs - 2 * MINUTE_MS && fromMs <= one.atMs,
      );
      t.ok(excuse, `${one.id} was told by ${earlier.machine} and by ${one.machine}`);
    }
    tellings += world.told.length;
    for (const machine of MACHINES) await world.stop(machine);
  });
}

// Not in each history: in one of a hundred no device falls silent.
t.test('people are told', async (t) => {
  t.ok(tellings > 0);
});

/** In calm, each device falls silent or returns, and that is told within what is promised. */
async function assertPrompt(t: Test, world: FleetWorld): Promise<void> {
  const { clock, devices, calls } = world;
  const fromMs = clock.bootMs();
  const delays = new Map<string, number>();
  for (const device of devices.values()) {
    const { d = 1 } = world.recordOf(device.id);
    delays.set(device.id, device.isSilent ? 0 : Number(d) * DELAYS.delayMs);
    if (device.isSilent) device.speak();
    else device.silence();
  }
  await clock.advance(Math.max(...delays.values(), MINUTE_MS) + 2 * SLACK_MS);
  for (const [id, delayMs] of delays) {
    const told = world.told.find(({ device, atMs }) => device === id && atMs >= fromMs);
    const isCounted = ({ device, atMs }: Call) => device === id && (delayMs === 0) === atMs >= fromMs;
    const call = delayMs === 0 ? calls.find(isCounted) : calls.findLast(isCounted);
    const lateMs = (told?.atMs ?? Number.POSITIVE_INFINITY) - (call?.atMs ?? 0) - delayMs;
    t.ok(lateMs <= (delayMs === 0 ? 3 * SECOND_MS : SLACK_MS), `${id} is told ${lateMs} ms after its delay`);
  }
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
