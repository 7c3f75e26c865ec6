/** Attachments in the store: on their way in, kept, read back, and gone once nobody needs them. */
import t from 'tap';
import { SPOOL_WRITE_BYTES } from '../../src/limits.js';
import type { Attachment } from '../../src/message/message.js';
import { crc32 } from '../../src/store/crc.js';
import type { Store } from '../../src/store/store.js';
import { draftTo } from '../support/bookkeeper.js';
import { FaultyDisk } from '../support/faulty-disk.js';
import { openOn, STATE_DIR } from '../support/store.js';

const SPOOL = `${STATE_DIR}/spool`;
const newDisk = () => new FaultyDisk({ directories: ['/var/lib'] });
const SENT = { kind: 'sent', reply: '250 taken' } as const;

async function* inChunks(bytes: Buffer, chunkBytes = 60_000): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += chunkBytes) yield bytes.subarray(at, at + chunkBytes);
}

async function whole(source: AsyncIterable<Buffer>): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of source) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** A mail with these files; gives its id and what became of them. */
async function acceptWith(store: Store, name: string, files: readonly Buffer[]) {
  const upload = await store.upload(0);
  const attachments: Attachment[] = [];
  for (const [i, bytes] of files.entries())
    attachments.push(await upload.add({ name: `${i}.bin`, type: 'application/pdf' }, inChunks(bytes)));
  const { ids } = await store.accept([{ ...draftTo(name), attachments }], null);
  await upload.discard();
  return { id: ids[0] as string, attachments };
}

t.test('what is uploaded is read back, also after a restart', async (t) => {
  const disk = newDisk();
  const { store } = await openOn(disk);
  const files = [0, 1, SPOOL_WRITE_BYTES, SPOOL_WRITE_BYTES + 1, 1_000_003].map((bytes) =>
    Buffer.alloc(bytes, 'Żółw'),
  );
  const { id, attachments } = await acceptWith(store, 'a', files);
  for (const [i, bytes] of files.entries()) {
    t.match(attachments[i], { name: `${i}.bin`, type: 'application/pdf', size: bytes.length });
    t.equal(attachments[i]?.crc, crc32(bytes));
  }
  for (const end of [() => store.close(), async () => undefined]) {
    await end();
    const { store: again } = await openOn(disk, 2);
    t.same(again.get(id)?.attachments, attachments);
    for (const [i, attachment] of attachments.entries())
      t.ok((await whole(again.openAttachment(attachment))).equals(files[i] as Buffer), `file ${i}`);
    await again.close();
  }
});

t.test('files go when the outcome is synced, their names stay told', async (t) => {
  const disk = newDisk();
  const { store, clock } = await openOn(disk);
  const { id, attachments } = await acceptWith(store, 'a', [Buffer.alloc(10), Buffer.alloc(20)]);
  store.take(id);
  await store.settle(id, SENT);
  t.equal((await disk.list(SPOOL)).length, 2, 'the outcome is not yet synced');
  await clock.advance(1000);
  t.same(await disk.list(SPOOL), []);
  t.same(store.get(id)?.attachments, attachments);
  await store.close();
  const { store: again } = await openOn(disk, 2);
  t.same(again.get(id)?.attachments, attachments);
});

t.test('what nobody took is removed', async (t) => {
  const disk = newDisk();
  const { store } = await openOn(disk);
  const upload = await store.upload(0);
  await upload.add({ name: 'a', type: 'text/plain' }, inChunks(Buffer.alloc(100_000)));
  t.equal((await disk.list(SPOOL)).length, 1);
  await upload.discard();
  await upload.discard();
  t.same(await disk.list(SPOOL), []);
});
