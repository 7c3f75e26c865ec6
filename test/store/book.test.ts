/** The address book in the real store, across starts and after damage. */
import t, { type Test } from 'tap';
import { writeNew } from '../../src/base/durable-file.js';
import { MIB } from '../../src/base/limits.js';
import { ID_GAP } from '../../src/mail/book/book.js';
import type { Fields } from '../../src/mail/book/destination.js';
import type { Store } from '../../src/mail/store/store.js';
import { draftTo } from '../support/drafts.js';
import type { FaultyDisk } from '../support/faulty-disk.js';
import { budgetOf } from '../support/spool.js';
import { bookOf, damage, loseJournal, newDisk, openOn, STATE_DIR } from '../support/store.js';

const JOHN: Fields = { type: 1, destination: 'john@example.com', lang: 'en', name: 'John' };
const JANE: Fields = { type: 2, destination: '+491', lang: 'nl', name: 'Jane' };
const THEIRS = {
  ...JOHN,
  uid: '00000000-0000-4000-9000-000000000001',
  destination: 'x@example.com',
  room: 'B2',
};

/** Fills a book that agrees with its cloud, and then edits it. */
async function fill(store: Store): Promise<void> {
  const book = bookOf(store);
  await book.add(JOHN);
  await book.pull({ etag: '"1"', document: [THEIRS, 'strange'] });
  await book.stored('"2"');
  await book.add(JANE);
  await book.remove(1);
  await book.pull('unchanged');
}

const names = (store: Store) =>
  bookOf(store)
    .list()
    .map(({ id, name }) => [id, name]);
const AFTER = [
  [2, 'John'],
  [3, 'Jane'],
];

t.test('the book survives a kill and a clean stop', async (t) => {
  const disk = newDisk();
  const first = await openOn(disk);
  await fill(first.store);
  const killed = await openOn(disk.afterKill(), 2);
  const check = async ({ store }: { store: Store }) => {
    t.same(names(store), AFTER);
    t.same([bookOf(store).etag, bookOf(store).counts], ['"2"', { count: 2, hidden: 1 }]);
    const { push } = await bookOf(store).pull('unchanged');
    t.match(push, { ifMatch: '"2"', document: [THEIRS, 'strange', { ...JANE, uid: /^[-0-9a-f]{36}$/ }] });
  };
  await check(killed);
  const another = newDisk();
  const { store } = await openOn(another);
  await fill(store);
  await store.close();
  const again = await openOn(another, 3);
  await check(again);
  t.equal((await bookOf(again.store).add({ ...JOHN, name: 'Johnny' })).id, 4, 'no id is given again');
  t.match((await bookOf(again.store).pull('unchanged')).push?.document.at(-1), {
    uid: /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
  });
});

t.test('damage deletes no destination', async (t) => {
  t.test('a record, or the snapshot, as often as it is met', async (t) => {
    const disk = newDisk();
    const { store } = await openOn(disk);
    await fill(store);
    await store.accept([draftTo('a')], null);
    await store.accept([draftTo('b')], null);
    const stopped = disk.afterPowerCut('everything');
    await damage(disk, 'journal/00000001.log', 'to a');
    await metTwice(t, disk);
    await (await openOn(stopped, 9)).store.close();
    await damage(stopped, 'store.json', '"John"');
    await metTwice(t, stopped);
  });

  async function metTwice(t: Test, disk: FaultyDisk): Promise<void> {
    let next = disk.afterKill();
    for (const seed of [2, 3]) {
      // No checkpoint is made: each start meets the damage again, and tells it, though it was copied before.
      next.onOperation = (_, { path }) => (path.endsWith('store.json.new') ? 'error:EIO' : 'ok');
      const { store: damaged, lines } = await openOn(next, seed);
      t.match(lines.join(), /store damaged/);
      t.same([bookOf(damaged).etag, names(damaged)], [null, AFTER]);
      next = next.afterKill();
    }
    const { store: last } = await openOn(next, 4);
    await bookOf(last).pull({
      etag: '"3"',
      document: [{ ...THEIRS, uid: THEIRS.uid.replace(/1$/, '2'), type: 4 }],
    });
    t.equal(bookOf(last).counts.count, 3, 'what is missing in the cloud stays');
  }

  t.test('a snapshot, once', async (t) => {
    for (const file of ['store.json', 'store.json.1']) {
      const disk = newDisk();
      for (const use of [fill, (store: Store) => store.hold()]) {
        const { store } = await openOn(disk);
        await use(store);
        await store.close();
      }
      await damage(disk, file, '"John"');
      const { store } = await openOn(disk, 5);
      t.same([bookOf(store).etag, names(store)], [null, AFTER], file);
      await bookOf(store).pull({ etag: '"9"', document: [THEIRS] });
      const { store: again } = await openOn(disk.afterKill(), 6);
      t.equal(bookOf(again).etag, '"9"', 'what was agreed since then counts');
    }
  });

  t.test('a snapshot that no checkpoint replaces, once', async (t) => {
    const disk = newDisk();
    await fill((await openOn(disk)).store);
    const next = disk.afterKill();
    await writeNew(next, `${STATE_DIR}/store.json.1`, [Buffer.from('{"crc"')]);
    const { store } = await openOn(next, 2);
    t.equal(bookOf(store).etag, null);
    await bookOf(store).pull({ etag: '"9"', document: [THEIRS] });
    const { store: again } = await openOn(next.afterKill(), 3);
    t.equal(bookOf(again).etag, '"9"');
  });

  t.test('with the history before it lost, new ids skip those that it may have given', async (t) => {
    const disk = newDisk();
    const { store } = await openOn(disk);
    await fill(store);
    await store.close();
    await loseJournal(disk);
    const { store: again } = await openOn(disk, 2);
    t.same([bookOf(again).etag, names(again)], [null, AFTER]);
    t.ok((await bookOf(again).add({ ...JOHN, name: 'Johnny' })).id > ID_GAP);
  });
});

t.test('a full queue allows edits, a full disk does not', async (t) => {
  const disk = newDisk();
  const { store } = await openOn(disk, 1, budgetOf({ maxSpoolBytes: 1, minFreeBytes: MIB }));
  await t.rejects(store.accept([draftTo('a')], null), { code: 'queue-full' });
  await bookOf(store).add(JOHN);
  await bookOf(store).add(JANE);
  const { clock, store: full } = await openOn(disk.afterKill(), 2, budgetOf({ minFreeBytes: 2 ** 60 }));
  await clock.advance(1000);
  await t.rejects(bookOf(full).add({ ...JOHN, name: 'x', destination: 'y@example.com' }), {
    code: 'storage-full',
  });
  await t.rejects(bookOf(full).replace(1, { ...JOHN, name: 'x' }), { code: 'storage-full' });
  await bookOf(full).remove(1);
  t.same(names(full), [[2, 'Jane']], 'a removal needs no room');
});
