/**
 * Lets each operation on the disk fail in each way (npm test: a random sample), and goes on. Then it cuts the power or kills
 * the process, recovers, and compares the result with the books. A failure may refuse a message, or leave its outcome
 * unknown. It may not lose an acknowledged message.
 */
// A process of its own: it takes long.
import { join } from 'node:path';
import t from 'tap';
import { JOURNAL_BYTES_MIN, SEGMENT_BYTES, STORAGE_RETRY_MS } from '../../src/base/limits.js';
import { draftTo, octets, strayFiles } from '../support/drafts.js';
import { comeAndGo, refuseEachSecondRecord } from '../support/failing-journal.js';
import { type Fault, FaultyDisk } from '../support/faulty-disk.js';
import { seededRandom, testSeed } from '../support/random.js';
import { openOn, STATE_DIR } from '../support/store.js';
import { StoreClient } from './store-client.js';

const seed = testSeed();
const FAULTS: readonly Fault[] = [
  'error:EIO',
  'error-half:EIO',
  'error-after:EIO',
  'error:ENOSPC',
  'error-half:ENOSPC',
];
const AFTERWARDS = [
  { ending: 'power cut', successor: (disk: FaultyDisk) => disk.afterPowerCut('random') },
  { ending: 'power cut, nothing unsynced', successor: (disk: FaultyDisk) => disk.afterPowerCut('nothing') },
  { ending: 'kill', successor: (disk: FaultyDisk) => disk.afterKill() },
];
const LONG = process.env.FIELDPOST_TEST_LONG === '1';
/** The share of all failures that is tried. */
const SHARE = LONG ? 1 : 0.25;
const random = seededRandom(seed);
t.comment(`seed ${seed}`);

const seededDisk = () => new FaultyDisk({ random: seededRandom(seed), directories: ['/var/lib'] });

/** Accepts, outcomes, changes, a segment change and a checkpoint, going on whatever fails. */
async function useIt(disk: FaultyDisk, books: StoreClient): Promise<void> {
  const { store, clock } = await openOn(disk, seed);
  const book = async (name: string, bytes = 300) => {
    await books.accept(store, [draftTo(name, bytes)]);
    return books.isPromised(name);
  };
  if (await book('a')) await books.settle(store, 'a', { kind: 'sent', reply: '250' });
  if (await book('b')) await books.settle(store, 'b', { kind: 'deferred', reply: '451', delayMs: 1000 });
  await clock.advance(1500);
  await books.acceptFiles(store, draftTo('file'), [octets(700), octets(3000)]);
  if (books.isPromised('file')) await books.settle(store, 'file', { kind: 'sent', reply: '250' });
  await Promise.all([
    books.acceptFiles(store, draftTo('kept'), [octets(5000)]),
    books.acceptFiles(store, draftTo('kept2'), [octets(100)], { key: 'k', hash: 'h' }),
  ]);
  await book('big', 600_000);
  if (await book('c', 600_000)) await books.change(store, 'c', 'cancel', 'cancelled');
  await Promise.all([book('d'), book('e'), books.setHeld(store, true)]);
  await clock.advance(STORAGE_RETRY_MS + 1);
  await book('f');
  await clock.advance(1500);
}

t.test('each operation fails in each way', async (t) => {
  const probe = seededDisk();
  await useIt(probe, new StoreClient());
  const found: string[] = [];
  let runs = 0;
  for (let failing = 1; failing <= probe.operations; failing++) {
    for (const fault of FAULTS) {
      if (random() >= SHARE) continue;
      const some = LONG ? AFTERWARDS : AFTERWARDS.slice(failing % AFTERWARDS.length).slice(0, 1);
      for (const { ending, successor } of some) {
        const disk = seededDisk();
        let failed = '';
        disk.onOperation = (n, { kind, path }) => {
          if (n !== failing) return 'ok';
          failed = `${fault} at ${n} (${kind} ${path}), then ${ending}`;
          return fault;
        };
        const books = new StoreClient();
        runs++;
        // A start that meets an error may refuse; then nothing was promised.
        await useIt(disk, books).catch((error) => {
          if (books.promised > 0) found.push(`${failed}: ${error}`);
        });
        disk.onOperation = () => 'ok';
        const next = successor(disk);
        const { store } = await openOn(next, seed + 1);
        const strays = await strayFiles(next, STATE_DIR, store);
        for (const words of [...(await books.violations(store)), ...strays])
          found.push(`${failed}: ${words}`);
      }
    }
  }
  t.comment(`${runs} runs (${SHARE * 100} %), ${found.length} violations`);
  t.same(found.slice(0, 5), []);
});

t.test('a disk that fails to sync twice refuses, says so, and is tried again every 30 s', async (t) => {
  const disk = seededDisk();
  const { store, clock, lines } = await openOn(disk, seed);
  await store.accept([draftTo('before')], null);
  let failing = true;
  let attempts = 0;
  disk.onOperation = (_n, { kind, path }) => {
    if (!failing || kind !== 'sync' || !path.includes('journal')) return 'ok';
    attempts++;
    return 'error:EIO';
  };
  await t.rejects(store.accept([draftTo('lost')], { key: 'k', hash: 'h' }), { code: 'storage-failed' });
  const { state, reason } = store.storage();
  t.equal(state, 'failed');
  t.match(reason, /refuses to keep data/);
  t.equal(lines.filter((line) => line.includes('storage failed')).length, 1);
  const before = attempts;
  await t.rejects(store.accept([draftTo('refused')], null), { code: 'storage-failed' });
  t.equal(attempts, before, 'what is refused does not touch the disk');
  await clock.advance(STORAGE_RETRY_MS);
  t.ok(attempts > before, 'it is tried again');
  t.equal(store.storage().state, 'failed');
  failing = false;
  await clock.advance(STORAGE_RETRY_MS);
  t.equal(store.storage().state, 'ok');
  t.equal(lines.filter((line) => line.includes('storage ok')).length, 1);
  const { replayed } = await store.accept([draftTo('lost')], { key: 'k', hash: 'h' });
  t.equal(replayed, false, 'what was refused is not remembered');
  const { store: again } = await openOn(disk.afterPowerCut('nothing'), seed + 1);
  t.same(
    again.list({ status: null, limit: 10, after: null }).messages.map(({ destination }) => destination),
    ['lost@example.com', 'before@example.com'],
  );
});

/** From now on the disk makes segments, but refuses the first record in each. */
async function refuseRecords(disk: FaultyDisk, canRemove: boolean): Promise<void> {
  const journal = join(STATE_DIR, 'journal');
  const made = new Set((await disk.list(journal)).map((name) => join(journal, name)));
  disk.onOperation = (_n, { kind, path }) => {
    if (!path.startsWith(journal)) return 'ok';
    if (kind === 'remove') return canRemove ? 'ok' : 'error:EIO';
    if (kind !== 'sync') return 'ok';
    if (made.has(path)) return 'error:EIO';
    made.add(path);
    return 'ok';
  };
}

for (const canRemove of [true, false]) {
  t.test(
    `a disk that fails now and then is not filled, also if it ${canRemove ? 'removes files' : 'removes none'}`,
    async (t) => {
      const disk = seededDisk();
      const { store, clock } = await openOn(disk, seed);
      await store.accept([draftTo('before')], null);
      await clock.advance(10);
      const { bytes } = store.counts();
      await refuseRecords(disk, canRemove);
      await t.rejects(store.accept([draftTo('lost')], null), { code: 'storage-failed' });
      for (let i = 0; i < 20; i++) await clock.advance(STORAGE_RETRY_MS);
      t.ok(store.counts().bytes <= bytes + 3 * SEGMENT_BYTES, `${store.counts().bytes} bytes`);
      disk.onOperation = () => 'ok';
      await clock.advance(STORAGE_RETRY_MS);
      t.equal(store.storage().state, 'ok');
      t.ok(store.counts().bytes <= JOURNAL_BYTES_MIN + 2 * SEGMENT_BYTES, `${store.counts().bytes} bytes`);
      await store.close();
    },
  );
}

t.test('a disk that keeps one record and refuses the next is not filled', async (t) => {
  const disk = seededDisk();
  const { store, clock } = await openOn(disk, seed);
  const syncs = refuseEachSecondRecord(disk);
  await comeAndGo({ store, clock });
  t.ok(syncs.size > 10, `${syncs.size} segments`);
  t.ok(store.counts().bytes <= JOURNAL_BYTES_MIN + 5 * SEGMENT_BYTES, `${store.counts().bytes} bytes`);
  await store.close();
});

t.test('a new segment of the last run, whose name may not be on the device, is renamed first', async (t) => {
  const disk = seededDisk();
  const books = new StoreClient();
  const before = await openOn(disk, seed);
  const journal = join(STATE_DIR, 'journal');
  let syncs = 0;
  // The second segment is made. Its name is not synced, and cannot be removed.
  disk.onOperation = (_n, { kind, path }) => {
    if (kind === 'syncDirectory' && path === journal && ++syncs > 1) return 'error:EIO';
    return kind === 'remove' && path.startsWith(journal) ? 'error:EIO' : 'ok';
  };
  await books.accept(before.store, [draftTo('a', 300)]);
  await before.clock.advance(10);
  t.equal(syncs, 2);
  t.equal((await disk.list(journal)).length, 2);

  const next = disk.afterKill();
  const { store } = await openOn(next, seed + 1);
  for (const name of ['b', 'c']) await books.accept(store, [draftTo(name, 600_000)]);
  const last = await openOn(next.afterPowerCut('nothing'), seed + 2);
  t.same(await books.violations(last.store), []);
});
