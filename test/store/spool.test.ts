/** Attachments in the store: on their way in, kept, read back, and removed once no message needs them. */
import t from 'tap';
import { crc32 } from '../../src/base/crc.js';
import { writeNew } from '../../src/base/durable-file.js';
import { DAY_MS, HOUR_MS, MIB, STORAGE_RETRY_MS } from '../../src/base/limits.js';
import type { Attachment } from '../../src/mail/message/message.js';
import { URGENT_SHARE } from '../../src/mail/store/quota.js';
import { SPOOL_READ_BYTES } from '../../src/mail/store/spool.js';
import { SPOOL_WRITE_BYTES, type Store } from '../../src/mail/store/store.js';
import { settled } from '../support/clock.js';
import { draftTo, octets, whole } from '../support/drafts.js';
import type { Fault, FaultyDisk } from '../support/faulty-disk.js';
import { acceptWith, addFile, begin, budgetOf, FILE, inChunks, SPOOL } from '../support/spool.js';
import { stall } from '../support/stall.js';
import { countOpen, damage, newDisk, onOpen, openOn, STATE_DIR, settleAs, watch } from '../support/store.js';

/** Blocks of 4 KiB, and one for inode and name. */
const onDisk = (octets: number) => 4096 * (1 + Math.ceil(octets / 4096));

async function opened(options: Parameters<typeof openOn>[2] = {}) {
  const disk = newDisk();
  return { disk, ...(await openOn(disk, 1, options)) };
}

/** Operations of this kind, on paths with these words, fail until the returned function is called. */
function failing(disk: FaultyDisk, kind: string, words: string, fault: Fault): () => void {
  watch(disk, (it) => (it.kind === kind && it.path.includes(words) ? fault : 'ok'));
  return () => {
    disk.onOperation = () => 'ok';
  };
}

t.test('an uploaded file is read back, also after a restart', async (t) => {
  const { disk, store } = await opened();
  await begin(store);
  const lengths = [0, 1, SPOOL_READ_BYTES, SPOOL_WRITE_BYTES, SPOOL_WRITE_BYTES + 1, 1_000_003];
  const files = lengths.map(octets);
  const before = store.counts().bytes;
  const named = { ...FILE, cid: 'a@b' };
  const { id, attachments } = await acceptWith(store, 'a', files, named);
  for (const [i, bytes] of files.entries())
    t.match(attachments[i], { ...named, size: bytes.length, crc: crc32(bytes) });
  const total = lengths.reduce((sum, length) => sum + onDisk(length), 0);
  t.equal(store.counts().bytes - before, total, 'the spool counts');
  const reads = async (store: Store) => {
    t.same(store.get(id)?.attachments, attachments);
    for (const [i, attachment] of attachments.entries())
      t.ok((await whole(store.openAttachment(attachment))).equals(files[i] as Buffer), `file ${i}`);
  };
  await reads(store);
  await reads((await openOn(disk.afterKill(), 2)).store);
  const again = disk.afterPowerCut('nothing');
  const { store: third } = await openOn(again, 3);
  await third.close();
  const { store: fromSnapshot } = await openOn(again, 4);
  await reads(fromSnapshot);
  t.ok(fromSnapshot.counts().bytes > total);
});

t.test('a message without attachments costs not a byte for them', async (t) => {
  const { disk, store } = await opened();
  await store.accept([draftTo('a')], null);
  await store.close();
  for (const path of ['store.json', 'journal/00000001.log'])
    t.notMatch((await disk.readWhole(`${STATE_DIR}/${path}`))?.toString(), /attachments/);
});

t.test('a file without a Content-ID costs nothing for it', async (t) => {
  const { disk, store } = await opened();
  await acceptWith(store, 'a', [octets(1)]);
  await store.close();
  for (const path of ['store.json', 'journal/00000001.log'])
    t.notMatch((await disk.readWhole(`${STATE_DIR}/${path}`))?.toString(), /"cid"/);
});

t.test('files go when the event that ends their need is synced; their names stay', async (t) => {
  const { disk, store, clock } = await opened();
  const fresh = (name: string) => acceptWith(store, name, [octets(10), octets(20)]);
  const files = async () => (await disk.list(SPOOL)).length;
  for (const kind of ['sent', 'expired'] as const) {
    const { id, attachments } = await fresh(kind);
    await settleAs(store, id, kind);
    t.equal(await files(), 2, 'the outcome is not yet synced');
    await clock.advance(1000);
    t.equal(await files(), 0, kind);
    t.same(store.get(id)?.attachments, attachments);
  }
  const { id: cancelled } = await fresh('cancelled');
  await store.cancel(cancelled);
  await settled();
  t.equal(await files(), 0, 'a cancellation is synced at once');

  const { id: deleted } = await fresh('deleted');
  await settleAs(store, deleted, 'failed');
  await store.cancel(deleted);
  await settled();
  t.equal(await files(), 0, 'so is the deletion of what a failed one keeps');

  const { id: failed, attachments } = await fresh('failed');
  await settleAs(store, failed, 'failed');
  await clock.advance(6 * DAY_MS);
  t.equal(await files(), 2, 'kept for a retry');
  await store.retry(failed);
  await settleAs(store, failed, 'failed');
  await clock.advance(7 * DAY_MS - HOUR_MS);
  t.equal(await files(), 2, 'and as long again after the next failure');
  await clock.advance(3 * HOUR_MS);
  t.equal(await files(), 0, 'but no longer');
  await t.rejects(store.retry(failed), { code: 'conflict' });
  await store.close();
  const { store: again } = await openOn(disk, 2);
  t.same(again.get(failed)?.attachments, attachments, 'also after a restart');
});

t.test('files that no message took are removed', async (t) => {
  const { disk, store } = await opened();
  const before = store.counts().bytes;
  t.test('by a discard, again and again', async (t) => {
    const upload = await store.upload(0);
    await addFile(upload, inChunks(octets(100_000)));
    t.equal(store.counts().bytes, before + onDisk(100_000), 'it counts while it is there');
    await upload.discard();
    await upload.discard();
    t.same(await disk.list(SPOOL), []);
    t.equal(store.counts().bytes, before);
    await t.rejects(addFile(upload, inChunks(octets(1))), /given up/);
  });
  t.test('if a discard comes in the middle of a file', async (t) => {
    const upload = await store.upload(0);
    const source = async function* () {
      yield octets(SPOOL_WRITE_BYTES + 1);
      await upload.discard();
      yield octets(1);
    };
    await t.rejects(addFile(upload, source()), /given up/);
    t.same(await disk.list(SPOOL), []);
  });
  t.test('if the key has been used before', async (t) => {
    const keyed = { key: 'k', hash: 'h' };
    const { ids } = await store.accept([draftTo('a')], keyed);
    const upload = await store.upload(0);
    const attachments = [await addFile(upload, inChunks(octets(9)))];
    t.same(await store.accept([{ ...draftTo('a'), attachments }], keyed), { ids, replayed: true });
    await upload.discard();
    t.same(await disk.list(SPOOL), []);
  });
  t.test('files that a message took stay', async (t) => {
    const upload = await store.upload(0);
    const attachments = [await addFile(upload, inChunks(octets(9)))];
    await addFile(upload, inChunks(octets(10)));
    await store.accept([{ ...draftTo('b'), attachments }], null);
    await upload.discard();
    t.same(
      await disk.list(SPOOL),
      attachments.map(({ id }) => id),
    );
  });
  t.test('if a discard comes while a file is being made', async (t) => {
    const upload = await store.upload(0);
    const before = (await disk.list(SPOOL)).length;
    const { release, arrived } = stall(disk, ({ kind }) => kind === 'create');
    const begun = upload.begin(FILE);
    await arrived;
    const discarded = upload.discard();
    release();
    await t.rejects(begun, /given up/);
    await discarded;
    t.equal((await disk.list(SPOOL)).length, before);
  });
});

t.test('the budget', async (t) => {
  t.test('a declared size beyond the budget is refused before anything is written', async (t) => {
    const { disk, store } = await opened(
      budgetOf({ maxSpoolBytes: Math.ceil((20 * MIB) / (1 - URGENT_SHARE)) }),
    );
    const seen = watch(disk);
    await t.rejects(store.upload(21 * MIB), { code: 'queue-full', message: /at most 20 MiB.*21 MiB/ });
    t.same(seen, []);
  });

  t.test('an upload in progress counts until it is given back', async (t) => {
    const { store } = await opened(budgetOf({ maxSpoolBytes: Math.ceil((20 * MIB) / (1 - URGENT_SHARE)) }));
    await begin(store);
    const first = await store.upload(12 * MIB);
    await t.rejects(store.upload(7 * MIB), { code: 'queue-full' });
    await t.rejects(store.accept([draftTo('a', 8 * MIB)], null), { code: 'queue-full' });
    const attachment = await addFile(first, inChunks(octets(10 * MIB)));
    await t.rejects(store.upload(7 * MIB), { code: 'queue-full' }, 'once, not twice, and as declared');
    const second = await store.upload(4 * MIB);
    await second.discard();
    await store.accept([{ ...draftTo('b'), attachments: [attachment] }], null);
    await first.discard();
    const third = await store.upload(6 * MIB - onDisk(0));
    const fourth = await store.upload(2 * MIB);
    await third.discard();
    await third.discard();
    await t.rejects(store.upload(7 * MIB), { code: 'queue-full' }, 'nothing is given back twice');
    await fourth.discard();
  });

  t.test('an upload of undeclared size may grow until it is too large', async (t) => {
    const { disk, store } = await opened(budgetOf({ maxSpoolBytes: 12 * MIB }));
    const uploads = await Promise.all([1, 2, 3].map(() => store.upload(0)));
    let most = 0;
    const endless = async function* () {
      for (;;) {
        most = Math.max(most, store.counts().bytes);
        yield octets(100_000);
      }
    };
    await Promise.all(uploads.map((it) => t.rejects(addFile(it, endless()), { code: 'queue-full' })));
    t.ok(most <= 12 * MIB, `${most} bytes`);
    // Of 12 MiB a part is for urgent messages, and one for the journal's next segment.
    t.ok(most > 10 * MIB, `${most} bytes`);
    await Promise.all(uploads.map((it) => it.discard()));
    t.same(await disk.list(SPOOL), []);
    await acceptWith(store, 'a', [octets(MIB)]);
  });

  t.test('an upload has its place in the queue', async (t) => {
    const { store } = await opened(budgetOf({ maxQueue: 2 }));
    await store.accept([draftTo('a')], null);
    const upload = await store.upload(0);
    await t.rejects(store.upload(0), { code: 'queue-full' });
    await t.rejects(store.accept([draftTo('b')], null), { code: 'queue-full' });
    const attachments = [await addFile(upload, inChunks(octets(10)))];
    await store.accept([{ ...draftTo('c'), attachments }], null);
    await upload.discard();
    t.equal(store.counts().queued, 2);
  });

  t.test('the reserve of the disk stays free, also when many uploads come at once', async (t) => {
    const { disk, store } = await opened(budgetOf({ minFreeBytes: 16 * MIB }));
    await begin(store);
    disk.capacityBytes = 30 * MIB + 4 * 4096;
    const found = await Promise.all(
      Array.from({ length: 8 }, () =>
        store.upload(3 * MIB + 4096).catch((error: { code: string }) => error.code),
      ),
    );
    const uploads = found.filter((it) => typeof it !== 'string');
    t.equal(uploads.length, 4, 'of 14 MiB the journal has 2');
    t.ok(found.every((it) => typeof it !== 'string' || it === 'storage-full'));
    await Promise.all(uploads.map((it) => addFile(it, inChunks(octets(3 * MIB)))));
    t.ok((await disk.space(STATE_DIR)).freeBytes >= 16 * MIB);
    await t.rejects(store.upload(3 * MIB), { code: 'storage-full', message: /3 MiB are asked for/ });
  });

  t.test('the reserve of inodes stays free', async (t) => {
    const { disk, store } = await opened();
    await begin(store);
    disk.capacityInodes -= (await disk.space(STATE_DIR)).freeInodes - 105;
    const upload = await store.upload(0);
    const added = await Promise.all(
      Array.from({ length: 20 }, () => addFile(upload, inChunks(octets(1))).catch(() => null)),
    );
    const { freeInodes } = await disk.space(STATE_DIR);
    t.equal(freeInodes, 99, 'the last that may be taken is the hundredth');
    await t.rejects(addFile(upload, inChunks(octets(1))), { code: 'storage-full', message: /inodes/ });
    t.ok(added.some((it) => it === null));
  });
});

t.test('a disk that refuses a file', async (t) => {
  t.test('a disk that fills in the middle: the file is gone, and others have room again', async (t) => {
    const { disk, store } = await opened();
    const isOpen = countOpen(disk, /spool/);
    await begin(store);
    const upload = await store.upload(0);
    const { freeBytes } = await disk.space(STATE_DIR);
    disk.capacityBytes -= freeBytes - 2 * MIB;
    await t.rejects(addFile(upload, inChunks(octets(3 * MIB))), { code: 'storage-full' });
    await upload.discard();
    t.same(await disk.list(SPOOL), []);
    t.equal((await disk.space(STATE_DIR)).freeBytes, 2 * MIB);
    t.equal(isOpen(), 0);
    await acceptWith(store, 'b', [octets(MIB)]);
  });

  for (const kind of ['create', 'write', 'sync', 'syncDirectory'] as const) {
    for (const fault of ['error:EIO', 'error-half:EIO', 'error-after:EIO'] as const) {
      t.test(`${fault} at ${kind}`, async (t) => {
        const { disk, store } = await opened();
        const isOpen = countOpen(disk, /spool/);
        const mend = failing(disk, kind, SPOOL, fault);
        await t.rejects(acceptWith(store, 'a', [octets(600_000)]), { code: 'storage-failed' });
        await settled();
        mend();
        t.equal(isOpen(), 0);
        t.same(await disk.list(SPOOL), []);
        await acceptWith(store, 'b', [octets(600_000)]);
        t.equal((await disk.list(SPOOL)).length, 1);
        t.equal(store.counts().queued, 1);
      });
    }
  }

  t.test('a failed sync of the directory may have lost the names of others, too', async (t) => {
    const { disk, store } = await opened();
    const [one, other] = [await store.upload(0), await store.upload(0)];
    const first = await addFile(one, inChunks(octets(10)));
    const second = await addFile(other, inChunks(octets(10)));
    const acceptOf = (name: string, attachment: Attachment) =>
      store.accept([{ ...draftTo(name), attachments: [attachment] }], null);
    const mend = failing(disk, 'syncDirectory', SPOOL, 'error:EIO');
    await t.rejects(acceptOf('a', first), { code: 'storage-failed' });
    mend();
    await t.rejects(acceptOf('b', second), { code: 'storage-failed' });
    await acceptWith(store, 'c', [octets(10)]);
  });

  t.test('a file that cannot be removed is tried again, and swept at the next start', async (t) => {
    const { disk, store } = await opened();
    const before = store.counts().bytes;
    const mend = failing(disk, 'remove', SPOOL, 'error:EIO');
    const upload = await store.upload(0);
    await addFile(upload, inChunks(octets(100)));
    await upload.discard();
    t.equal(store.counts().bytes, before + onDisk(100), 'it still counts');
    const left = disk.afterPowerCut('everything');
    await openOn(left, 2);
    t.same(await left.list(SPOOL), []);
    mend();
    const next = await store.upload(0);
    await addFile(next, inChunks(octets(100)));
    await next.discard();
    t.equal(store.counts().bytes, before);
  });
});

t.test('a file that could not be removed goes once the disk is well', async (t) => {
  for (const way of ['sweep', 'purge'] as const) {
    const { disk, store, clock } = await opened();
    const { id } = await acceptWith(store, 'a', [octets(100)]);
    const mend = failing(disk, 'remove', SPOOL, 'error:EROFS');
    await settleAs(store, id, 'sent');
    await clock.advance(HOUR_MS);
    t.equal((await disk.list(SPOOL)).length, 1);
    mend();
    if (way === 'sweep') await clock.advance(HOUR_MS);
    else await store.purge(false);
    t.same(await disk.list(SPOOL), [], way);
    await store.close();
  }
});

t.test('while the outcome of a record is unknown, its files are kept', async (t) => {
  const { disk, store, clock } = await opened();
  await begin(store);
  const mend = failing(disk, 'sync', 'journal', 'error-after:EIO');
  await t.rejects(acceptWith(store, 'b', [octets(5000)]), { code: 'storage-failed' });
  const { store: found } = await openOn(disk.afterPowerCut('everything'), 2);
  const [message] = found.list({ status: 'queued', limit: 1, after: null }).messages;
  t.equal(message?.destination, 'b@example.com', 'it was kept after all');
  t.ok((await whole(found.openAttachment(message?.attachments[0] as Attachment))).equals(octets(5000)));
  t.equal((await disk.list(SPOOL)).length, 1);
  mend();
  await clock.advance(STORAGE_RETRY_MS);
  t.same(await disk.list(SPOOL), [], 'in the new segment it is void');
});

t.test('a record in doubt is not called refused', async (t) => {
  t.test('if the disk has no room for the next segment', async (t) => {
    const { disk, store } = await opened();
    let isFailing = false;
    watch(disk, ({ kind, path }) => {
      if (kind === 'create' && path.endsWith('00000002.log')) return 'error:ENOSPC';
      return isFailing && kind === 'sync' && path.includes('journal') ? 'error-after:EIO' : 'ok';
    });
    await begin(store);
    isFailing = true;
    await t.rejects(store.accept([draftTo('b')], null), { code: 'storage-failed' });
    const { store: found } = await openOn(disk.afterPowerCut('everything'), 2);
    t.equal(found.counts().queued, 2);
  });
  t.test('if it is the first of a segment', async (t) => {
    const { disk, store } = await opened();
    let syncs = 0;
    watch(disk, ({ kind, path }) => {
      // A segment that can be removed takes what is in doubt with it.
      if (kind === 'remove' && path.includes('journal')) return 'error:EIO';
      return kind === 'sync' && path.includes('journal') && ++syncs % 2 === 0 ? 'error-after:ENOSPC' : 'ok';
    });
    await t.rejects(store.accept([draftTo('a')], null), { code: 'storage-failed' });
    const { store: found } = await openOn(disk.afterPowerCut('everything'), 2);
    t.equal(found.counts().queued, 1);
  });
});

t.test('names are synced together', async (t) => {
  const { disk, store } = await opened();
  const seen = watch(disk);
  await Promise.all(Array.from({ length: 12 }, (_, i) => acceptWith(store, `m${i}`, [octets(100)])));
  const syncs = seen.filter(({ kind, path }) => kind === 'syncDirectory' && path === SPOOL).length;
  t.ok(syncs < 6, `${syncs} syncs of the directory for 12 messages`);
});

t.test('an attachment that is not what was accepted is never given whole', async (t) => {
  const bytes = octets(3 * SPOOL_READ_BYTES + 5);
  const cases: Record<string, (disk: FaultyDisk, path: string, size: number) => Promise<void>> = {
    gone: (disk, path) => disk.remove(path),
    'with another octet': (disk, path) => changeOctet(disk, path, 9),
    'with another last octet': (disk, path, size) => changeOctet(disk, path, size - 1),
    longer: (disk, path, size) => changeOctet(disk, path, size),
    shorter: async (disk, path, size) => void (await writeNew(disk, path, [bytes.subarray(0, size - 1)])),
    async unreadable(disk) {
      disk.onRead = () => 'EIO';
    },
  };
  for (const [words, spoil] of Object.entries(cases)) {
    for (const content of [bytes, octets(10)]) {
      const { disk, store } = await opened();
      const isOpen = countOpen(disk, /spool/);
      const { attachments } = await acceptWith(store, 'a', [content]);
      const [attachment] = attachments as [Attachment];
      await spoil(disk, `${SPOOL}/${attachment.id}`, content.length);
      let read = 0;
      const reading = async () => {
        for await (const chunk of store.openAttachment(attachment)) read += chunk.length;
      };
      const code = words === 'unreadable' ? 'storage-failed' : 'storage-damaged';
      await t.rejects(reading(), { code }, words);
      t.ok(read < content.length, `${read} of ${content.length} octets`);
      t.equal(isOpen(), 0);
    }
  }
});

t.test('an attachment that is read wrongly once is tried again', async (t) => {
  const { disk, store } = await opened();
  const content = octets(SPOOL_READ_BYTES + 5);
  const { attachments } = await acceptWith(store, 'a', [content]);
  const [attachment] = attachments as [Attachment];
  let reads = 0;
  onOpen(disk, /spool/, (file) => {
    const { read } = file;
    file.read = async (offset, length) => {
      const bytes = Buffer.from(await read.call(file, offset, length));
      if (++reads === 1) bytes[0] = (bytes[0] ?? 0) ^ 1;
      return bytes;
    };
  });
  await t.rejects(whole(store.openAttachment(attachment)), { code: 'storage-failed' });
  t.ok((await whole(store.openAttachment(attachment))).equals(content));
});

async function changeOctet(disk: FaultyDisk, path: string, at: number): Promise<void> {
  const file = await disk.open(path, 'update');
  await file.write(Buffer.from('?'), at);
  await file.close();
}

t.test('a reader that stops leaves no file open, and one chunk is read ahead', async (t) => {
  const { disk, store } = await opened();
  const isOpen = countOpen(disk, /spool/);
  const { attachments } = await acceptWith(store, 'a', [octets(10 * SPOOL_READ_BYTES)]);
  let reads = 0;
  onOpen(disk, /spool/, (file) => {
    const { read } = file;
    file.read = (offset, length) => {
      reads++;
      return read.call(file, offset, length);
    };
  });
  for await (const chunk of store.openAttachment(attachments[0] as Attachment)) {
    await settled();
    t.equal(chunk.length, SPOOL_READ_BYTES);
    t.equal(reads, 2);
    break;
  }
  t.equal(isOpen(), 0);
});

t.test('a start removes left-over files, and none of an unknown name', async (t) => {
  const { disk, store } = await opened();
  const { attachments } = await acceptWith(store, 'a', [octets(10)]);
  const [{ id }] = attachments as [Attachment];
  const cutOff = await store.upload(0);
  await addFile(cutOff, inChunks(octets(10)));
  for (const name of ['README', `${id}.bak`]) await (await disk.open(`${SPOOL}/${name}`, 'create')).close();
  const after = disk.afterKill();
  const { store: again } = await openOn(after, 2);
  t.same(await after.list(SPOOL), ['README', id, `${id}.bak`].sort());
  t.equal(again.storage().damaged, 0);
});

t.test('a start that finds damage leaves files alone that may belong to what it cannot read', async (t) => {
  const { disk, store } = await opened();
  await acceptWith(store, 'a', [octets(10)]);
  await store.accept([draftTo('b')], null);
  await damage(disk, 'journal/00000001.log', 'to a');
  const after = disk.afterKill();
  const { store: again } = await openOn(after, 2);
  t.equal(again.counts().queued, 1);
  t.equal(again.storage().damaged, 1);
  t.equal((await after.list(SPOOL)).length, 1);
  await again.close();
  await openOn(after, 3);
  t.equal((await after.list(SPOOL)).length, 0, 'but not for ever');
});
