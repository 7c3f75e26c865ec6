/** Of the messages that wait for one recipient under one key only the newest stays. */
import t from 'tap';
import type { Draft, MessageType } from '../../src/mail/message/message.js';
import type { Store } from '../../src/mail/store/store.js';
import { draftTo, draftToAll } from '../support/drafts.js';
import { newDisk, openOn, settleAs, watch } from '../support/store.js';

/** A mail to a recipient under a key. */
const under = (collapse: string, name = 'a'): Draft => ({ ...draftTo(name), collapse });

const acceptAll = async (store: Store, ...drafts: Draft[]) => (await store.accept(drafts, null)).ids;
const acceptUnder = async (store: Store, key = 'k', name = 'a') =>
  (await acceptAll(store, under(key, name)))[0] as string;
const defer = (store: Store, id: string) =>
  store.settle(id, { kind: 'deferred', reply: '450 later', delayMs: 60_000 });
const statuses = (store: Store, ids: readonly string[]) =>
  ids.map((id) => store.get(id)?.status ?? 'unknown');
const countOf = (store: Store, id: string) => store.get(id)?.extras?.replaced;

t.test('the newest of a key stays, and counts what it replaced', async (t) => {
  const disk = newDisk();
  const { store, clock, lines } = await openOn(disk);
  const ids: string[] = [];
  for (let i = 0; i < 12; i++) ids.push(await acceptUnder(store));
  const newest = ids.at(-1) as string;
  const check = (store: Store, words: string) => {
    t.equal(store.counts().queued, 1, words);
    for (const [i, id] of ids.slice(0, -1).entries())
      t.match(store.get(id), { status: 'replaced', replacedBy: ids[i + 1], place: null }, words);
    t.match(store.get(newest), { status: 'queued', extras: { collapse: 'k', replaced: 11 } }, words);
  };
  check(store, 'at once');
  t.match(lines.join('\n'), new RegExp(`replaced id=${ids[0]} by=${ids[1]}`));
  const killed = disk.afterKill();
  const { store: replayed } = await openOn(killed, 2, { clock });
  check(replayed, 'after a replay');
  await replayed.close();
  const { store: loaded } = await openOn(killed, 3, { clock });
  check(loaded, 'after a snapshot');
  const next = await acceptUnder(loaded);
  t.match(loaded.get(newest), { status: 'replaced', replacedBy: next }, 'the index is there again');
  t.equal(countOf(loaded, next), 12);
});

t.test('only equal keys, types and recipients', async (t) => {
  const { store } = await openOn(newDisk());
  const sms = (type: MessageType, destination: string): Draft =>
    ({ ...draftTo('x'), type, destination, content: { message: 'x' }, collapse: 'k' }) as Draft;
  const ids = await acceptAll(
    store,
    ...[under('k', 'a'), under('k', 'b'), under('K', 'a'), draftTo('a')],
    ...[sms(2, '+491'), sms(3, '+491'), sms(2, '+492'), sms(4, 'OWNER')],
  );
  t.equal(store.counts().queued, ids.length);
  await acceptAll(store, sms(3, '+491'));
  t.same(
    statuses(store, ids).filter((status) => status !== 'queued'),
    ['replaced'],
  );
  t.equal(store.get(ids[5] as string)?.status, 'replaced');
  const capital = { ...under('k'), destination: 'a@EXAMPLE.com' } as Draft;
  await acceptAll(store, capital);
  t.equal(store.get(ids[0] as string)?.status, 'replaced', 'the domain of an address has no case');
});

t.test('one batch: the last stays, and each has an id', async (t) => {
  const { store } = await openOn(newDisk());
  const before = await acceptUnder(store);
  const ids = await acceptAll(store, ...Array.from({ length: 100 }, () => under('k')), under('k', 'b'));
  t.equal(new Set(ids).size, 101);
  t.equal(store.counts().queued, 2);
  const last = ids[99] as string;
  for (const id of [before, ...ids.slice(0, 99)])
    t.match(store.get(id), { status: 'replaced', replacedBy: last });
  t.equal(countOf(store, last), 100);
  t.equal(countOf(store, ids[100] as string), undefined);
});

t.test('each recipient of a mail is judged alone', async (t) => {
  const { store } = await openOn(newDisk());
  const toAll = (...names: string[]): Draft => ({ ...draftToAll(names), collapse: 'k' });
  const [a = '', b = ''] = await acceptAll(store, toAll('a', 'b'));
  const [c = '', d = ''] = await acceptAll(store, toAll('b', 'c'));
  t.same(statuses(store, [a, b, c, d]), ['queued', 'replaced', 'queued', 'queued']);
  t.same(
    [a, c, d].map((id) => countOf(store, id)),
    [undefined, 1, undefined],
  );
  const content = await store.content(store.get(a) as NonNullable<ReturnType<Store['get']>>);
  t.match(content, { subject: 'a' }, 'the content that they share stays for the other');
});

t.test('a message that is being sent is left alone', async (t) => {
  const { store } = await openOn(newDisk());
  const first = await acceptUnder(store);
  store.claim(first);
  const second = await acceptUnder(store);
  t.same(statuses(store, [first, second]), ['sending', 'queued']);
  await store.settle(first, { kind: 'sent', reply: '250 ok' });
  t.same(statuses(store, [first, second]), ['sent', 'queued']);
  t.equal(countOf(store, second), undefined);
});

for (const end of ['replay', 'snapshot'] as const)
  t.test(`a send that is to be tried later ends if a newer message waits (${end})`, async (t) => {
    const disk = newDisk();
    const { store, clock } = await openOn(disk);
    const older = await acceptUnder(store);
    const first = await acceptUnder(store);
    store.claim(first);
    const second = await acceptUnder(store);
    const over = store.whenFinal(first);
    await defer(store, first);
    await over;
    if (end === 'snapshot') await store.close();
    const { store: again } = await openOn(end === 'snapshot' ? disk : disk.afterKill(), 2, { clock });
    for (const one of [store, again]) {
      t.match(one.get(first), { status: 'replaced', replacedBy: second });
      t.match(one.get(older), { status: 'replaced', replacedBy: first });
      t.equal(countOf(one, second), 2);
      t.equal(one.counts().deferred, 0);
    }
  });

t.test('a deferred message is replaced as a queued one', async (t) => {
  const { store } = await openOn(newDisk());
  const first = await acceptUnder(store);
  store.claim(first);
  await defer(store, first);
  t.equal(store.get(first)?.status, 'deferred');
  const second = await acceptUnder(store);
  t.same(statuses(store, [first, second]), ['replaced', 'queued']);
  t.equal(store.counts().deferred, 0);
});

t.test('what waits beside a newer one is replaced when its turn comes', async (t) => {
  const { store } = await openOn(newDisk());
  const failed = await acceptUnder(store);
  await settleAs(store, failed, 'failed');
  const fresh = await acceptUnder(store);
  await store.retry(failed);
  t.same(statuses(store, [failed, fresh]), ['queued', 'queued']);
  t.equal(store.claim(failed), null);
  t.equal(store.claim(failed), null, 'nor while its end is on its way to the disk');
  await store.whenFinal(failed);
  t.match(store.get(failed), { status: 'replaced', replacedBy: fresh });
  t.match(store.claim(fresh), { extras: { replaced: 1 } });
  const [older] = [await acceptUnder(store, 'last')];
  t.not(store.claim(older), null, 'the newest is sent');
});

t.test('a message that was not tried ends if a newer one waits, which may go first', async (t) => {
  const { store } = await openOn(newDisk());
  const older = await acceptUnder(store);
  store.claim(older);
  const newer = await acceptUnder(store);
  const over = store.whenFinal(older);
  store.giveBack(older);
  await settleAs(store, newer);
  await over;
  t.match(store.get(older), { status: 'replaced', replacedBy: newer });
});

t.test('all that failed and are queued anew become one, which counts each', async (t) => {
  const { store } = await openOn(newDisk());
  const ids: string[] = [];
  for (let i = 0; i < 40; i++) {
    ids.push(await acceptUnder(store));
    await settleAs(store, ids[i] as string, 'failed');
  }
  await store.retryFailed();
  const newest = ids.pop() as string;
  t.same(ids.map((id) => store.claim(id)).filter(Boolean), []);
  await Promise.all(ids.map((id) => store.whenFinal(id)));
  t.same(new Set(ids.map((id) => store.get(id)?.replacedBy)), new Set([newest]));
  t.equal(countOf(store, newest), 39);
});

t.test('one that is being cancelled is not replaced', async (t) => {
  const { store } = await openOn(newDisk());
  const first = await acceptUnder(store);
  const cancelled = store.cancel(first);
  const second = await acceptUnder(store);
  await cancelled;
  t.same(statuses(store, [first, second]), ['cancelled', 'queued']);
  t.equal(countOf(store, second), undefined);
});

t.test('acceptances of one key at the same time take turns, others do not', async (t) => {
  const disk = newDisk();
  const { store } = await openOn(disk);
  const same = Array.from({ length: 20 }, () => acceptUnder(store));
  const ids = await Promise.all(same);
  t.equal(store.counts().queued, 1);
  const newest = [...ids].sort().at(-1) as string;
  t.equal(countOf(store, newest), 19);
  t.equal(ids.filter((id) => store.get(id)?.status === 'replaced').length, 19);
  const operations = watch(disk);
  await Promise.all(Array.from({ length: 20 }, (_, i) => acceptUnder(store, `k${i}`)));
  const writes = operations.filter(({ kind }) => kind === 'write').length;
  t.ok(writes <= 3, `other keys share their syncs (${writes})`);
  const [one, two] = [acceptAll(store, under('x'), under('y')), acceptAll(store, under('y'), under('x'))];
  await Promise.all([one, two]);
  t.equal(store.counts().queued, 1 + 20 + 2, 'two keys in another order lock nobody out');
});

t.test('a queue that is full of one key takes the newest', async (t) => {
  const budget = { maxQueue: 10, maxSpoolBytes: 2 ** 28, minFreeBytes: 0 };
  const { store } = await openOn(newDisk(), 1, { budget });
  for (let i = 0; i < 300; i++) await acceptUnder(store);
  t.equal(store.counts().queued, 1);
  for (let i = 1; i < 10; i++) await acceptUnder(store, `k${i}`);
  await t.rejects(acceptUnder(store, 'one more'), { code: 'queue-full' });
  for (let i = 1; i < 10; i++) await acceptUnder(store, `k${i}`);
  await t.rejects(acceptAll(store, under('k'), under('more')), { code: 'queue-full' });
  t.equal(store.counts().queued, 10);
  await acceptAll(store, ...Array.from({ length: 50 }, () => under('k')));
  t.equal(store.counts().queued, 10, 'a batch of one key takes one place');
});

t.test('a record that fails replaces nothing', async (t) => {
  const disk = newDisk();
  const { store } = await openOn(disk);
  const first = await acceptUnder(store);
  watch(disk, () => 'error:EIO');
  await t.rejects(acceptUnder(store), { code: 'storage-failed' });
  t.equal(store.get(first)?.status, 'queued');
  t.not(store.claim(first), null, 'it may be sent');
});

t.test('a power cut keeps all of the record or nothing of it', async (t) => {
  const seen = new Set<string>();
  for (let cutAt = 0, isOver = false; !isOver; cutAt++) {
    for (const fault of ['power-cut-before', 'power-cut-after'] as const) {
      const disk = newDisk();
      const { store } = await openOn(disk);
      const first = await acceptUnder(store);
      let n = 0;
      isOver = true;
      watch(disk, () => {
        if (n++ !== cutAt) return 'ok';
        isOver = false;
        return fault;
      });
      const second = await acceptUnder(store).catch(() => null);
      if (isOver) break;
      for (const cut of ['nothing', 'everything', 'torn-head', 'torn-tail'] as const) {
        const { store: again } = await openOn(
          disk.afterPowerCut(cut, () => 0.5),
          2,
        );
        const all = again.list({ status: null, limit: 10, after: null }).messages;
        const found = all.map(({ status, extras }) => `${status} ${extras?.replaced ?? 0}`).join(', ');
        seen.add(found);
        if (second !== null) t.equal(found, 'queued 1, replaced 0', `promised (${cutAt}, ${fault}, ${cut})`);
        t.equal(again.counts().queued, 1);
        t.equal(all.at(-1)?.id, first);
      }
    }
  }
  t.same([...seen].sort(), ['queued 0', 'queued 1, replaced 0']);
});

t.test('ten thousand keys cost no walk', async (t) => {
  const { store } = await openOn(newDisk(), 1, {
    budget: { maxQueue: 20_000, maxSpoolBytes: 2 ** 30, minFreeBytes: 0 },
  });
  const round = async () => {
    for (let i = 0; i < 10_000; i += 100)
      await acceptAll(store, ...Array.from({ length: 100 }, (_, j) => under(`k${i + j}`)));
  };
  await round();
  await round();
  t.equal(store.counts().queued, 10_000);
});
