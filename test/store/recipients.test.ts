/** The recipients of one mail share its content and its files; urgent messages have room of their own. */
import t from 'tap';
import type { Address } from '../../src/mail/message/address.js';
import type { Draft, Message } from '../../src/mail/message/message.js';
import { ANYBODY } from '../../src/mail/store/quota.js';
import type { Store } from '../../src/mail/store/store.js';
import { draftTo, draftToAll, octets } from '../support/drafts.js';
import { addFile, budgetOf, inChunks, SPOOL } from '../support/spool.js';
import { newDisk, openOn, settleAs } from '../support/store.js';

const addressOf = (name: string) => `${name}@example.com` as Address;

/** Accepts it with a file of so many octets, and gives the ids. */
async function acceptWithFile(store: Store, draft: Draft, fileBytes: number): Promise<readonly string[]> {
  const upload = await store.upload(0);
  const attachments = [await addFile(upload, inChunks(octets(fileBytes)))];
  const { ids } = await store.accept([{ ...draft, attachments } as Draft], null);
  await upload.discard();
  return ids;
}

const readable = async (store: Store, id: string) => {
  const message = store.get(id) as Message;
  const { plain } = (await store.content(message)) as { plain: string };
  return plain;
};

const NAMES = Array.from({ length: 100 }, (_, i) => `r${i}`);

t.test('a hundred recipients cost one content in the journal', async (t) => {
  const disk = newDisk();
  const { store } = await openOn(disk);
  await store.accept([draftTo('a', 200_000)], null);
  const before = store.counts().bytes;
  const { ids } = await store.accept([draftToAll(NAMES, 200_000)], null);
  t.equal(ids.length, 100);
  t.same([...ids].sort(), ids, 'their ids have their order');
  t.ok(store.counts().bytes - before < 3 * 2 ** 20, 'not a hundred times 200 kB');
  t.same(
    ids.map((id) => store.get(id)?.destination),
    NAMES.map(addressOf),
  );
  for (const id of [ids[0], ids[99]]) t.match(await readable(store, id as string), /^to r0 /);
  t.same(new Set(ids.slice(1).map((id) => store.get(id)?.extras?.mail)), new Set([ids[0]]));
});

for (const end of ['replay', 'snapshot'] as const) {
  t.test(`after a start by ${end} each has its content, and the file stays for the last`, async (t) => {
    const disk = newDisk();
    const { store, clock } = await openOn(disk);
    const ids = await acceptWithFile(store, draftToAll(['a', 'b', 'c'], 5000), 9000);
    await settleAs(store, ids[0] as string);
    if (end === 'snapshot') await store.close();
    const left = end === 'snapshot' ? disk : disk.afterKill();
    const { store: again } = await openOn(left, 2, { clock });
    t.match(again.get(ids[0] as string), { status: 'sent', subject: 'a', textBytes: /^[1-9]/ });
    t.equal(await readable(again, ids[1] as string), await readable(again, ids[2] as string));
    await again.cancel(ids[1] as string);
    await again.hold();
    t.equal((await left.list(SPOOL)).length, 1);
    await again.cancel(ids[2] as string);
    await again.release();
    t.same(await left.list(SPOOL), []);
  });
}

t.test('a file goes with the last message that needs it, however each ends', async (t) => {
  const disk = newDisk();
  const { store } = await openOn(disk, 1, { keepFailedMs: 1 });
  const [a = '', b = '', c = '', d = ''] = await acceptWithFile(
    store,
    draftToAll(['a', 'b', 'c', 'd']),
    9000,
  );
  const count = async () => {
    await store.flush();
    await store.hold();
    await store.release();
    return (await disk.list(SPOOL)).length;
  };
  await settleAs(store, a, 'sent');
  t.equal(await count(), 1, 'sent');
  await store.cancel(b);
  t.equal(await count(), 1, 'cancelled');
  await settleAs(store, c, 'failed');
  t.equal(await count(), 1, 'failed, and kept for a retry');
  await settleAs(store, d, 'expired');
  t.equal(await count(), 1, 'the failed one needs it still');
  await store.cancel(c);
  t.equal(await count(), 0, 'the last one is gone');
});

t.test('a relocation moves a shared content once, and each still finds it', async (t) => {
  const disk = newDisk();
  const { store, clock } = await openOn(disk);
  const { ids } = await store.accept([draftToAll(['a', 'b', 'c'], 300_000)], null);
  const placeOf = (id: string | undefined) => store.get(id ?? '')?.place;
  const before = placeOf(ids[0])?.segment;
  await store.purge(false);
  t.not(placeOf(ids[0])?.segment, before, 'it has moved');
  t.same(placeOf(ids[1]), placeOf(ids[0]));
  t.same(placeOf(ids[2]), placeOf(ids[0]));
  for (const id of ids) t.match(await readable(store, id), /^to a /);
  await store.close();
  const { store: again } = await openOn(disk, 2, { clock });
  for (const id of ids) t.match(await readable(again, id), /^to a /);
});

t.test('5 % of the queue are kept for urgent messages', async (t) => {
  const { store } = await openOn(newDisk(), 1, budgetOf({ maxQueue: 40 }));
  const drafts = (count: number, urgent?: true): Draft[] =>
    Array.from({ length: count }, (_, i) => ({ ...draftTo(`m${i}`), ...(urgent && { urgent }) }));
  await store.accept(drafts(38), null);
  await t.rejects(store.accept(drafts(1), null), { code: 'queue-full', message: /at most 38/ });
  await t.rejects(store.accept([...drafts(1), ...drafts(1, true)], null), { code: 'queue-full' });
  await store.accept(drafts(2, true), null);
  await t.rejects(store.accept(drafts(1, true), null), { code: 'queue-full', message: /at most 40/ });
  t.same(
    [...store.urgent()].map(({ destination }) => destination),
    ['m0@example.com', 'm1@example.com'],
  );
});

t.test('and of its bytes, also for files; a queue of one has no such part', async (t) => {
  const { store } = await openOn(newDisk(), 1, budgetOf({ maxSpoolBytes: 40 * 2 ** 20 }));
  const upload = await store.upload(37 * 2 ** 20);
  await t.rejects(store.upload(2 * 2 ** 20), { code: 'queue-full' });
  await (await store.upload(2 * 2 ** 20, { ...ANYBODY, isUrgent: true })).discard();
  await upload.discard();
  const { store: small } = await openOn(newDisk(), 1, budgetOf({ maxQueue: 1 }));
  await small.accept([draftTo('a')], null);
  await t.rejects(small.accept([{ ...draftTo('b'), urgent: true }], null), { code: 'queue-full' });
});

t.test('what is urgent, and its life, survive a start', async (t) => {
  const disk = newDisk();
  const { store, clock } = await openOn(disk);
  const { ids } = await store.accept([{ ...draftTo('a'), urgent: true, lifeMs: 60_000 }, draftTo('b')], null);
  for (const end of ['kill', 'stop']) {
    const { store: again } = await openOn(disk.afterKill(), 2, { clock });
    t.same(
      [...again.urgent()].map(({ id }) => id),
      [ids[0]],
      end,
    );
    t.equal(again.get(ids[0] as string)?.extras?.lifeMs, 60_000);
    if (end === 'kill') await store.close();
  }
});
