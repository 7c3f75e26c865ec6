/** The news desk: what is told together, refused, dropped and told again; alone, and over etcd into the outboxes of instances. */
import t from 'tap';
import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import { EtcdError } from '../../src/cloud/etcd/etcd.js';
import { FLEET_MESSAGES_MAX } from '../../src/cloud/etcd/messages.js';
import { DIGEST_WINDOW_MS, type NewsBatch, type Telling } from '../../src/cloud/fleet-store.js';
import { NewsDesk } from '../../src/cloud/news.js';
import { OUTBOX_DEVICE_SHARE } from '../../src/cloud/outbox.js';
import { FakeClock, settled } from '../support/clock.js';
import { DELAYS, FleetWorld } from '../support/fleet-world.js';
import { keptLog } from '../support/system.js';
import { SMS } from './fleet-store-behaviour.js';

const away = () => new EtcdError('unavailable', 'etcd: no leader');

/** A desk, and a ledger in memory that has all news and cuts at once. */
class Desk {
  readonly clock = new FakeClock();
  readonly log = keptLog();
  readonly dropped: string[] = [];
  /** `1,2 open` */
  readonly told: string[] = [];
  readonly office = { isLeader: true };
  /** Thrown by the ledger. */
  failure: Error | null = null;
  answer: (batch: NewsBatch, isClosed: boolean) => Telling = ({ news }) => ({
    told: new Set(news.map(({ id }) => id)),
    refusal: null,
  });
  #order = 0;
  #ids = 0;
  readonly desk = new NewsDesk({
    clock: this.clock,
    log: this.log.log,
    newId: () => `batch-${++this.#ids}`,
    office: this.office,
    ledger: () => ({
      cut: async (batch) => {
        if (this.failure !== null) throw this.failure;
        this.desk.addCut(batch, this.#order);
      },
      drop: async (news, cuts) => {
        if (this.failure !== null) throw this.failure;
        this.dropped.push(...news, ...cuts);
      },
    }),
    tell: async (batch, isClosed) => {
      const state = isClosed ? batch.id : 'open';
      this.told.push(`${batch.news.map(({ id }) => id).join()} ${state}`);
      return this.answer(batch, isClosed);
    },
  });

  async news(...all: readonly (readonly [id: string, device: string])[]): Promise<void> {
    for (const [id, device] of all)
      this.desk.add({ id, device, kind: 'silent', sinceMs: null }, ++this.#order);
    await this.clock.advance(10);
  }
}

/** Nobody is told while the batch is open. */
const late = ({ news }: NewsBatch, isClosed: boolean): Telling => ({
  told: new Set(isClosed ? news.map(({ id }) => id) : []),
  refusal: null,
});
/** Nothing of this device can be told. */
const refusing =
  (device: string) =>
  ({ news }: NewsBatch) => ({
    told: new Set(news.flatMap((one) => (one.device === device ? [] : one.id))),
    refusal: news.some((one) => one.device === device) ? new Error('the outbox is full') : null,
  });

t.test('the first news opens a batch, which a cut closes after its window', async (t) => {
  const bench = new Desk();
  bench.answer = late;
  bench.desk.start();
  await bench.news(['1', 'a']);
  await bench.clock.advance(DIGEST_WINDOW_MS - SECOND_MS);
  await bench.news(['2', 'b']);
  t.strictSame(bench.told, ['1 open', '1,2 open']);
  t.equal(bench.desk.untold, 2);
  await bench.clock.advance(SECOND_MS);
  t.equal(bench.told.at(-1), '1,2 batch-1');
  await bench.clock.advance(SECOND_MS);
  t.strictSame(bench.dropped, ['1', '2', 'batch-1'], 'also the cut, when it has no news');
  await bench.news(['3', 'a']);
  await bench.clock.advance(DIGEST_WINDOW_MS);
  t.equal(bench.told.at(-1), '3 batch-2');
  t.equal(bench.desk.untold, 0);
});

t.test('what was cut has the same members after a start', async (t) => {
  const bench = new Desk();
  await bench.news(['1', 'a'], ['2', 'b'], ['3', 'a'], ['4', 'c']);
  // A list brings them by their names.
  bench.desk.add({ id: '0', device: 'a', kind: 'silent', sinceMs: null }, 0);
  t.strictSame(bench.desk.newsOf('a'), ['0', '1', '3']);
  bench.desk.addCut('old', 2);
  bench.desk.addCut('older', 1);
  t.strictSame(
    bench.desk.inOrder().map(({ news, batch }) => [news.id, batch]),
    [
      ['0', 'older'],
      ['1', 'older'],
      ['2', 'old'],
      ['3', null],
      ['4', null],
    ],
  );
  t.strictSame(bench.told, [], 'nothing before the start');
  bench.desk.start();
  await bench.clock.advance(10);
  t.strictSame(bench.told, ['0,1 older', '2 old', '3,4 open']);
});

t.test('a batch that cannot be closed is closed later under the same id', async (t) => {
  const bench = new Desk();
  bench.answer = late;
  bench.desk.start();
  await bench.news(['1', 'a']);
  bench.failure = away();
  await bench.clock.advance(DIGEST_WINDOW_MS + 20 * SECOND_MS);
  await bench.news(['2', 'b']);
  t.ok(bench.told.every((line) => line.endsWith('open')));
  const complaints = bench.log.lines.filter((line) => line.includes('notification delayed'));
  t.match(complaints, [/reason="etcd: no leader"/]);
  bench.failure = null;
  await bench.clock.advance(5 * SECOND_MS);
  t.equal(bench.told.at(-1), '1,2 batch-1');
});

t.test('news of one device are told in order across batches; a closed batch waits as a whole', async (t) => {
  const bench = new Desk();
  bench.answer = refusing('a');
  await bench.news(['1', 'a'], ['2', 'a'], ['3', 'b'], ['4', 'a'], ['5', 'c']);
  bench.desk.addCut('first', 1);
  bench.desk.addCut('second', 3);
  bench.desk.start();
  await bench.clock.advance(10);
  t.strictSame(bench.told, ['1 first', '5 open']);
  bench.answer = refusing('');
  await bench.clock.advance(5 * SECOND_MS);
  t.strictSame(bench.told.slice(-3), ['1 first', '2,3 second', '4 open']);
  t.equal(bench.desk.untold, 0);
});

t.test('what was told and could not be dropped is dropped, and not told again', async (t) => {
  const bench = new Desk();
  bench.desk.start();
  bench.failure = away();
  await bench.news(['1', 'a']);
  t.strictSame([bench.told, bench.dropped], [['1 open'], []]);
  bench.failure = null;
  // Also if another instance tells meanwhile.
  bench.office.isLeader = false;
  await bench.clock.advance(5 * SECOND_MS);
  t.strictSame([bench.told, bench.dropped], [['1 open'], ['1']]);
});

t.test('a stop closes the open batch and tells it, and nothing after it', async (t) => {
  const bench = new Desk();
  bench.answer = late;
  bench.desk.start();
  await bench.news(['1', 'a']);
  await bench.desk.stop();
  t.strictSame(bench.told, ['1 open', '1 batch-1']);
  await bench.news(['2', 'a']);
  await bench.clock.advance(HOUR_MS);
  t.equal(bench.told.length, 2);
  t.equal(bench.clock.pending, 0);
});

t.test('one that does not lead tells nothing, and begins with a batch of its own when it does', async (t) => {
  const bench = new Desk();
  bench.answer = late;
  bench.desk.start();
  await bench.news(['1', 'a']);
  bench.office.isLeader = false;
  await bench.clock.advance(2 * DIGEST_WINDOW_MS);
  t.strictSame(bench.told, ['1 open']);
  bench.office.isLeader = true;
  await bench.news(['2', 'b']);
  t.equal(bench.told.at(-1), '1,2 open');
  await bench.clock.advance(DIGEST_WINDOW_MS - SECOND_MS);
  t.equal(bench.told.at(-1), '1,2 open');
  await bench.clock.advance(SECOND_MS);
  t.equal(bench.told.at(-1), '1,2 batch-2');
});

t.test('one that leads no more tells no further batch', async (t) => {
  const bench = new Desk();
  bench.answer = (batch, isClosed) => {
    bench.office.isLeader = false;
    return late(batch, isClosed);
  };
  await bench.news(['1', 'a'], ['2', 'b'], ['3', 'c']);
  bench.desk.addCut('first', 1);
  bench.desk.addCut('second', 2);
  bench.desk.start();
  await bench.clock.advance(MINUTE_MS);
  t.strictSame(bench.told, ['1 first']);
  t.strictSame(bench.dropped, ['1', 'first']);
});

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

/** All news of a closed batch go into one digest: of one that was told under its id nothing more is told. */
function digesting(world: FleetWorld): Map<string, readonly string[]> {
  const digests = new Map<string, readonly string[]>();
  world.tells = (machine, batch, isClosed) => {
    if (!isClosed) return { told: new Set(), refusal: null };
    if (digests.has(batch.id)) return { told: new Set(batch.news.map(({ id }) => id)), refusal: null };
    digests.set(batch.id, batch.news.map(({ device }) => device).sort());
    return world.tellAll(machine, batch);
  };
  return digests;
}

t.test('etcd: a batch has all news before its cut, whatever memory has then', async (t) => {
  for (const isLost of [false, true]) {
    await using world = await FleetWorld.calm('a');
    const digests = digesting(world);
    put(world, names(30));
    await turns();
    let cuts = 0;
    world.server.onOp = (_client, description) => {
      if (/^txn cut\/\w+$/.test(description) && ++cuts === 1)
        put(world, ['late-1', 'late-2', 'late-3', 'late-4']);
    };
    world.server.losesAnswer = (_client, description) =>
      isLost && cuts === 1 && /^txn cut\/\w+$/.test(description);
    for (let n = 0; n < 3; n++) {
      await world.clock.advance(DIGEST_WINDOW_MS + 10 * SECOND_MS);
      await turns();
    }
    const all = ['late-1', 'late-2', 'late-3', 'late-4', ...names(30)];
    t.strictSame([...digests.values()], [all], isLost ? 'its answer was lost' : 'its answer came');
    t.equal(world.server.keys('news/').length + world.server.keys('cut/').length, 0);
  }
});

t.test('etcd: after the leader was killed the next one tells the rest, in the same batches', async (t) => {
  await using world = await FleetWorld.calm('a', 'b');
  const batches: [string, string, string][] = [];
  world.tells = (machine, batch, isClosed) => {
    if (isClosed) batches.push([machine, batch.id, batch.news.map(({ device }) => device).join()]);
    if (machine === 'a' && isClosed) throw new Error('killed');
    return isClosed ? world.tellAll(machine, batch) : { told: new Set(), refusal: null };
  };
  put(world, names(3));
  await world.clock.advance(DIGEST_WINDOW_MS + SECOND_MS);
  t.match(batches, [['a']], 'it is closed');
  world.kill('a');
  put(world, ['later']);
  while (world.server.keys('instance/').length > 1) await world.clock.advance(SECOND_MS / 10);
  await turns();
  const [first, again] = batches;
  t.strictSame(again, ['b', first?.[1], first?.[2]], 'the same batch');
  t.notOk(world.told.some(({ device }) => device === 'later'));
  await world.clock.advance(DIGEST_WINDOW_MS + 5 * SECOND_MS);
  t.equal(world.told.length, 4);
});

t.test('etcd: one that stops tells its last batch, also news that come with its cut', async (t) => {
  await using world = await FleetWorld.calm('a');
  const digests = digesting(world);
  put(world, names(3));
  await turns();
  world.server.onOp = (_client, description) => {
    // The watch is slower than the answer.
    if (/^txn cut\/\w+$/.test(description)) put(world, names(30).slice(3));
  };
  await world.stop('a');
  t.strictSame([...digests.values()], [names(30)]);
  t.equal(world.server.keys('news/').length, 0);
});

t.test('etcd: an instance whose lease is over closes no batch', async (t) => {
  await using world = await FleetWorld.calm('a', 'b');
  const digests = digesting(world);
  put(world, ['pump-1']);
  let cuts = 0;
  world.server.onOp = (client, description) => {
    if (!client.startsWith('a') || !/^txn cut\/\w+$/.test(description)) return;
    cuts++;
    for (const { key } of world.server.keys('instance/a')) world.server.txn([], [{ delete: key }]);
  };
  await world.clock.advance(DIGEST_WINDOW_MS + 5 * SECOND_MS);
  t.equal(cuts, 1);
  t.strictSame([...digests], [], 'the next leader has a batch of its own');
  await world.clock.advance(DIGEST_WINDOW_MS);
  t.strictSame([...digests.values()], [['pump-1']]);
  t.match(world.told, [{ machine: 'b' }]);
});

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
  world.tells = () => ({ told: new Set(), refusal: new Error('full') });
  for (const kind of ['silent', 'back', 'moved?'] as const) put(world, ['pump-1'], kind);
  put(world, ['pump-1'], 'stopped');
  await world.stop('a');
  const batches: NewsBatch[] = [];
  world.tells = (machine, batch) => {
    batches.push(batch);
    return world.tellAll(machine, batch);
  };
  await world.start('b');
  await world.clock.advance(30 * SECOND_MS);
  t.strictSame(
    batches[0]?.news.map(({ kind }) => kind),
    ['silent', 'back', 'stopped'],
  );
});

t.test('etcd: a device that moves takes its news back, also those of a closed batch', async (t) => {
  await using world = await FleetWorld.calm('a');
  const device = world.add('pump-1');
  await world.clock.advance(MINUTE_MS);
  world.tells = () => ({ told: new Set(), refusal: new Error('full') });
  device.silence();
  await world.clock.advance(DELAYS.delayMs + 12 * SECOND_MS + 2 * DIGEST_WINDOW_MS);
  t.equal(world.server.keys('news/').length, 1);
  t.equal(world.server.keys('cut/').length, 1, 'it is closed');
  device.say('moved');
  await world.clock.advance(15 * SECOND_MS);
  t.equal(world.server.keys('news/').length, 0);
  t.notOk(world.recordOf('pump-1').o);
  world.tells = (machine, batch) => world.tellAll(machine, batch);
  await world.clock.advance(5 * MINUTE_MS);
  t.strictSame(world.told, []);
  t.equal(world.server.keys('cut/').length, 0);
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
