import t from 'tap';
import { SYNC_ABSENT_MS } from '../../src/device/link/sync.js';
import type { Fields } from '../../src/mail/book/destination.js';
import { type Fate, refusal } from '../support/cloud-document.js';
import { startSync } from '../support/sync.js';

const JOHN: Fields = { type: 1, destination: 'john@example.com', lang: 'en', name: 'John' };
const JANE: Fields = { type: 1, destination: 'jane@example.com', lang: 'nl', name: 'Jane' };
const THEIRS = { ...JANE, uid: '11111111-0000-4000-8000-000000000001' };

t.test('on coming online both sides get what they miss', async (t) => {
  const { book, sync, cloud, clock, calls, lines, syncNow } = await startSync();
  await book.add(JOHN);
  await cloud.edit(() => [THEIRS, 'strange']);
  t.same(sync.view(), { synced: false, lastSyncMs: null, reason: null });
  await clock.advance(60_000);
  t.equal(calls(), '', 'nobody has asked');
  await syncNow();
  t.equal(calls(), 'get put get');
  t.same(
    book.list().map(({ name }) => name),
    ['John', 'Jane'],
  );
  t.same(
    cloud.entries?.map((entry) => (entry as Fields).name),
    ['Jane', undefined, 'John'],
  );
  t.same(sync.view(), { synced: true, lastSyncMs: clock.wallMs(), reason: null });
  t.same(lines, ['destinations synced 2 1']);
  clock.leap(3_600_000);
  t.equal(sync.view().lastSyncMs, clock.wallMs(), 'a leap of the wall misdates nothing');
  await syncNow();
  t.equal(calls(), 'get', 'what is known is not put again');
  t.equal(lines.length, 1);
});

t.test('edits are put after a second of quiet, and only online', async (t) => {
  const bench = await startSync();
  const { book, sync, clock, calls, syncNow } = bench;
  await syncNow();
  calls();
  const edit = async (name: string) => {
    if (book.get(1)) await book.replace(1, { ...JOHN, name });
    else await book.add(JOHN);
    sync.edited();
  };
  await edit('a');
  t.equal(sync.view().synced, false);
  await clock.advance(900);
  await edit('b');
  await clock.advance(999);
  t.equal(calls(), '');
  await clock.advance(1);
  t.equal(calls(), 'get put get');
  t.equal(sync.view().synced, true);
  bench.isOnline = false;
  await edit('c');
  await clock.advance(60_000);
  t.equal(calls(), '');
  t.equal(clock.pending, 0, 'nothing wakes an idle daemon');
  bench.isOnline = true;
  await syncNow();
  t.equal(calls(), 'get put get');
});

t.test('a heartbeat that names another document', async (t) => {
  const { book, sync, cloud, clock, calls } = await startSync();
  await cloud.edit(() => [THEIRS]);
  sync.seen(cloud.etag);
  await clock.advance(0);
  t.equal(calls(), 'get put get', 'it is put back once, with a mark');
  sync.seen(cloud.etag);
  await clock.advance(0);
  t.equal(calls(), '', 'one that is known is no news');
  await cloud.edit(() => []);
  sync.seen(cloud.etag);
  await clock.advance(0);
  t.same([calls(), book.list()], ['get put get', []], 'and again, with a higher counter');
});

t.test('a document that is lost before a heartbeat has named it', async (t) => {
  const { book, sync, cloud, clock, calls } = await startSync();
  await book.add(JOHN);
  sync.online();
  sync.seen(null);
  await clock.advance(0);
  t.equal(calls(), 'get put get', 'the first heartbeat came before the document');
  await cloud.forget();
  sync.seen(null);
  await clock.advance(0);
  t.equal(calls(), 'get', 'the next one says that there is none');
  sync.seen(null);
  await clock.advance(0);
  t.equal(calls(), '', 'a sync that failed has a pause of its own');
  await clock.advance(2 * SYNC_ABSENT_MS);
  t.match(cloud.entries, [JOHN]);
  calls();
  await cloud.forget();
  sync.seen(null);
  await clock.advance(0);
  t.equal(calls(), 'get', 'and again');
});

t.test('a cloud whose heartbeats name no document', async (t) => {
  const { book, sync, cloud, clock, calls } = await startSync();
  await book.add(JOHN);
  sync.online();
  sync.seen(null);
  await clock.advance(0);
  calls();
  for (const expected of ['get', '', '']) {
    sync.seen(null);
    await clock.advance(0);
    t.equal(calls(), expected, 'it is asked once why');
  }
  sync.seen(cloud.etag);
  await cloud.forget();
  sync.seen(null);
  await clock.advance(0);
  t.equal(calls(), 'get', 'one that has begun to name it has lost it');
});

t.test('a heartbeat that names no document does not hurry a sync that is spread', async (t) => {
  const { book, cloud, disk, syncNow } = await startSync();
  await book.add(JOHN);
  await syncNow();
  cloud.calls.length = 0;
  const { sync, clock, calls } = await startSync({
    cloud,
    disk: disk.afterKill(),
    life: 2,
    random: () => 0.5,
  });
  sync.online();
  sync.seen(null);
  await clock.advance(0);
  t.equal(calls(), '', 'the whole region may have booted');
  await clock.advance(30_000);
  t.equal(calls(), 'get', 'and once is enough');
});

t.test('an edit during a sync', async (t) => {
  const { book, sync, cloud, clock, calls, syncNow } = await startSync();
  await book.add(JOHN);
  cloud.onCall = async (call): Promise<Fate> => {
    if (call === 'put') {
      cloud.onCall = () => 'ok';
      await book.replace(1, { ...JOHN, name: 'Later' });
      sync.edited();
    }
    return 'ok';
  };
  await syncNow();
  t.equal(calls(), 'get put get');
  t.equal(sync.view().synced, false, 'the generation tells that this one was not put');
  await clock.advance(1000);
  t.equal(calls(), 'get put get', 'one more, after the second of quiet');
  t.match(cloud.entries, [{ name: 'Later' }]);
  t.equal(sync.view().synced, true);
});

t.test('somebody else is faster', async (t) => {
  const { book, sync, cloud, clock, calls, lines, syncNow } = await startSync();
  await book.add(JOHN);
  let faster = 2;
  let edits = 0;
  cloud.onCall = async (call): Promise<Fate> => {
    if (call === 'put' && faster-- > 0) await cloud.edit((entries) => [...entries, `note ${edits++}`]);
    return 'ok';
  };
  await syncNow();
  t.equal(calls(), 'get put get put get put get');
  t.equal(sync.view().synced, true);
  faster = Number.POSITIVE_INFINITY;
  await book.add(JANE);
  sync.edited();
  await clock.advance(1000);
  t.equal(calls(), 'get put get put get put get', 'three tries');
  t.match(sync.view(), { synced: false, reason: /somebody else/ });
  await clock.advance(999);
  t.equal(calls(), '', 'then the back-off');
  faster = 0;
  await clock.advance(1);
  t.equal(calls(), 'get put get');
  t.match(sync.view(), { synced: true, reason: null });
  t.equal(cloud.entries?.length, 2 + edits, 'nobody was overwritten');
  t.match(lines.at(-2), /^destinations not synced /);
  t.match(lines.at(-1), /^destinations synced /);
});

t.test('a fault of the cloud is logged once, and retried less and less often', async (t) => {
  const { book, sync, cloud, clock, calls, lines, syncNow } = await startSync();
  await book.add(JOHN);
  cloud.onCall = () => refusal(500);
  sync.request();
  for (const pauseMs of [1000, 2000, 4000, 8000]) {
    await clock.advance(0);
    t.equal(calls(), 'get');
    sync.seen('"x"');
    sync.edited();
    await clock.advance(pauseMs - 1);
    t.equal(calls(), '', 'neither heartbeats nor edits make it hurry');
    await clock.advance(1);
  }
  t.equal(lines.length, 1);
  t.match(sync.view(), { synced: false, lastSyncMs: null, reason: /the cloud failed \(500/ });
  calls();
  cloud.onCall = () => refusal(429, { 'retry-after': '600' });
  await syncNow();
  t.equal(calls(), 'get', 'coming online, and a person, do');
  sync.request();
  await clock.advance(599_999);
  t.equal(calls(), '', 'the cloud may ask for more, of everybody');
  cloud.onCall = () => 'ok';
  await clock.advance(1);
  t.equal(calls(), 'get put get');
});

t.test('somebody edits without a pause', async (t) => {
  const { book, sync, cloud, clock, calls, syncNow } = await startSync();
  await book.add(JOHN);
  await syncNow();
  calls();
  const puts: number[] = [];
  cloud.onCall = (call) => {
    if (call === 'put') puts.push(clock.bootMs() - startMs);
    return 'ok';
  };
  const startMs = clock.bootMs();
  for (let n = 0; n < 40; n++) {
    await book.replace(1, { ...JOHN, name: `${n}` });
    sync.edited();
    await clock.advance(900);
  }
  // The first edit behind a sync is the next one after it.
  t.same(puts, [10_000, 20_800, 31_600]);
  await clock.advance(100);
  t.equal(sync.view().synced, true);
  t.match(cloud.entries, [{ name: '39' }]);
});

t.test('a request to try now while a call hangs', async (t) => {
  const { book, sync, cloud, clock, calls } = await startSync();
  await book.add(JOHN);
  cloud.onCall = () => refusal(500);
  sync.request();
  for (const pauseMs of [0, 1000, 2000, 4000, 8000]) await clock.advance(pauseMs);
  calls();
  let fail: (fate: Fate) => void = () => undefined;
  cloud.onCall = () => new Promise((done) => (fail = done));
  await clock.advance(16_000);
  t.equal(calls(), 'get');
  // The network is back while the call that began before hangs.
  sync.request();
  cloud.onCall = () => 'ok';
  await clock.advance(0);
  t.equal(calls(), '', 'one at a time');
  fail('lost request');
  await clock.advance(0);
  t.equal(calls(), 'get put get', 'at once');
});

t.test('a document that cannot be kept', async (t) => {
  const { book, sync, cloud, calls, syncNow } = await startSync();
  await book.add(JOHN);
  let deep: unknown = 1;
  for (let depth = 0; depth < 40; depth++) deep = [deep];
  // A cloud of another maker: ours refuses it.
  await t.rejects(
    cloud.edit(() => [deep]),
    /answered 400/,
  );
  cloud.onCall = () => ({
    status: 200,
    headers: { 'content-type': 'application/json', etag: '"deep"' },
    body: Buffer.from(JSON.stringify({ destinations: [deep] })),
  });
  await syncNow();
  t.match(sync.view(), { synced: false, reason: /contract.*too deep/ });
  t.equal(calls(), 'get');
  t.match(book.list(), [JOHN]);
});

t.test('a disk that refuses', async (t) => {
  const { book, sync, cloud, clock, calls, disk, syncNow } = await startSync();
  await book.add(JOHN);
  disk.onOperation = () => 'error:EIO';
  await syncNow();
  t.equal(calls(), '', 'what is not on record is not put');
  t.match(sync.view(), { synced: false, reason: /EIO/ });
  disk.onOperation = () => 'ok';
  await clock.advance(60_000);
  t.equal(sync.view().synced, true);
  t.match(cloud.entries, [JOHN]);
});

t.test('a stop gives up the call in progress', async (t) => {
  const { book, sync, cloud, clock, calls, syncNow } = await startSync();
  await book.add(JOHN);
  let answer: () => void = () => undefined;
  cloud.onCall = () =>
    new Promise((resolve) => {
      answer = () => resolve('ok');
    });
  await syncNow();
  const stopped = sync.stop();
  answer();
  await stopped;
  t.equal(calls(), 'get');
  sync.edited();
  sync.request();
  await clock.advance(60_000);
  t.equal(calls(), '');
  t.equal(clock.pending, 0);
});

t.test('the power fails while something is put', async (t) => {
  const bench = await startSync();
  const { book, cloud } = bench;
  await book.add(JOHN);
  let cut = bench.disk;
  cloud.onCall = (call) => {
    if (call === 'put') cut = bench.disk.afterPowerCut('nothing');
    return 'ok';
  };
  await bench.syncNow();
  cloud.onCall = () => 'ok';
  await cloud.edit(() => []);
  const next = await bench.restart({ disk: cut });
  await next.syncNow();
  t.same([next.book.list(), cloud.entries], [[], []], 'that it may have arrived was on record before');
});
