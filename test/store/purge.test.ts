/** A purge removes the text of sent messages, leaves waiting ones whole, and survives a power cut. */
// A process of its own: it takes long.
import t from 'tap';
import { writeNew } from '../../src/base/durable-file.js';
import { KIB } from '../../src/base/limits.js';
import type { Store } from '../../src/mail/store/store.js';
import { draftTo, octets, strayFiles } from '../support/drafts.js';
import { FaultyDisk } from '../support/faulty-disk.js';
import { seededRandom, testSeed } from '../support/random.js';
import { onOpen, openOn, passThrough, STATE_DIR, settleAs } from '../support/store.js';
import { StoreClient } from './store-client.js';

const seed = testSeed();
/** The share of the operations of a purge before which the power is cut. */
const SHARE = process.env.FIELDPOST_TEST_LONG === '1' ? 1 : 0.25;
const newDisk = () => new FaultyDisk({ random: seededRandom(seed), directories: ['/var/lib'] });

/** The files below the directory that hold the words. */
async function filesWith(disk: FaultyDisk, words: string, directory = STATE_DIR): Promise<string[]> {
  const found: string[] = [];
  for (const name of await disk.list(directory)) {
    const path = `${directory}/${name}`;
    if ((await disk.look(path))?.kind === 'directory') found.push(...(await filesWith(disk, words, path)));
    else if ((await disk.readWhole(path))?.includes(words)) found.push(path);
  }
  return found;
}

/** Segments full of mails that were sent, were cancelled, failed and wait; used again in part. */
async function longHistory(store: Store, books: StoreClient): Promise<void> {
  // Segments without waiting messages: they are freed, and used again.
  for (let i = 0; i < 12; i++) {
    await books.accept(store, [draftTo(`gone-first${i}`, 330 * KIB)]);
    await books.settle(store, `gone-first${i}`, { kind: 'sent', reply: '250 taken' });
  }
  for (let i = 0; i < 6; i++) {
    await books.accept(store, [draftTo(`wait${i}`), draftTo(`gone${i}`, 330 * KIB)]);
    await books.settle(store, `gone${i}`, { kind: 'sent', reply: '250 taken' });
  }
  await books.accept(store, [draftTo('gone-cancelled'), draftTo('failed'), draftTo('deferred')]);
  await books.acceptFiles(store, draftTo('wait-files'), [octets(700)]);
  await books.change(store, 'gone-cancelled', 'cancel', 'cancelled');
  await books.settle(store, 'failed', { kind: 'failed', reply: '550 unknown' });
  await books.settle(store, 'deferred', { kind: 'deferred', reply: '451 later', delayMs: 60_000 });
}

async function usedStore() {
  const disk = newDisk();
  const books = new StoreClient();
  const { store } = await openOn(disk, seed);
  await longHistory(store, books);
  return { disk, books, store };
}

const TOLD = 'to gone';

t.comment(`seed ${seed}`);

t.test('no file holds the text of a sent message; waiting ones can be sent', async (t) => {
  const { disk, books, store } = await usedStore();
  t.ok((await filesWith(disk, TOLD)).length > 1, 'before, it can be read');
  await store.purge(false);
  t.same(await filesWith(disk, TOLD), []);
  t.same(await books.violations(store), []);
  await books.accept(store, [draftTo('later', 900 * KIB), draftTo('later2', 900 * KIB)]);
  books.synced();
  t.same(await filesWith(disk, TOLD), [], 'nor do the segments that come next');

  const { store: again } = await openOn(disk.afterPowerCut('nothing'), seed + 1);
  t.same(await books.violations(again), []);
  t.equal(again.storage().damaged, 0);
});

t.test('a purge right after a start, of a new store, and a second one', async (t) => {
  const disk = newDisk();
  const books = new StoreClient();
  const { store } = await openOn(disk, seed);
  await store.purge(false);
  await longHistory(store, books);
  await store.close();
  books.synced();
  const { store: again } = await openOn(disk, seed + 1);
  t.ok((await filesWith(disk, TOLD)).length > 0);
  await Promise.all([again.purge(false), again.purge(false)]);
  t.same(await filesWith(disk, TOLD), []);
  t.same(await books.violations(again), []);
  await again.close();
});

t.test('segments that are kept for use are overwritten, whatever there is of them', async (t) => {
  /** A start may use the one that was prepared for the run before. */
  for (const isRestarted of [false, true]) {
    let held = 0;
    for (let mails = 9; mails < 25; mails++) {
      const disk = newDisk();
      const { store, clock } = await openOn(disk, seed);
      await passThrough(store, mails);
      await clock.advance(1000);
      // Without a snapshot of its own: what is prepared stays so.
      const next = isRestarted ? disk.afterKill() : disk;
      const { store: again } = isRestarted ? await openOn(next, seed + 1) : { store };
      const segments = await next.list(`${STATE_DIR}/journal`);
      const prepared = await next.readWhole(`${STATE_DIR}/journal/${segments.at(-1)}`);
      if (prepared?.includes(TOLD)) held++;
      await again.purge(false);
      t.same(await filesWith(next, TOLD), [], `${mails} mails`);
    }
    t.ok(held > 0, `${held} of the prepared segments had text of an earlier use`);
  }
});

t.test('the snapshots of before are overwritten, not only replaced', async (t) => {
  const { disk, store } = await usedStore();
  await store.close();
  const { store: again } = await openOn(disk, seed + 1);
  const files = [
    await disk.open(`${STATE_DIR}/store.json`, 'read'),
    await disk.open(`${STATE_DIR}/store.json.1`, 'read'),
  ];
  for (const file of files) t.match(String(await file.read(0, 100)), /^\{"crc"/);
  await again.purge(false);
  for (const file of files) {
    const bytes = await file.read(0, await file.size());
    t.ok(bytes.length > 100 && bytes.equals(Buffer.alloc(bytes.length)), `${bytes.length} zeros`);
  }
});

t.test('messages that are read, accepted and sent during a purge are whole', async (t) => {
  const { disk, books, store } = await usedStore();
  const purging = store.purge(false);
  let isOver = false;
  void purging.then(() => {
    isOver = true;
  });
  let rounds = 0;
  while (!isOver) {
    await books.accept(store, [draftTo(`during${rounds}`)]);
    await books.settle(store, `during${rounds++}`, { kind: 'sent', reply: '250 taken' });
    t.same(await books.violations(store), []);
  }
  await purging;
  t.ok(rounds > 1);
  t.same(await filesWith(disk, TOLD), []);
});

t.test('a purge overwrites no content that is being read', async (t) => {
  const disk = newDisk();
  const { store } = await openOn(disk, seed);
  const { ids } = await store.accept([draftTo('wait')], null);
  const message = store.get(ids[0] as string);
  if (!message) throw new Error('it was accepted');
  let release: () => void = () => undefined;
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  onOpen(disk, /journal/, (file) => {
    const { read } = file;
    file.read = async (offset, length) => {
      // Only the first read waits: the purge reads the same content in order to move it.
      file.read = read;
      await released;
      return await read.call(file, offset, length);
    };
  });
  const reading = store.content(message);
  const purging = store.purge(false);
  // Nothing on this disk takes longer than one turn of the event loop: the purge has ended, or waits.
  await new Promise((resolve) => setImmediate(resolve));
  release();
  t.same(await reading, draftTo('wait').content);
  await purging;
  t.same(await store.content(message), draftTo('wait').content);
});

t.test('copies of damage stay, unless they are to go', async (t) => {
  const disk = newDisk();
  const { store } = await openOn(disk, seed);
  await store.close();
  await disk.makeDirectory(`${STATE_DIR}/damaged`);
  const copies = [
    `${STATE_DIR}/damaged/1-00000001.log.0.12345678`,
    `${STATE_DIR}/journal/00000001.log.damaged`,
    `${STATE_DIR}/store.json.damaged2`,
  ];
  for (const path of copies) await writeNew(disk, path, [Buffer.from(TOLD)]);
  const { store: again } = await openOn(disk, seed + 1);
  t.equal(again.storage().damaged, 1);
  await again.purge(false);
  t.same(await filesWith(disk, TOLD), copies);
  await again.purge(true);
  for (const path of copies) t.equal(await disk.look(path), null);
  t.equal(again.storage().damaged, 0);
});

t.test('a disk that refuses ends the purge, and nothing else', async (t) => {
  const { disk, books, store } = await usedStore();
  for (let skip = 0; ; skip += 7) {
    const at = disk.operations + skip + 1;
    disk.onOperation = (n) => (n === at ? 'error:EIO' : 'ok');
    const ended = await store.purge(false).catch((error: { code: string }) => error.code);
    disk.onOperation = () => 'ok';
    if (ended === undefined && disk.operations < at) break;
    t.ok(ended === undefined || ended === 'storage-failed', `${ended}`);
    await books.accept(store, [draftTo(`after${skip}`)]);
    t.same(await books.violations(store), [], `a refusal at ${skip}`);
  }
  await store.purge(false);
  t.same(await filesWith(disk, TOLD), [], 'the next one makes good for it');
});

t.test('the power cut before every operation of a purge', async (t) => {
  const kinds = ['nothing', 'everything', 'random', 'torn-head', 'torn-tail'] as const;
  const { disk, books, store } = await usedStore();
  // Their outcomes are written, and not synced: after a cut they may wait again, and must be whole then.
  await books.accept(store, [draftTo('gone-late', 100 * KIB), draftTo('gone-later')]);
  await books.settle(store, 'gone-late', { kind: 'sent', reply: '250 taken' });
  await books.settle(store, 'gone-later', { kind: 'sent', reply: '250 taken' });
  const cuts: { where: string; disk: FaultyDisk }[] = [];
  const random = seededRandom(seed);
  let operations = 0;
  disk.onOperation = (n, { kind, path }) => {
    operations++;
    if (random() >= SHARE) return 'ok';
    const how = kinds[n % kinds.length] as (typeof kinds)[number];
    cuts.push({ where: `before ${n} (${kind} ${path}), ${how}`, disk: disk.afterPowerCut(how) });
    return 'ok';
  };
  await store.purge(false);
  const found: string[] = [];
  for (const { where, disk } of cuts) {
    const { store } = await openOn(disk, seed + 2);
    const wrong = [...(await books.violations(store)), ...(await strayFiles(disk, STATE_DIR, store))];
    // Some wait again, because their outcomes were not synced.
    const { messages } = store.list({ status: 'queued', limit: 100, after: null });
    for (const { id, destination } of messages) {
      if (destination.startsWith('gone-late')) await settleAs(store, id);
    }
    await store.purge(false);
    if ((await filesWith(disk, TOLD)).length > 0) wrong.push('what was sent can be read after another purge');
    const { store: again } = await openOn(disk.afterPowerCut('nothing'), seed + 3);
    wrong.push(...(await books.violations(again)));
    found.push(...wrong.map((words) => `cut ${where}: ${words}`));
  }
  t.comment(`${cuts.length} cut points of ${operations}, ${found.length} violations`);
  t.ok(operations > 50);
  t.same(found.slice(0, 5), []);
});
