/** A content that several messages share counts once: in the journal, for the budget, and when old content is moved. */
import t from 'tap';
import { MIB } from '../../src/base/limits.js';
import type { Draft } from '../../src/mail/message/message.js';
import type { Store } from '../../src/mail/store/store.js';
import { settled } from '../support/clock.js';
import { draftTo, draftToAll } from '../support/drafts.js';
import { budgetOf } from '../support/spool.js';
import { newDisk, openOn, settleAs } from '../support/store.js';

/** A mail to so many recipients. */
const draftToMany = (name: string, count: number, bytes: number): Draft =>
  draftToAll(
    Array.from({ length: count }, (_, i) => (i === 0 ? name : `${name}-${i}`)),
    bytes,
  );

const accept = async (store: Store, draft: Draft) => [...(await store.accept([draft], null)).ids];

t.test('a content larger than a record of the relocation is moved once for all', async (t) => {
  const { store } = await openOn(newDisk());
  const ids = await accept(store, draftToMany('a', 50, 600_000));
  await store.purge(false);
  t.ok(store.counts().bytes < 6 * MIB, `${store.counts().bytes} bytes`);
  const places = ids.map((id) => JSON.stringify(store.get(id)?.place));
  t.equal(new Set(places).size, 1);
});

/** Bytes of the store after a long run whose only content left is that of mails to so many. */
async function bytesAfterRun(recipients: number): Promise<number> {
  const { store } = await openOn(newDisk(), 1, budgetOf({ maxSpoolBytes: 64 * MIB }));
  for (let i = 0; i < 20; i++) {
    await accept(store, draftToMany(`m${i}`, recipients, 60_000));
    for (let n = 0; n < 3; n++) {
      const [id = ''] = await accept(store, draftTo(`big${i}-${n}`, 330_000));
      await settleAs(store, id);
    }
  }
  // Also without what a checkpoint under way has yet to free.
  await settled();
  return store.counts().bytes;
}

t.test('segments with a little shared content are compacted as those with unshared', async (t) => {
  const [one, many] = [await bytesAfterRun(1), await bytesAfterRun(30)];
  t.ok(many < one + 2 * MIB, `${many} bytes for 30 recipients, ${one} for one`);
});

t.test('content that others still need does not give way, and is not dropped in vain', async (t) => {
  const { store } = await openOn(newDisk(), 1, budgetOf({ maxSpoolBytes: 20 * MIB }));
  const failed: string[] = [];
  for (let n = 0; n < 8; n++) {
    const [first = ''] = await accept(store, draftToMany(`m${n}`, 2, MIB));
    await settleAs(store, first, 'failed');
    failed.push(first);
  }
  await t.rejects(store.upload(15 * MIB), { code: 'queue-full' });
  t.equal(failed.filter((id) => store.get(id)?.place).length, 8);
});

t.test('a text that many failed messages share gives way once', async (t) => {
  const { store } = await openOn(newDisk(), 1, budgetOf({ maxSpoolBytes: 20 * MIB }));
  const ids = await accept(store, draftToMany('m', 20, MIB));
  for (const id of ids) await settleAs(store, id, 'failed');
  await t.rejects(store.upload(19.5 * MIB), { code: 'queue-full' });
  t.equal(ids.filter((id) => store.get(id)?.place).length, 20, 'it would not be enough');
});

for (const end of ['kill', 'stop'] as const) {
  t.test(`the count survives a ${end}`, async (t) => {
    const disk = newDisk();
    const { store, clock } = await openOn(disk, 1, budgetOf({ maxSpoolBytes: 20 * MIB }));
    const [first = '', second = ''] = await accept(store, draftToMany('m', 2, MIB));
    for (const id of [first, second]) await settleAs(store, id, 'failed');
    if (end === 'stop') await store.close();
    const left = end === 'stop' ? disk : disk.afterKill();
    const { store: again } = await openOn(left, 2, { clock, ...budgetOf({ maxSpoolBytes: 20 * MIB }) });
    await again.retry(first);
    await again.cancel(first);
    t.equal(await again.content(again.get(second) as never).then(() => 'there'), 'there');
    await again.retry(second);
    await again.cancel(second);
    await again.purge(false);
    t.ok(again.counts().bytes < 4 * MIB, `${again.counts().bytes} bytes`);
  });
}
