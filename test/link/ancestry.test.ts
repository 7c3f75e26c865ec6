/**
 * Documents in which a missing entry was not deleted: wiped and made anew, restored from a backup, another device's, or
 * of a cloud that changes the document. And PUTs that arrived without an answer.
 */
import t, { type Test } from 'tap';
import { SYNC_ABSENT_MS } from '../../src/device/link/sync.js';
import type { Entry, Fields } from '../../src/mail/book/destination.js';
import { CloudDocument, type Fate, refusal } from '../support/cloud-document.js';
import { startSync } from '../support/sync.js';

const JOHN: Fields = { type: 1, destination: 'john@example.com', lang: 'en', name: 'John' };
const JANE: Fields = { type: 1, destination: 'jane@example.com', lang: 'nl', name: 'Jane' };
const EWA: Fields = { type: 1, destination: 'ewa@example.com', lang: 'pl', name: 'Ewa' };
const BOSS = {
  type: 1,
  destination: 'boss@example.com',
  lang: 'de',
  name: 'Boss',
  uid: '11111111-0000-4000-8000-00000000000b',
};

/** A device with John and Jane, in step with its cloud. */
async function inStep() {
  const bench = await startSync();
  await bench.book.add(JOHN);
  await bench.book.add(JANE);
  await bench.syncNow();
  t.equal(bench.sync.view().synced, true);
  return bench;
}

const namesIn = (cloud: CloudDocument) => cloud.entries?.map((entry) => (entry as Fields).name).sort();
const namesOf = ({ book }: { book: { list(): Fields[] } }) =>
  book
    .list()
    .map(({ name }) => name)
    .sort();

/** Both sides have these people. */
function agreeOn(t: Test, bench: Awaited<ReturnType<typeof startSync>>, names: string[], words = '') {
  t.same([namesOf(bench), namesIn(bench.cloud)], [names, names], words);
}

/** How often both sides were joined. */
const joinsIn = (lines: readonly string[]) =>
  lines.filter((line) => line.startsWith('destinations joined')).length;

/** Somebody deletes this person in the cloud. */
async function deleteIn(cloud: CloudDocument, name: string): Promise<void> {
  await cloud.edit((entries) => entries.filter((entry) => (entry as Fields).name !== name));
}

t.test('a document that was wiped and is edited before the device asks', async (t) => {
  const bench = await inStep();
  const { cloud, sync, lines } = bench;
  await cloud.forget();
  await cloud.edit(() => [BOSS]);
  await bench.syncNow();
  agreeOn(t, bench, ['Boss', 'Jane', 'John'], 'nobody is dropped');
  t.equal(joinsIn(lines), 1, 'a warning, once');
  t.match(sync.view(), { synced: true, reason: /made anew.* no entry was deleted/ });
  await deleteIn(cloud, 'John');
  await bench.syncNow();
  t.same(namesOf(bench), ['Boss', 'Jane'], 'from then on deletions count again');
  await bench.book.remove(bench.book.list()[0]?.id ?? 0);
  await bench.syncNow();
  t.same([namesIn(cloud), sync.view().reason], [['Boss'], null], 'an edit here ends the warning');
});

t.test('a backup that is restored', async (t) => {
  const bench = await inStep();
  const { cloud, book, lines } = bench;
  const restore = cloud.backUp();
  await book.add(EWA);
  await book.replace(1, { ...JOHN, name: 'Johnny' });
  await bench.syncNow();
  await restore();
  await cloud.edit((entries) => [...entries, BOSS]);
  await bench.syncNow();
  agreeOn(t, bench, ['Boss', 'Ewa', 'Jane', 'Johnny']);
  t.equal(joinsIn(lines), 1);
});

t.test('two devices with one id', async (t) => {
  const bench = await inStep();
  const { cloud } = bench;
  const copy = await startSync({ cloud, life: 2 });
  await copy.syncNow();
  await copy.book.add(EWA);
  await copy.syncNow();
  await bench.syncNow();
  t.same(namesOf(bench), ['Ewa', 'Jane', 'John'], 'what one adds the other has');
  cloud.calls.splice(0);
  for (let turn = 0; turn < 3; turn++) {
    await copy.syncNow();
    await bench.syncNow();
  }
  t.notMatch(bench.calls(), /put/, 'they do not put it in turn for ever');
  await bench.book.remove(1);
  await bench.syncNow();
  await copy.syncNow();
  await bench.syncNow();
  t.same(
    [namesOf(bench), namesOf(copy), namesIn(cloud)],
    [
      ['Ewa', 'Jane', 'John'],
      ['Ewa', 'Jane', 'John'],
      ['Ewa', 'Jane', 'John'],
    ],
    'neither can remove anybody',
  );
});

for (const isCut of [false, true]) {
  t.test(`a PUT whose answer was lost${isCut ? ', then a power cut' : ''}`, async (t) => {
    const arrived = async (edit: (entries: readonly unknown[]) => unknown[]) => {
      const bench = await inStep();
      const { cloud } = bench;
      await bench.book.add(EWA);
      cloud.onCall = (call) => (call === 'put' ? 'lost answer' : 'ok');
      await bench.syncNow();
      cloud.onCall = () => 'ok';
      await cloud.edit(edit);
      const next = isCut ? await bench.restart() : bench;
      await next.syncNow();
      t.equal(next.sync.view().synced, true);
      t.notMatch(next.lines.join('\n'), /joined/);
      return next;
    };
    const isEwa = (entry: unknown) => (entry as Entry).destination === EWA.destination;
    const corrected = await arrived((entries) =>
      entries.map((it) => (isEwa(it) ? { ...(it as Entry), name: 'Ewa K.' } : it)),
    );
    agreeOn(t, corrected, ['Ewa K.', 'Jane', 'John'], 'a correction counts');
    const deleted = await arrived((entries) => entries.filter((it) => !isEwa(it)));
    agreeOn(t, deleted, ['Jane', 'John'], 'a deletion counts');
  });
}

for (const kind of ['an edit', 'a deletion']) {
  t.test(`an edit here during a PUT, and ${kind} in the cloud before the next`, async (t) => {
    const bench = await inStep();
    const { cloud, book, sync } = bench;
    await book.add(EWA);
    cloud.onCall = async (call): Promise<Fate> => {
      if (call === 'put') await book.replace(1, { ...JOHN, name: 'Johnny' });
      return 'ok';
    };
    await bench.syncNow();
    cloud.onCall = () => 'ok';
    t.same(namesIn(cloud), ['Ewa', 'Jane', 'John'], 'the edit is left to the next sync');
    t.match(sync.view(), { synced: false, reason: null });
    if (kind === 'a deletion') await deleteIn(cloud, 'John');
    else
      await cloud.edit((entries) =>
        entries.map((it) => ((it as Fields).name === 'John' ? { ...(it as Entry), name: 'J.' } : it)),
      );
    await bench.syncNow();
    t.same(namesIn(cloud), ['Ewa', 'Jane', 'Johnny'], 'who edited there had not seen it: it counts');
    t.same([namesOf(bench), sync.view().synced], [namesIn(cloud), true]);
    t.notMatch(bench.lines.join('\n'), /joined/);
  });
}

t.test('one 404, though the document is there', async (t) => {
  const bench = await inStep();
  const { cloud, sync, clock } = bench;
  await deleteIn(cloud, 'John');
  cloud.onCall = (call) => (call === 'get' ? refusal(404) : 'ok');
  await bench.syncNow();
  t.match(sync.view(), { synced: false, reason: /has no address book/ });
  t.same(namesOf(bench), ['Jane', 'John']);
  cloud.onCall = () => 'ok';
  await clock.advance(60_000);
  t.same(
    [namesOf(bench), namesIn(cloud), sync.view().synced],
    [['Jane'], ['Jane'], true],
    'the deletion still counts',
  );
});

t.test('a 404 that stays', async (t) => {
  const bench = await inStep();
  const { cloud, sync, clock, lines } = bench;
  await cloud.forget();
  await bench.syncNow();
  await clock.advance(SYNC_ABSENT_MS - 300_000);
  bench.isOnline = false;
  await clock.advance(20 * 60_000);
  bench.isOnline = true;
  sync.request();
  await clock.advance(0);
  t.equal(cloud.entries, null, 'the time without a link does not count');
  await clock.advance(2 * SYNC_ABSENT_MS);
  t.same(namesIn(cloud), ['Jane', 'John'], 'it gets back what it has lost');
  t.equal(lines.filter((line) => line.startsWith('destinations forgotten')).length, 1);
  t.match(sync.view(), { synced: true, reason: null });
});

t.test('another spelling of the URL', async (t) => {
  const bench = await inStep();
  const { cloud } = bench;
  await cloud.edit((entries) =>
    entries
      .filter((entry) => (entry as Fields).name !== 'John')
      .map((entry) => ({ ...(entry as Entry), name: 'Jane K.' })),
  );
  const next = await bench.restart({ name: 'https://CLOUD.example/a' });
  await next.syncNow();
  agreeOn(t, next, ['Jane K.']);
  t.notMatch(next.lines.join('\n'), /joined/);
});

t.test('another cloud', async (t) => {
  const bench = await inStep();
  const empty = await CloudDocument.start();
  const moved = await bench.restart({ cloud: empty, name: 'https://other.example/a' });
  await moved.syncNow();
  t.same(namesIn(empty), ['Jane', 'John'], 'one without a document is given it at once');
  const back = await moved.restart({ cloud: bench.cloud, name: 'https://cloud.example/a' });
  await bench.cloud.edit(() => [BOSS]);
  await back.book.add(EWA);
  await back.syncNow();
  t.same(namesIn(bench.cloud), ['Boss', 'Ewa', 'Jane', 'John'], 'one with a document is joined');
  t.match(back.lines.join('\n'), /destinations joined/);
});

t.test('a cloud that drops members it does not know', async (t) => {
  const cloud = await CloudDocument.start();
  cloud.keep = ({ destinations }) => ({ destinations });
  const bench = await startSync({ cloud });
  const { book, sync, lines, calls } = bench;
  await book.add(JOHN);
  await book.add(JANE);
  await bench.syncNow();
  t.match(sync.view(), { synced: true, reason: /drops .*fieldpost/ });
  t.match(lines.join('\n'), /destinations altered .*fieldpost/);
  calls();
  await bench.syncNow();
  t.equal(calls(), 'get', 'it is not put again and again');
  await cloud.edit(() => [BOSS]);
  await bench.syncNow();
  agreeOn(t, bench, ['Boss', 'Jane', 'John'], 'nobody is lost');
  await book.remove(2);
  await bench.syncNow();
  agreeOn(t, bench, ['Boss', 'John'], 'what is deleted here is deleted');
  await cloud.edit((entries) => entries.map((entry) => ({ ...(entry as Entry), lang: 'fr' })));
  await bench.syncNow();
  t.same(
    book.list().map(({ lang }) => lang),
    ['fr', 'fr'],
    'edits there count',
  );
  t.equal(lines.filter((line) => line.startsWith('destinations altered')).length, 1, 'told once');
  const again = await bench.restart();
  await again.syncNow();
  t.match(again.sync.view(), { synced: true, reason: /drops .*fieldpost/ }, 'a new start finds it too');
});

t.test('a cloud that drops members, and whose ETag changes at each read', async (t) => {
  const cloud = await CloudDocument.start();
  cloud.keep = ({ destinations }) => ({ destinations });
  const bench = await startSync({ cloud });
  const { book, sync, calls } = bench;
  for (const fields of [JOHN, JANE, EWA]) {
    await book.add(fields);
    cloud.onCall = async (call): Promise<Fate> => {
      if (call === 'get') await cloud.flap();
      return 'ok';
    };
    await bench.syncNow();
    t.equal(sync.view().synced, true);
  }
  t.same(namesIn(cloud), ['Ewa', 'Jane', 'John']);
  calls();
  await bench.syncNow();
  t.equal(calls(), 'get', 'it is not put again and again');
});

t.test('a cloud that changes what it is given', async (t) => {
  const cloud = await CloudDocument.start();
  cloud.keep = (document) => ({
    ...document,
    destinations: document.destinations.map((entry) => ({
      ...(entry as Entry),
      destination: (entry as Entry).destination.toLowerCase(),
      touched: 1,
    })),
  });
  const bench = await startSync({ cloud });
  const { book, sync, calls, lines } = bench;
  await book.add({ ...JOHN, destination: 'John@example.com' });
  await book.add(JANE);
  await bench.syncNow();
  t.match(sync.view(), { synced: false, reason: /changes what it is given: destination 1 \(destination\)$/ });
  t.match(lines.join('\n'), /destinations altered/);
  t.equal(book.get(1)?.destination, 'John@example.com', 'what was acknowledged here stays');
  calls();
  await bench.syncNow();
  t.equal(calls(), 'get', 'it is not put again and again');
  await cloud.edit((entries) => entries.map((entry) => ({ ...(entry as Entry), name: 'Theirs' })));
  await bench.syncNow();
  t.same(
    book.list().map(({ name }) => name),
    ['Theirs', 'Theirs'],
    'an edit there counts all the same',
  );
  cloud.keep = (document) => document;
  await book.replace(2, { ...JANE, lang: 'it' });
  await bench.syncNow();
  t.match(sync.view(), { synced: true, reason: null }, 'a cloud that was mended');
});

t.test('an ETag that changes at each read', async (t) => {
  const bench = await inStep();
  const { cloud, sync, calls, book } = bench;
  const { operations } = bench.disk;
  calls();
  for (let beat = 0; beat < 20; beat++) {
    await cloud.flap();
    sync.seen(cloud.etag);
    await bench.clock.advance(0);
  }
  t.equal(bench.disk.operations, operations, 'nothing is written for a document that says the same');
  t.equal(calls(), Array(20).fill('get').join(' '));
  await book.add(EWA);
  await bench.syncNow();
  t.same(namesIn(cloud), ['Ewa', 'Jane', 'John'], 'and the next PUT names the ETag of now');
  t.equal(calls(), 'get put get');
});
