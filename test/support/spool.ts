/** Mails with files for the tests of the store: how they come in, and how they fail. */
import { MIB } from '../../src/base/limits.js';
import type { Attachment } from '../../src/mail/message/message.js';
import type { NamedFile, Upload } from '../../src/mail/store/spool.js';
import type { Store, StoreOptions } from '../../src/mail/store/store.js';
import { settled } from './clock.js';
import { draftTo, octets } from './drafts.js';
import { STATE_DIR, settleAs } from './store.js';

export const SPOOL = `${STATE_DIR}/spool`;
export const FILE = { name: 'pump.png', type: 'image/png' };
export const budgetOf = (limits: Partial<StoreOptions['budget']>) => ({
  budget: { maxQueue: 10_000, maxSpoolBytes: 256 * MIB, minFreeBytes: 0, ...limits },
});

export function* inChunks(bytes: Buffer, chunkBytes = 60_000): Generator<Buffer> {
  for (let at = 0; at < bytes.length; at += chunkBytes) yield bytes.subarray(at, at + chunkBytes);
}

/** Hands a file over as a form does: at the pace of the disk. */
export async function addFile(
  upload: Upload,
  chunks: Iterable<Buffer> | AsyncIterable<Buffer>,
  file: NamedFile = FILE,
): Promise<Attachment> {
  const coming = await upload.begin(file);
  for await (const chunk of chunks) await coming.write(chunk);
  return await coming.finish();
}

/** A mail with these files; gives its id and what became of them. */
export async function acceptWith(
  store: Store,
  name: string,
  files: readonly Buffer[],
  named: NamedFile = FILE,
) {
  const upload = await store.upload(0);
  try {
    const attachments: Attachment[] = [];
    for (const bytes of files) attachments.push(await addFile(upload, inChunks(bytes), named));
    const { ids } = await store.accept([{ ...draftTo(name), attachments }], null);
    return { id: ids[0] as string, attachments };
  } finally {
    await upload.discard();
  }
}

/** From here on the journal has its two segments, 2 MiB. */
export async function begin(store: Store): Promise<void> {
  await store.accept([draftTo('first')], null);
  await settled();
}

/** Failed mails that are kept, each with a file of so many bytes; gives their ids. */
export async function failWith(store: Store, names: readonly string[], fileBytes: number): Promise<string[]> {
  const failed: string[] = [];
  for (const name of names) {
    const { id } = await acceptWith(store, name, [octets(fileBytes)]);
    await settleAs(store, id, 'failed');
    failed.push(id);
  }
  return failed;
}
