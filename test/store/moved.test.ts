/** A relocation repeats what it moves: after damage no message is forgotten whose text is whole in the journal. */
import { Buffer } from 'node:buffer';
import t from 'tap';
import { crc32, hex8 } from '../../src/base/crc.js';
import { UNKNOWN_OUTCOME } from '../../src/mail/store/replay.js';
import type { Store } from '../../src/mail/store/store.js';
import { draftTo, draftToAll, messagesOf, octets } from '../support/drafts.js';
import type { FaultyDisk } from '../support/faulty-disk.js';
import { acceptWith } from '../support/spool.js';
import {
  acceptOne,
  damage,
  newDisk,
  onOpen,
  openOn,
  STATE_DIR,
  segmentPath,
  segmentsOf,
  settleAs,
  statusesOf,
} from '../support/store.js';

/** One bit of each snapshot is flipped. */
async function damageSnapshots(disk: FaultyDisk): Promise<void> {
  for (const name of ['store.json', 'store.json.1']) await damage(disk, name, '"messages"');
}

const repliesOf = (store: Store) =>
  Object.fromEntries([...messagesOf(store)].map(([name, { lastReply }]) => [name, lastReply]));

t.test('both snapshots damaged after a purge: what waited has failed, and can be retried', async (t) => {
  const disk = newDisk();
  const { store, clock } = await openOn(disk);
  const file = octets(3000);
  await acceptOne(store, 'waits');
  await store.accept([{ ...draftTo('urgent'), urgent: true }], null);
  await store.accept([draftToAll(['one', 'two', 'three'])], null);
  await acceptWith(store, 'files', [file]);
  await settleAs(store, await acceptOne(store, 'failed'), 'failed');
  const sent = await acceptOne(store, 'sent');
  const cancelled = await acceptOne(store, 'cancelled');
  const before = messagesOf(store);
  await store.purge(false);
  await settleAs(store, sent);
  await store.cancel(cancelled);
  await clock.advance(2500);

  const next = disk.afterKill();
  await damageSnapshots(next);
  const { store: again, lines } = await openOn(next, 2);
  const names = ['waits', 'urgent', 'one', 'two', 'three', 'files', 'failed'];
  t.same(repliesOf(again), Object.fromEntries(names.map((name) => [name, UNKNOWN_OUTCOME])));
  t.match(lines.join('\n'), /store damaged pieces=\d+ heldBack=7 /);
  for (const [name, { id, accepted, extras, attachments, from }] of before) {
    if (!names.includes(name)) continue;
    t.match(again.get(id), { accepted, extras, attachments, from });
    await again.retry(id);
    t.match(await again.content(again.get(id) as never), { plain: /^to / });
  }
  t.same((await next.list(`${STATE_DIR}/spool`)).length, 1, 'its file is kept');
  await again.close();
  const { store: third } = await openOn(next, 3);
  t.same(statusesOf(third), Object.fromEntries(names.map((name) => [name, 'queued'])));
});

t.test('the acceptance of moved content is damaged', async (t) => {
  const disk = newDisk();
  const { store } = await openOn(disk);
  for (const name of ['a', 'b', 'c']) await acceptOne(store, name);
  disk.onOperation = (_n, { path }) => (path.endsWith('store.json.new') ? 'error:EIO' : 'ok');
  await t.rejects(
    store.purge(false),
    { code: 'storage-failed' },
    'the content has moved, and no snapshot says so',
  );
  const next = disk.afterKill();
  await damage(next, 'journal/00000001.log', 'to b ');
  const { store: again } = await openOn(next, 2);
  t.same(statusesOf(again), { a: 'queued', b: 'failed', c: 'queued' });
  t.equal(repliesOf(again).b, UNKNOWN_OUTCOME);
});

t.test('a message that ends while its content moves is not found again', async (t) => {
  for (const isDamaged of [true, false]) {
    const disk = newDisk();
    const { store } = await openOn(disk, 1, { historyMax: 0 });
    const id = await acceptOne(store, 'gone');
    await acceptOne(store, 'waits');
    let settled: Promise<void> | null = null;
    onOpen(disk, /journal/, (opened) => {
      const { read } = opened;
      // The purge has found its place, and reads it.
      opened.read = async (...range) => {
        settled ??= settleAs(store, id);
        await settled;
        return await read.call(opened, ...range);
      };
    });
    await store.purge(false);
    const next = disk.afterKill();
    if (isDamaged) await damageSnapshots(next);
    const { store: again } = await openOn(next, 2, { historyMax: 0 });
    t.same(statusesOf(again), { waits: isDamaged ? 'failed' : 'queued' });
  }
});

/** Rewrites a relocation as earlier programs wrote it, with the ids alone. */
async function forgetAcceptances(disk: FaultyDisk, segment: number): Promise<void> {
  const file = await disk.open(segmentPath(segment), 'update');
  const text = (await file.read(0, await file.size())).toString('latin1');
  const lines = text.split('\n').map((line) => {
    const at = line.indexOf('"events":[{"e":"relocated"');
    if (at < 0) return line;
    const event = JSON.parse(line.slice(at + '"events":['.length, line.lastIndexOf(']}')));
    const messages = event.messages.map(({ id, length, crc }: Record<string, unknown>) => ({
      id,
      length,
      crc,
    }));
    const payload = `${line.slice(9, at)}"events":${JSON.stringify([{ ...event, messages }])}}`;
    const padded = Buffer.from(payload.padEnd(line.length - 9), 'latin1');
    return `${hex8(crc32(padded, segment))} ${padded.toString('latin1')}`;
  });
  await file.write(Buffer.from(lines.join('\n'), 'latin1'), 0);
  await file.sync();
  await file.close();
}

t.test(
  'contents that an earlier program moved are counted where nothing else names their messages',
  async (t) => {
    const disk = newDisk();
    const { store } = await openOn(disk);
    for (const name of ['a', 'b', 'c']) await acceptOne(store, name);
    await store.purge(false);
    const next = disk.afterKill();
    for (const name of await segmentsOf(next)) await forgetAcceptances(next, Number.parseInt(name, 10));
    await damageSnapshots(next);
    const { store: again, lines } = await openOn(next, 2);
    t.same(statusesOf(again), {});
    t.match(lines.join('\n'), /store damaged pieces=\d+ heldBack=0 nameless=3 /);
  },
);
