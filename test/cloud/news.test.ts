/** The news desk: what is told together, refused, dropped and told again; alone, and over etcd into the outboxes of instances. */
import t from 'tap';
import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import { EtcdError } from '../../src/cloud/etcd/etcd.js';
import { FLEET_MESSAGES_MAX } from '../../src/cloud/etcd/messages.js';
import {
  type DeviceNews,
  NEWS_WINDOW_MS,
  type NewsOfDevice,
  type Telling,
} from '../../src/cloud/fleet-store.js';
import { NewsDesk } from '../../src/cloud/news.js';
import { OUTBOX_DEVICE_SHARE } from '../../src/cloud/outbox.js';
import { FakeClock, settled } from '../support/clock.js';
import { DELAYS, FleetWorld } from '../support/fleet-world.js';
import { keptLog } from '../support/system.js';
import { allTold, newsIn, notYet, tellingBut } from '../support/telling.js';
import { SMS } from './fleet-store-behaviour.js';

const away = () => new EtcdError('unavailable', 'etcd: no leader');

/** A desk, and a ledger in memory. */
class Desk {
  readonly clock = new FakeClock();
  readonly log = keptLog();
  readonly dropped: string[] = [];
  readonly marked: DeviceNews[] = [];
  /** `1,2`, or `1,2 last` */
  readonly told: string[] = [];
  readonly calls: (readonly NewsOfDevice[])[] = [];
  readonly office = { isLeader: true };
  /** Thrown by the ledger. */
  failure: Error | null = null;
  answer: (all: readonly NewsOfDevice[]) => Telling | Promise<Telling> = (all) =>
    tellingBut(all, () => false);
  #order = 0;
  readonly desk = new NewsDesk({
    clock: this.clock,
    log: this.log.log,
    office: this.office,
    ledger: () => ({
      settle: async ({ dropped, marked }) => {
        if (this.failure !== null) throw this.failure;
        this.dropped.push(...dropped);
        this.marked.push(...marked.map(({ news }) => news));
      },
    }),
    tell: async (all, isLast) => {
      const ids = newsIn(all).map(({ id }) => id);
      this.told.push(`${ids.join()}${isLast ? ' last' : ''}`);
      this.calls.push(all);
      return await this.answer(all);
    },
  });

  async news(...all: readonly (readonly [id: string, device: string])[]): Promise<void> {
    for (const [id, device] of all) {
      const atMs = this.clock.wallMs();
      this.desk.add({ id, device, atMs, kind: 'silent', sinceMs: null }, ++this.#order);
    }
    await this.clock.advance(10);
  }
}

/** Everybody waits for the end of the window. */
const late =
  (bench: Desk) =>
  (all: readonly NewsOfDevice[]): Telling => {
    const nowMs = bench.clock.wallMs();
    const endOf = ({ news }: NewsOfDevice) => Math.max(...news.map((one) => one.windowEndsMs));
    const settledOf = (one: NewsOfDevice) => (endOf(one) > nowMs ? notYet(endOf(one)) : allTold(one));
    return { settled: new Map(all.map((one) => [one.device, settledOf(one)])), refusal: null };
  };

/** One person knows them, and these wait until then. */
const marking =
  (waits: readonly string[], dueMs: number) =>
  (all: readonly NewsOfDevice[]): Telling => {
    const settledOf = ({ news }: NewsOfDevice) => {
      const marked = news.map((one) => ({ ...one.news, told: ['jan'], waits }));
      return { dropped: [], marked, dueMs, isOwed: false };
    };
    return { settled: new Map(all.map((one) => [one.device, settledOf(one)])), refusal: null };
  };

t.test('the first news opens a window; those within it may be told together at its end', async (t) => {
  const bench = new Desk();
  bench.answer = late(bench);
  bench.desk.start();
  await bench.news(['1', 'a']);
  await bench.clock.advance(NEWS_WINDOW_MS - SECOND_MS);
  await bench.news(['2', 'b']);
  t.strictSame(bench.told, ['1', '2'], 'each is looked at when it comes');
  t.equal(bench.desk.untold, 2);
  await bench.clock.advance(SECOND_MS);
  t.equal(bench.told.at(-1), '1,2');
  t.strictSame(bench.dropped, ['1', '2']);
  await bench.news(['3', 'a']);
  await bench.clock.advance(NEWS_WINDOW_MS - SECOND_MS);
  t.equal(bench.desk.untold, 1);
  await bench.clock.advance(SECOND_MS);
  t.strictSame(bench.told.slice(3), ['3', '3']);
  t.equal(bench.desk.untold, 0);
});

t.test(
  'a person who waits is asked for again when the time has come, whatever the wall clock does',
  async (t) => {
    const bench = new Desk();
    bench.answer = marking(['manager'], bench.clock.wallMs() + HOUR_MS);
    bench.desk.start();
    await bench.news(['1', 'a']);
    t.match(bench.marked, [{ id: '1', told: ['jan'], waits: ['manager'] }]);
    t.equal(bench.desk.untold, 0, 'nobody should have heard by now');
    await bench.clock.advance(HOUR_MS - MINUTE_MS);
    t.strictSame(bench.told, ['1']);
    bench.answer = marking([], Number.POSITIVE_INFINITY);
    bench.clock.leap(2 * MINUTE_MS);
    await bench.clock.advance(MINUTE_MS + SECOND_MS);
    t.strictSame(bench.told, ['1', '1']);
    t.match(bench.marked.at(-1), { told: ['jan'], waits: [] });
    await bench.clock.advance(HOUR_MS);
    t.strictSame(bench.told, ['1', '1'], 'nobody waits any more');
    t.strictSame(bench.desk.newsOf('a'), ['1'], 'it stays until its end is told');
    bench.desk.changed('a');
    await bench.clock.advance(SECOND_MS);
    t.equal(bench.told.length, 2);
  },
);

t.test('a stop asks for those who wait for a window, and not for a fleet that is offline', async (t) => {
  const bench = new Desk();
  bench.answer = marking([], Number.POSITIVE_INFINITY);
  bench.desk.start();
  await bench.news(['1', 'a'], ['2', 'b']);
  bench.answer = late(bench);
  await bench.news(['3', 'c']);
  bench.told.length = 0;
  await bench.desk.stop();
  t.strictSame(bench.told, ['3 last']);
});

t.test('other people or rules are asked for at once, if somebody waits', async (t) => {
  const bench = new Desk();
  bench.answer = marking(['manager'], bench.clock.wallMs() + HOUR_MS);
  bench.desk.start();
  await bench.news(['1', 'a'], ['2', 'b']);
  bench.desk.changed('a');
  bench.desk.changed('unknown');
  await bench.clock.advance(SECOND_MS);
  t.strictSame(bench.told, ['1,2', '1']);
});

t.test('a refusal is tried again, and logged once; news of other devices do not wait for it', async (t) => {
  const bench = new Desk();
  bench.answer = (all) => tellingBut(all, (device) => device === 'a');
  bench.desk.start();
  await bench.news(['1', 'a'], ['2', 'b']);
  await bench.clock.advance(20 * SECOND_MS);
  t.strictSame(bench.told.slice(0, 3), ['1,2', '1', '1']);
  t.match(
    bench.log.lines.filter((line) => line.includes('notification delayed')),
    [/reason="the outbox is full"/],
  );
  t.equal(bench.desk.untold, 1);
});

t.test('what could not be kept is kept first, and not told again', async (t) => {
  const bench = new Desk();
  bench.desk.start();
  bench.failure = away();
  await bench.news(['1', 'a']);
  t.strictSame([bench.told, bench.dropped], [['1'], []]);
  bench.failure = null;
  // Also if another instance tells meanwhile.
  bench.office.isLeader = false;
  await bench.clock.advance(5 * SECOND_MS);
  t.strictSame([bench.told, bench.dropped], [['1'], ['1']]);
});

t.test('news that come while others of the device are told are asked for with them', async (t) => {
  const bench = new Desk();
  bench.answer = async (all) => {
    bench.answer = marking([], Number.POSITIVE_INFINITY);
    bench.desk.add({ id: '2', device: 'a', atMs: 0, kind: 'silent', sinceMs: null }, 9);
    return marking([], Number.POSITIVE_INFINITY)(all);
  };
  bench.desk.start();
  await bench.news(['1', 'a']);
  await bench.clock.advance(SECOND_MS);
  t.strictSame(bench.told, ['1', '1,2']);
});

t.test('a stop tells what waits for the end of the window, and nothing after it', async (t) => {
  const bench = new Desk();
  bench.answer = late(bench);
  bench.desk.start();
  await bench.news(['1', 'a']);
  await bench.desk.stop();
  t.strictSame(bench.told, ['1', '1 last']);
  await bench.news(['2', 'a']);
  await bench.clock.advance(HOUR_MS);
  t.equal(bench.told.length, 2);
  t.equal(bench.clock.pending, 0);
});

t.test(
  'one that does not lead tells nothing; when it does, it looks at all of which somebody waits',
  async (t) => {
    const bench = new Desk();
    bench.office.isLeader = false;
    bench.desk.start();
    await bench.news(['1', 'a'], ['2', 'b']);
    const known = { atMs: 0, kind: 'silent', sinceMs: null, told: ['jan'] } as const;
    bench.desk.add({ ...known, id: '3', device: 'c', waits: ['manager'] }, 3);
    bench.desk.add({ ...known, id: '4', device: 'd', waits: [] }, 4);
    await bench.clock.advance(HOUR_MS);
    t.strictSame(bench.told, []);
    bench.office.isLeader = true;
    await bench.clock.advance(5 * SECOND_MS);
    t.strictSame(bench.told, ['1,2,3']);
  },
);

/** News in etcd, as a home of the devices has put them. */
function put(world: FleetWorld, ids: readonly string[], kind = 'silent'): void {
  for (const device of ids)
    world.server.txn(
      [],
      [
        {
          put: `news/${device}-${kind}`,
          value: JSON.stringify({ device, kind, sinceMs: null, lastedMs: null }),
        },
      ],
    );
}

const turns = async () => {
  for (let times = 0; times < 100; times++) await settled();
};
const names = (count: number) => Array.from({ length: count }, (_, n) => `pump-${n + 100}`);

t.test('etcd: after the leader was killed the next one knows who was told, and who waits', async (t) => {
  await using world = await FleetWorld.calm('a', 'b');
  const asked: string[] = [];
  const dueMs = world.clock.wallMs() + HOUR_MS;
  world.tells = (machine, all) => {
    for (const { device, told = [], waits } of newsIn(all))
      asked.push(`${machine} ${device} ${told} ${waits ?? '-'}`);
    return marking(['manager'], dueMs > world.clock.wallMs() ? dueMs : Number.POSITIVE_INFINITY)(all);
  };
  put(world, names(2));
  await world.clock.advance(SECOND_MS);
  await turns();
  t.strictSame(asked.splice(0).sort(), ['a pump-100  -', 'a pump-101  -']);
  world.kill('a');
  await world.clock.advance(MINUTE_MS);
  await turns();
  t.strictSame(asked.splice(0).sort(), ['b pump-100 jan manager', 'b pump-101 jan manager']);
  await world.clock.advance(HOUR_MS - 2 * MINUTE_MS);
  t.strictSame(asked, []);
  await world.clock.advance(2 * MINUTE_MS);
  t.equal(asked.length, 2);
});

t.test(
  'etcd: news that were removed are not there again with a mark; others of the same write are',
  async (t) => {
    await using world = await FleetWorld.calm('a');
    world.tells = (_machine, all) => {
      world.server.txn([], [{ delete: 'news/pump-100-silent' }]);
      return marking(['manager'], Number.POSITIVE_INFINITY)(all);
    };
    put(world, names(3));
    await world.clock.advance(10 * SECOND_MS);
    await turns();
    const left = world.server.keys('news/').map(({ key, value }) => `${key} ${JSON.parse(value).waits}`);
    t.strictSame(left.sort(), ['news/pump-101-silent manager', 'news/pump-102-silent manager']);
  },
);

t.test('etcd: only the leader tells, and only while its lease lasts', async (t) => {
  await using world = await FleetWorld.calm('a', 'b');
  put(world, ['pump-1']);
  await world.clock.advance(2 * SECOND_MS);
  t.match(world.told, [{ machine: 'a' }]);
  world.cut('a');
  await world.clock.advance(11 * SECOND_MS);
  t.notOk(world.fleetOf('a').office.isLeader);
  put(world, ['pump-2']);
  await world.clock.advance(MINUTE_MS);
  world.heal('a');
  await world.clock.advance(MINUTE_MS);
  t.match(world.told, [{ machine: 'a' }, { machine: 'b' }]);
  // It does not know that its lease goes on.
  world.server.losesAnswer = (client, description) => client.startsWith('b') && description === 'keepAlive';
  await world.clock.advance(12 * SECOND_MS);
  t.equal(world.leader, null);
  put(world, ['pump-3']);
  await world.clock.advance(SECOND_MS);
  t.equal(world.told.length, 2);
  world.server.losesAnswer = () => false;
  await world.clock.advance(10 * SECOND_MS);
  t.equal(world.told.length, 3);
});

t.test('etcd: after a list the news of a device are in the order in which they came', async (t) => {
  await using world = await FleetWorld.calm('a');
  world.tells = (_machine, all) => tellingBut(all, () => true);
  for (const kind of ['silent', 'back', 'moved?'] as const) put(world, ['pump-1'], kind);
  put(world, ['pump-1'], 'stopped');
  await world.stop('a');
  const kinds: string[][] = [];
  world.tells = (machine, all) => {
    kinds.push(newsIn(all).map(({ kind }) => kind));
    return world.tellAll(machine, all);
  };
  await world.start('b');
  await world.clock.advance(30 * SECOND_MS);
  t.strictSame(kinds[0], ['silent', 'back', 'stopped']);
});

t.test('etcd: a device that moves takes its news back', async (t) => {
  await using world = await FleetWorld.calm('a');
  const device = world.add('pump-1');
  await world.clock.advance(MINUTE_MS);
  world.tells = (_machine, all) => tellingBut(all, () => true);
  device.silence();
  await world.clock.advance(DELAYS.delayMs + 12 * SECOND_MS + 2 * NEWS_WINDOW_MS);
  t.equal(world.server.keys('news/').length, 1);
  device.say('moved');
  await world.clock.advance(15 * SECOND_MS);
  t.equal(world.server.keys('news/').length, 0);
  t.notOk(world.recordOf('pump-1').o);
  world.tells = (machine, all) => world.tellAll(machine, all);
  await world.clock.advance(5 * MINUTE_MS);
  t.strictSame(world.told, []);
});

t.test('etcd: messages that no outbox takes hold back no others, nor news', async (t) => {
  await using world = await FleetWorld.calm('a');
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
  put(world, ['pump-1']);
  await world.clock.advance(10 * SECOND_MS);
  t.match(world.accepted, [{ key: 'message pump-1 1' }]);
  t.equal(world.told.length, 1);
  world.refusedKeys.clear();
  await world.clock.advance(10 * SECOND_MS);
  t.equal(world.accepted.length, share + 1);
  t.equal(world.server.keys('message/').length, 0);
  t.equal(await take('thief', share), true);
});
