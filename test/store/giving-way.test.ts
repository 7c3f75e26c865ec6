/** When the content of failed mails, kept for a retry, is dropped for new mails. */
import t from 'tap';
import { MIB } from '../../src/base/limits.js';
import { SPACE_FRESH_MS } from '../../src/mail/store/free-space.js';
import type { Upload } from '../../src/mail/store/spool.js';
import type { Store } from '../../src/mail/store/store.js';
import { settled } from '../support/clock.js';
import { draftTo, octets } from '../support/drafts.js';
import { acceptWith, addFile, begin, budgetOf, failWith, inChunks, SPOOL } from '../support/spool.js';
import { newDisk, openOn, STATE_DIR, segmentPath, sendOne, settleAs } from '../support/store.js';

const NAMES = ['a', 'b', 'c'];

/** How many of the failed mails can still be retried. */
const keptOf = (store: Store, ids: readonly string[]) =>
  ids.filter((id) => store.get(id)?.place !== null).length;

async function uploadWhole(store: Store, name: string, bytes: number): Promise<void> {
  const upload = await store.upload(bytes);
  const attachments = [await addFile(upload, inChunks(octets(bytes)))];
  await store.accept([{ ...draftTo(name), attachments }], null);
  await upload.discard();
}

t.test('a Content-Length alone drops no content', async (t) => {
  const { store, lines } = await openOn(newDisk(), 1, budgetOf({ maxSpoolBytes: 20 * MIB }));
  const failed = await failWith(store, NAMES, 4 * MIB);
  const silent = await store.upload(12 * MIB);
  const broken = await store.upload(12 * MIB);
  const gone = new Error('the client has gone');
  const source = async function* () {
    yield octets(1024);
    throw gone;
  };
  await t.rejects(addFile(broken, source()), gone);
  await Promise.all([silent.discard(), broken.discard()]);
  t.equal(keptOf(store, failed), 3);
  t.notMatch(lines.join(''), /content dropped/);

  await uploadWhole(store, 'd', 12 * MIB);
  t.equal(keptOf(store, failed), 1, 'bytes that arrive get the room');
  await t.rejects(
    store.upload(12 * MIB),
    { code: 'queue-full' },
    'and is refused at once if no content can be dropped',
  );
});

t.test('the oldest goes first, and no more than is needed', async (t) => {
  const disk = newDisk();
  const { store, lines } = await openOn(disk, 1, budgetOf({ maxSpoolBytes: 20 * MIB }));
  const failed = await failWith(store, NAMES, 4 * MIB);
  await t.rejects(store.upload(19 * MIB), { code: 'queue-full' });
  t.equal((await disk.list(SPOOL)).length, 3, 'nothing is dropped that would not help');
  await uploadWhole(store, 'd', 7 * MIB);
  t.same(
    failed.map((id) => store.get(id)?.place === null),
    [true, false, false],
  );
  t.match(lines.join(''), /content dropped messages=1/);
  await t.rejects(store.retry(failed[0] as string), { code: 'conflict' });
  await acceptWith(store, 'e', [octets(3 * MIB)]);
  t.equal(keptOf(store, failed), 1, 'also without a Content-Length');
});

t.test('uploads at the same time share the room exactly', async (t) => {
  const limits = { maxSpoolBytes: 11 * MIB + 3 * 4096, minFreeBytes: 16 * MIB };
  for (const short of ['budget', 'disk'] as const) {
    const disk = newDisk();
    const { store, clock } = await openOn(disk, 1, budgetOf(limits));
    await begin(store);
    const failed = await failWith(store, NAMES, 2 * MIB);
    t.equal(store.counts().bytes, limits.maxSpoolBytes - 3 * MIB);
    const { freeBytes } = await disk.space(STATE_DIR);
    disk.capacityBytes -= freeBytes - limits.minFreeBytes - (short === 'disk' ? 2.1 : 4) * MIB;
    await clock.advance(SPACE_FRESH_MS);
    let most = 0;
    let least = Number.POSITIVE_INFINITY;
    const come = async (upload: Upload) => {
      const source = async function* () {
        for await (const chunk of inChunks(octets(2 * MIB))) {
          yield chunk;
          most = Math.max(most, store.counts().bytes);
          least = Math.min(least, (await disk.space(STATE_DIR)).freeBytes);
        }
      };
      return await addFile(upload, source());
    };
    const uploads = await Promise.all(NAMES.map(() => store.upload(2 * MIB + 4096)));
    t.equal(keptOf(store, failed), 3);
    const files = await Promise.all(uploads.map(come));
    for (const [i, file] of files.entries())
      await store.accept([{ ...draftTo(`${i}`), attachments: [file] }], null);
    t.equal(store.counts().queued, 4, `${short}: all of them`);
    t.ok(most <= limits.maxSpoolBytes, `${most} bytes`);
    t.ok(least >= limits.minFreeBytes, `${least} bytes free`);
    t.equal(keptOf(store, failed), 1, 'and no more than needed');
  }
});

t.test('texts of failed mails give way to an upload, too', async (t) => {
  const { store } = await openOn(newDisk(), 1, budgetOf({ maxSpoolBytes: 20 * MIB }));
  const failed: string[] = [];
  for (let n = 0; n < 16; n++) {
    const { ids } = await store.accept([draftTo(`${n}`, MIB / 2)], null);
    await settleAs(store, ids[0] as string, 'failed');
    failed.push(...ids);
  }
  await uploadWhole(store, 'd', 9 * MIB);
  t.ok(keptOf(store, failed) > 0, `${keptOf(store, failed)} of 16 are kept`);
});

t.test('a request that is refused for another reason drops no content', async (t) => {
  const { store } = await openOn(newDisk(), 1, budgetOf({ maxSpoolBytes: 20 * MIB, maxQueue: 4 }));
  const failed = await failWith(store, NAMES, 5 * MIB);
  for (let n = 0; n < 4; n++) await store.upload(0);
  await t.rejects(store.accept([draftTo('e', 4 * MIB)], null), { code: 'queue-full', message: /at most 4/ });
  await t.rejects(store.upload(4 * MIB), { code: 'queue-full', message: /at most 4/ });
  t.equal(keptOf(store, failed), 3);
});

t.test('content gives way to a mail without files, and a retry meanwhile is refused', async (t) => {
  const disk = newDisk();
  const { store } = await openOn(disk, 1, budgetOf({ maxSpoolBytes: 20 * MIB }));
  const [id = ''] = await failWith(store, ['a'], 12 * MIB);
  // The next segment is filled.
  await settled();
  let refused: Promise<unknown> | null = null;
  disk.onOperation = (_n, { path }) => {
    // Only this segment gets the record: the next one may still be filled.
    if (path === segmentPath(1)) refused ??= t.rejects(store.retry(id), { code: 'conflict' });
    return 'ok';
  };
  await store.accept([draftTo('b', 4 * MIB)], null);
  t.ok(refused, 'it came while the content was dropped');
  await refused;
  t.equal(store.get(id)?.status, 'failed');
});

t.test('content gives way on a full disk', async (t) => {
  const disk = newDisk();
  const { store, clock } = await openOn(disk, 1, budgetOf({ minFreeBytes: 16 * MIB }));
  await begin(store);
  await failWith(store, ['a', 'b', 'c'], 4 * MIB);
  disk.capacityBytes = 30 * MIB;
  await clock.advance(SPACE_FRESH_MS);
  await store.accept([draftTo('d', MIB / 4)], null);
  t.equal((await disk.list(SPOOL)).length, 2, 'to a mail without files');
  await acceptWith(store, 'e', [octets(5 * MIB)]);
  t.equal((await disk.list(SPOOL)).length, 2, 'and to one with files');
  disk.capacityBytes = 18 * MIB;
  await clock.advance(SPACE_FRESH_MS);
  await t.rejects(store.accept([draftTo('f')], null), { code: 'storage-full' });
  t.equal((await disk.list(SPOOL)).length, 2, 'nothing is dropped that would not help');
});

t.test('the history gives way to new messages', async (t) => {
  const disk = newDisk();
  const small = { maxSpoolBytes: 4 * MIB };
  const name = `finished-${'x'.repeat(40)}`;
  const options = { ...budgetOf(small), historyMax: 10_000 };
  const { store } = await openOn(disk, 1, options);
  for (let n = 0; n < 6000; n++) await sendOne(store, name);
  let finished = 0;
  for (let after: string | null = null; ; ) {
    const page = store.list({ status: 'sent', limit: 1000, after });
    finished += page.messages.length;
    after = page.next;
    if (after === null) break;
  }
  t.ok(finished > 500 && finished < 3000, `${finished} are listed`);
  t.equal(store.room().reason, null);
  await store.close();

  // A larger budget has filled it, and a person makes it smaller.
  const { store: large } = await openOn(disk, 2, { historyMax: 10_000 });
  for (let n = 0; n < 6000; n++) await sendOne(large, name);
  await large.close();
  const { store: again } = await openOn(disk, 3, options);
  await sendOne(again, name).catch(() => undefined);
  await settled();
  await sendOne(again, name);
  t.equal(again.room().reason, null, 'the next start makes room for it');
});
