/** Memory follows etcd: in every instance, after a compaction, and past values that cannot be read. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import t from 'tap';
import { digest } from '../../src/base/http/access.js';
import { MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import { EtcdError, type WatchListener } from '../../src/cloud/etcd/etcd.js';
import { FLEET_HISTORY_MS } from '../../src/cloud/etcd/fleet.js';
import { FLEET_RETRY_MS, Mirror } from '../../src/cloud/etcd/mirror.js';
import { CLOUD_GRACE_MS } from '../../src/cloud/presence.js';
import { FakeClock } from '../support/clock.js';
import { FleetWorld } from '../support/fleet-world.js';
import { keptLog } from '../support/system.js';

const CREATE = { 'if-none-match': '*' };
const document = { name: 'A', destinations: [] };

t.test('every instance sees documents, keys and devices, and their removal', async (t) => {
  await using world = await FleetWorld.calm('a', 'b');
  const [a, b] = [world.fleetOf('a'), world.fleetOf('b')];
  const etag = await a.documents.put('pump-1', document, CREATE);
  const key = await a.keys.make('pump-1');
  a.watch.heard('pump-1', { said: 'running', everyMs: 0, sent: null });
  await world.clock.advance(2 * SECOND_MS);
  t.match(b.documents.about('pump-1'), { etag, destinations: 0 });
  t.ok(b.keys.opens('pump-1', digest(key)));
  t.ok(b.watch.has('pump-1'));
  const next = await b.keys.make('pump-1');
  await world.clock.advance(SECOND_MS);
  t.ok(a.keys.opens('pump-1', digest(next)), 'the first use');
  await world.clock.advance(SECOND_MS);
  t.notOk(b.keys.opens('pump-1', digest(key)), 'ends the earlier key everywhere');
  await b.documents.remove('pump-1');
  await b.keys.remove('pump-1');
  await b.watch.forget('pump-1');
  await world.clock.advance(SECOND_MS);
  t.equal(a.documents.about('pump-1'), null);
  t.notOk(a.keys.has('pump-1') || a.watch.has('pump-1'));
});

t.test('an instance knows its own writes at once, unless they are gone before their answer', async (t) => {
  await using world = await FleetWorld.calm('a');
  const { server } = world;
  const { documents, keys, watch } = world.fleetOf('a');
  watch.heard('pump-1', { said: 'running', everyMs: 0, sent: null });
  await world.clock.advance(2 * SECOND_MS);
  // The watch is slower than the answers.
  server.onOp = (_client, what) => {
    if (!/^txn (?:doc|keys|at)\/\S+$/.test(what)) return;
    for (let n = 0; n < 30; n++) server.txn([], [{ put: 'taken/x', value: '' }]);
  };
  const etag = await documents.put('pump-1', document, CREATE);
  t.match(documents.about('pump-1'), { etag });
  const key = await keys.make('pump-1');
  t.ok(keys.opens('pump-1', digest(key)));
  await documents.remove('pump-1');
  await keys.remove('pump-1');
  t.equal(documents.about('pump-1'), null);
  t.notOk(keys.has('pump-1'));
  await watch.forget('pump-1');
  t.notOk(watch.has('pump-1'));
  server.answerTurns = 100;
  server.onOp = (_client, what) => {
    const [, written] = /^txn ((?:doc|keys)\/\S+): done$/.exec(what) ?? [];
    if (written !== undefined) server.txn([], [{ delete: written }]);
  };
  await documents.put('pump-2', document, CREATE);
  t.equal(documents.about('pump-2'), null);
  await keys.make('pump-2');
  t.notOk(keys.has('pump-2'));
});

t.test('an instance whose watch was compacted lists anew, and forgets what is gone', async (t) => {
  await using world = await FleetWorld.calm('a', 'b');
  const [a, b] = [world.fleetOf('a'), world.fleetOf('b')];
  await a.documents.put('pump-1', document, CREATE);
  await a.documents.put('pump-2', document, CREATE);
  await a.keys.make('pump-1');
  a.watch.heard('pump-1', { said: 'running', everyMs: 0, sent: null });
  await world.clock.advance(2 * SECOND_MS);
  world.cut('b');
  await world.clock.advance(SECOND_MS);
  await a.documents.remove('pump-1');
  await a.keys.remove('pump-1');
  await a.watch.forget('pump-1');
  await a.documents.put('pump-3', document, CREATE);
  world.server.compact(world.server.revision);
  await world.clock.advance(MINUTE_MS);
  t.strictSame([...b.documents.ids], ['pump-1', 'pump-2'], 'it knows nothing yet');
  world.heal('b');
  // The fake gives a few keys at a time.
  await world.clock.advance(2 * MINUTE_MS);
  t.strictSame([...b.documents.ids].sort(), ['pump-2', 'pump-3']);
  t.notOk(b.keys.has('pump-1') || b.watch.has('pump-1'));
  t.ok(b.office.isServing);
});

t.test('one instance compacts, each minute, what is older than FLEET_HISTORY_MS', async (t) => {
  await using world = await FleetWorld.calm('a', 'b', 'c');
  const compacts: { readonly client: string; readonly atMs: number }[] = [];
  const revisions = new Map<number, number>();
  world.server.onOp = (client, description) => {
    const atMs = world.clock.bootMs();
    revisions.set(atMs, world.server.revision);
    if (description !== 'compact') return;
    compacts.push({ client, atMs });
  };
  await world.clock.advance(10 * MINUTE_MS);
  t.ok(compacts.length >= 8 && compacts.length <= 11, `${compacts.length} times in 10 minutes`);
  t.equal(new Set(compacts.map(({ client }) => client)).size, 1, 'by one of them');
  const nowMs = world.clock.bootMs();
  const keptMs = [...revisions].findLast(([, revision]) => revision <= world.server.compacted)?.[0] ?? 0;
  t.ok(nowMs - keptMs >= FLEET_HISTORY_MS, 'what is younger stays');
  t.ok(nowMs - keptMs <= FLEET_HISTORY_MS + 3 * MINUTE_MS, 'what is older goes');
});

t.test('a list that etcd refuses is tried again; an error of our own ends the program', async (t) => {
  const clock = new FakeClock();
  let listed = 0;
  let end: (why: EtcdError) => void = () => undefined;
  const etcd = {
    async list() {
      listed++;
      if (listed === 2) throw new EtcdError('unavailable', 'no quorum');
      if (listed === 3) throw new TypeError('a bug');
      return 7;
    },
    watch(_prefix: string, _from: number, { ended }: WatchListener) {
      end = ended;
      return { close: () => undefined };
    },
  };
  const { log } = keptLog();
  const mirror = new Mirror({ etcd, clock, log });
  await mirror.open({});
  const thrown: unknown[] = [];
  process.once('unhandledRejection', (reason) => thrown.push(reason));
  end(new EtcdError('compacted', 'compacted'));
  await clock.advance(FLEET_RETRY_MS);
  t.equal(listed, 2);
  await clock.advance(FLEET_RETRY_MS);
  await nextTurn();
  t.match(thrown, [{ name: 'TypeError', message: 'a bug' }]);
  await clock.advance(MINUTE_MS);
  t.equal(listed, 3, 'it is not tried again');
});

t.test('a value that cannot be read counts as absent, is told, and stops nothing', async (t) => {
  await using world = new FleetWorld();
  const damaged = ['doc/pump-1', 'keys/pump-1', 'message/pump-1/x', 'news/x', 'at/x'];
  const shapes = [
    '{"destinations":{"a":1}}',
    '{"key":1}',
    '{"draft":{},"keyed":{}}',
    '{"draft":{"type":2,"destination":"+3161","content":null,"attachments":[],"ignored":[]},"keyed":{"key":"a","hash":"b"}}',
    '{"device":"x","kind":"up","sinceMs":1}',
    '{"device":"x","kind":"back","sinceMs":1}',
    '{"kind":"silent","sinceMs":1}',
    '{"h":"a","s":"dancing"}',
  ];
  for (const value of ['{"a', 'null', '{}', '[1]', ...shapes]) {
    world.server.txn(
      [],
      damaged.map((put) => ({ put, value })),
    );
    await world.start('a');
    const a = world.fleetOf('a');
    await world.clock.advance(CLOUD_GRACE_MS);
    t.equal(await a.documents.read('pump-1'), null, value);
    for (const key of damaged) t.match(world.log.lines.join('\n'), `etcd value damaged key=${key}`, value);
    world.log.lines.splice(0);
    t.equal(a.documents.about('pump-1'), null);
    t.notOk(a.keys.has('pump-1') || a.watch.untold > 0);
    t.ok(a.watch.has('x'), 'a record is written anew, so somebody watches the device');
    const key = await a.keys.make('pump-1');
    t.ok(a.keys.opens('pump-1', digest(key)));
    await a.documents.put('pump-1', document, CREATE);
    t.match(await a.documents.read('pump-1'), { document });
    // While it runs.
    world.server.txn([], [{ put: 'doc/pump-1', value }]);
    await world.clock.advance(SECOND_MS);
    t.equal(a.documents.about('pump-1'), null);
    t.match(world.log.lines.join('\n'), /etcd value damaged.*doc\/pump-1/);
  }
});
