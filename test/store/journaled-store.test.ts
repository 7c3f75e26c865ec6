/** The store as the api and delivery use it. */
import t from 'tap';
import { DAY_MS, MIB, SEGMENT_BYTES, STORAGE_RETRY_MS } from '../../src/base/limits.js';
import type { Address } from '../../src/mail/message/address.js';
import type { Draft, Message } from '../../src/mail/message/message.js';
import { OUTCOME_SYNC_COUNT } from '../../src/mail/store/journal.js';
import { IDEMPOTENCY_AGE_MS, type Store, SWEEP_MS } from '../../src/mail/store/store.js';
import { FakeClock } from '../support/clock.js';
import { post } from '../support/delivery.js';
import { draftTo } from '../support/drafts.js';
import { acceptWith, budgetOf } from '../support/spool.js';
import { acceptOne, newDisk, openOn, STATE_DIR, settleAs, watch } from '../support/store.js';

const fullLines = (lines: readonly string[]) => lines.filter((line) => line.includes('queue full')).length;

t.test('an Idempotency-Key', async (t) => {
  const disk = newDisk();
  const { store, clock } = await openOn(disk);
  const keyed = { key: 'k', hash: 'h' };
  const first = await store.accept([draftTo('a'), draftTo('b')], keyed);
  const again = await store.accept([draftTo('a'), draftTo('b')], keyed);
  t.same(again, { ids: first.ids, replayed: true }, 'gives the first ids again');
  t.equal(store.counts().queued, 2, 'and queues nothing');
  await t.rejects(store.accept([draftTo('c')], { key: 'k', hash: 'other' }), { code: 'invalid' });
  const slow = store.accept([draftTo('d')], { key: 'slow', hash: 'h' });
  await t.rejects(store.accept([draftTo('d')], { key: 'slow', hash: 'h' }), { code: 'conflict' });
  await slow;
  await store.close();

  const { store: restarted } = await openOn(disk, 2, { clock });
  t.same((await restarted.accept([], keyed)).ids, first.ids, 'is remembered across a restart');
  await clock.advance(IDEMPOTENCY_AGE_MS + 1);
  t.equal((await restarted.accept([draftTo('e')], keyed)).replayed, false, 'for a day');
  await restarted.close();
});

t.test('a key is answered when the queue is full or held', async (t) => {
  const { store } = await openOn(newDisk(), 1, budgetOf({ maxQueue: 1 }));
  const keyed = { key: 'k', hash: 'h' };
  await store.accept([draftTo('a')], keyed);
  await store.hold();
  await t.rejects(store.accept([draftTo('b')], null), { code: 'queue-full' });
  t.equal((await store.accept([draftTo('a')], keyed)).replayed, true);
});

t.test('an SMS and a push message are read back as they came, also after a restart', async (t) => {
  const disk = newDisk();
  const { store } = await openOn(disk);
  const common = { attachments: [], ignored: [] };
  const drafts: Draft[] = [
    { type: 2, destination: '+31612345678', content: { message: 'żółw\n"x"' }, ...common },
    {
      type: 4,
      destination: 'OWNER',
      content: { message: 'm', title: 't', auto_open: false, app_data: { a: [1, null, 'ź'] } },
      ...common,
    },
  ];
  const { ids } = await store.accept(drafts, null);
  const check = async (store: Store) => {
    for (const [index, { type, destination, content }] of drafts.entries()) {
      const message = store.get(ids[index] as string) as Message;
      t.match(message, { type, destination });
      t.strictSame(await store.content(message), content);
    }
  };
  await check(store);
  await store.close();
  const { store: again } = await openOn(disk, 2);
  await check(again);
  await again.close();
});

t.test('the budget', async (t) => {
  const disk = newDisk();
  const { store, clock } = await openOn(disk, 1, budgetOf({ maxQueue: 5, minFreeBytes: MIB }));
  t.equal(await store.look(), null);
  const drafts = Array.from({ length: 8 }, (_, i) => draftTo(`m${i}`));
  const answers = await Promise.allSettled(drafts.map((draft) => store.accept([draft], null)));
  const accepted = answers.filter(({ status }) => status === 'fulfilled');
  t.equal(accepted.length, 5, 'exact, however many come at once');
  await t.rejects(store.accept([draftTo('x')], null), { code: 'queue-full', message: /takes at most 5/ });
  t.match(await store.look(), /takes at most 5/, 'the health check says so');
  const [id] = store.list({ status: null, limit: 1, after: null }).messages.map(({ id }) => id) as [string];
  await settleAs(store, id, 'sent');
  await acceptOne(store, 'next');
  disk.capacityBytes = 2.5 * 2 ** 20;
  await clock.advance(1000);
  const [other] = [...store.queued()].map(({ id }) => id) as [string];
  await settleAs(store, other, 'sent');
  await t.rejects(store.accept([draftTo('y')], null), { code: 'storage-full', message: /must stay free/ });
  t.match(store.storage(), { state: 'full', reason: /FIELDPOST_MIN_FREE/ });
  disk.capacityBytes = 2 ** 40;
  await clock.advance(1000);
  await acceptOne(store, 'room');
});

t.test('a full queue is logged once, and when it is over', async (t) => {
  const { store, lines } = await openOn(newDisk(), 1, budgetOf({ maxQueue: 21 }));
  const told = () => lines.filter((line) => line.includes('queue')).map((line) => line.slice(3).trim());
  const drafts = (count: number) => Array.from({ length: count }, (_, i) => draftTo(`m${i}`));
  const { ids } = await store.accept(drafts(18), null);
  t.match(store.room(), { used: { messages: 18 }, limits: { messages: 21 }, reason: null });
  for (let tries = 0; tries < 2; tries++) {
    await t.rejects(store.accept(drafts(5), null), { code: 'queue-full' });
    t.equal(await store.look(), null, 'one more would fit');
  }
  t.equal(told().length, 1);
  t.match(told()[0], /^queue full reason=.*holds 18 messages/);
  await store.accept(drafts(2), null);
  for (let tries = 0; tries < 2; tries++)
    await t.rejects(store.accept(drafts(1), null), { code: 'queue-full' });
  t.equal(told().length, 2, 'it is logged again when nothing fits at all');
  t.match(told()[1], /^queue full reason=.*holds 20 messages/);
  for (const id of ids.slice(0, 2)) await store.cancel(id);
  t.equal(await store.look(), null);
  t.equal(told().length, 2, 'not for the first that fits again: a queue that fills as it drains is quiet');
  await store.cancel(ids[2] as string);
  t.equal(await store.look(), null);
  t.same(told().slice(2), ['queue no longer full']);
  await t.rejects(store.accept(drafts(21), null), { code: 'queue-full' });
  t.equal(told().length, 4, 'and logged again');
  for (const { id } of [...store.queued()]) await store.cancel(id);
  await store.look();
  t.same(told().slice(4), ['queue no longer full'], 'also where what was refused never fits');
});

t.test('the byte budget counts what is on the disk', async (t) => {
  const { store, clock, lines } = await openOn(newDisk(), 1, budgetOf({ maxSpoolBytes: 4 * SEGMENT_BYTES }));
  let accepted = 0;
  const filled = async () => {
    for (; ; accepted++) await acceptOne(store, `m${accepted}`, 400_000);
  };
  await t.rejects(filled(), { code: 'queue-full', message: /FIELDPOST_MAX_SPOOL|may take at most/ });
  t.equal(fullLines(lines), 1, 'it is logged once');
  // Beside the journal there is a small snapshot.
  t.ok(accepted >= 3 && Math.floor(store.counts().bytes / SEGMENT_BYTES) <= 4);
  for (const { id } of [...store.queued()]) await settleAs(store, id, 'sent');
  // A refusal frees the segments of sent messages.
  let next: string | null = null;
  for (let tries = 0; tries < 5 && next === null; tries++) {
    next = await acceptOne(store, `again${tries}`, 400_000).catch(() => null);
    await clock.advance(0);
  }
  t.ok(next);
});

t.test('texts kept only for a possible retry give way to new messages', async (t) => {
  for (const segments of [4, 8]) {
    const { store, clock } = await openOn(
      newDisk(),
      1,
      budgetOf({ maxSpoolBytes: segments * SEGMENT_BYTES }),
    );
    let last = '';
    for (let n = 0; n < 100; n++) {
      // The first request may come before the segments have gone; the second does not.
      const accept = () => acceptOne(store, `m${n}`, 100_000);
      last = await accept().catch(() => clock.advance(0).then(accept));
      await settleAs(store, last, 'failed');
    }
    await store.retry(last);
    t.equal(store.get(last)?.status, 'queued', 'the youngest are kept');
  }
});

t.test('only a waiting message that is not being cancelled can be claimed, and none on hold', async (t) => {
  const { store } = await openOn(newDisk());
  const [a, b] = [await acceptOne(store, 'a'), await acceptOne(store, 'b')];
  t.equal(store.claim('nobody'), null);
  t.equal(store.claim(a)?.id, a);
  t.equal(store.claim(a), null, 'claimed already');
  store.giveBack(a);
  const cancelling = store.cancel(a);
  t.equal(store.claim(a), null, 'being cancelled');
  t.equal(store.claim(a, 'expire'), null);
  await cancelling;
  t.equal(store.claim(a), null, 'final');
  await store.hold();
  t.equal(store.claim(b), null, 'on hold');
  t.equal(store.claim(b, 'expire')?.id, b, 'expiry sends nothing');
  store.giveBack(b);
  await store.release();
  t.equal(store.claim(b)?.id, b);
});

t.test('the sender of an email is stamped at its acceptance', async (t) => {
  const disk = newDisk();
  let sender = 'first@example.com';
  const stamping = { sender: () => sender as Address };
  const { store } = await openOn(disk, 1, stamping);
  const a = await acceptOne(store, 'a');
  sender = 'second@example.com';
  const b = await acceptOne(store, 'b');
  const [sms = ''] = await post(store, 1, 2);
  const senders = (found: Store) => [a, b, sms].map((id) => found.get(id)?.from);
  const expected = ['first@example.com', 'second@example.com', undefined];
  t.same(senders(store), expected);
  const left = disk.afterKill();
  const killed = await openOn(left, 2, stamping);
  t.same(senders(killed.store), expected, 'from the journal');
  await killed.store.close();
  const { store: closed } = await openOn(left, 3);
  t.same(senders(closed), expected, 'from the snapshot');
});

t.test('dropped content is logged once that is recorded', async (t) => {
  const disk = newDisk();
  const { store, clock, lines } = await openOn(disk, 1, { keepFailedMs: DAY_MS });
  await settleAs(store, await acceptOne(store, 'a'), 'failed');
  await clock.advance(DAY_MS - SWEEP_MS);
  const dropped = () => lines.filter((line) => line.includes('content dropped')).length;
  disk.onOperation = (_n, { kind }) => (kind === 'sync' ? 'error:EIO' : 'ok');
  await clock.advance(2 * SWEEP_MS);
  t.equal(dropped(), 0, 'not while the disk refuses');
  disk.onOperation = () => 'ok';
  await clock.advance(2 * SWEEP_MS);
  t.equal(dropped(), 1);
});

t.test('the content of a failed message is deleted, once; the message stays failed', async (t) => {
  const disk = newDisk();
  const { store } = await openOn(disk);
  const [id, other, sent] = await Promise.all(['a', 'b', 'c'].map((name) => acceptOne(store, name)));
  if (!id || !other || !sent) throw new Error('three were accepted');
  for (const failed of [id, other]) await settleAs(store, failed, 'failed');
  await settleAs(store, sent, 'sent');
  await store.cancel(id);
  t.match(store.get(id), { status: 'failed', place: null, lastReply: 'failed it is' });
  for (const [gone, message] of [
    [id, 'the message has failed, and its content is no longer kept'],
    [sent, 'the message is sent already'],
  ] as const) {
    await t.rejects(store.cancel(gone), { code: 'conflict', message });
    await t.rejects(store.retry(gone), { code: 'conflict', message });
  }
  const [retried, deleted] = await Promise.allSettled([store.retry(other), store.cancel(other)]);
  t.equal(retried.status, 'fulfilled');
  t.match(deleted, { reason: { code: 'conflict' } }, 'a retry that came first holds');
  t.equal(store.get(other)?.status, 'queued');

  const { store: again } = await openOn(disk.afterPowerCut('nothing'), 2);
  t.match(again.get(id), { status: 'failed', place: null }, 'the deletion lasts');
  t.ok(again.get(other)?.place, 'and nothing else is deleted');
});

t.test('no message that is being cancelled is retried', async (t) => {
  const disk = newDisk();
  const { store } = await openOn(disk);
  const [queued, deferred, failed] = await Promise.all(['a', 'b', 'c'].map((name) => acceptOne(store, name)));
  if (!queued || !deferred || !failed) throw new Error('three were accepted');
  store.claim(deferred);
  await store.settle(deferred, { kind: 'deferred', reply: '451 later', delayMs: DAY_MS });
  await settleAs(store, failed, 'failed');
  for (const id of [queued, deferred, failed]) {
    const cancelling = store.cancel(id);
    await t.rejects(store.retry(id), { code: 'conflict', message: 'the message is being cancelled' });
    await cancelling;
    t.not(store.get(id)?.status, 'queued');
  }
  // A disk that refuses the cancellation leaves the message as it was.
  const kept = await acceptOne(store, 'd');
  disk.onOperation = () => 'error:EIO';
  await t.rejects(store.cancel(kept));
  disk.onOperation = () => 'ok';
  await t.resolves(store.retry(kept));
});

t.test('cancel, retry, flush, hold', async (t) => {
  const disk = newDisk();
  const { store, clock } = await openOn(disk);
  const a = await acceptOne(store, 'a');
  const b = await acceptOne(store, 'b');
  store.claim(a);
  await t.rejects(store.cancel(a), { code: 'conflict' }, 'not while it is being sent');
  store.giveBack(a);
  t.equal(store.get(a)?.status, 'queued');
  const cancelling = store.cancel(a);
  t.same(
    [...store.queued()].map(({ id }) => id),
    [b],
    'not to be sent while it is cancelled',
  );
  await cancelling;
  t.equal(store.get(a)?.status, 'cancelled');
  await t.rejects(store.cancel(a), { code: 'conflict' });
  await t.rejects(store.retry(a), { code: 'conflict' });
  await t.rejects(store.cancel('nobody'), { code: 'not-found' });
  await t.rejects(store.retry('nobody'), { code: 'not-found' });

  store.claim(b);
  await store.settle(b, { kind: 'deferred', reply: '451 later', delayMs: 60_000 });
  t.match(store.get(b), { status: 'deferred', attempts: 1, lastReply: '451 later' });
  t.equal(store.get(b)?.due?.bootMs, clock.bootMs() + 60_000);
  store.claim(b);
  t.equal(store.get(b)?.status, 'sending');
  store.giveBack(b);
  t.equal(store.get(b)?.status, 'deferred', 'as it was before');
  await store.flush();
  t.equal(store.get(b)?.due, null);
  await settleAs(store, b, 'failed');
  store.reachability.heard(clock.bootMs(), 60_000);
  await clock.advance(1000);
  t.equal(store.get(b)?.reachMs, 0);
  await store.retry(b);
  t.match(store.get(b), { status: 'queued', retried: { boot: clock.boot }, reachMs: 1000 }, 'with a new age');
  t.match(await store.content(store.get(b) as never), { subject: 'b' }, 'its content was kept');
  await store.hold();
  await store.close();
  const { store: again } = await openOn(disk, 2);
  t.equal(again.held, true, 'a hold survives a restart');
  await again.release();
  t.equal(again.held, false);
});

t.test('the last finished messages stay readable, envelope only', async (t) => {
  const { store } = await openOn(newDisk(), 1, { historyMax: 3 });
  const ids: string[] = [];
  for (let i = 0; i < 5; i++) {
    const id = await acceptOne(store, `m${i}`);
    await settleAs(store, id, 'sent');
    ids.push(id);
  }
  t.same(
    ids.map((id) => store.get(id)?.status),
    [undefined, undefined, 'sent', 'sent', 'sent'],
  );
  await t.rejects(store.content(store.get(ids[4] as string) as never), { code: 'storage-damaged' });
});

t.test('the content of failed messages', async (t) => {
  const disk = newDisk();
  const clock = new FakeClock();
  const options = { clock, keepFailedMs: 7 * DAY_MS, ...budgetOf({ maxQueue: 3 }), historyMax: 10 };
  const { store, lines } = await openOn(disk, 1, options);
  const a = await acceptOne(store, 'a');
  await settleAs(store, a, 'failed');
  await clock.advance(7 * DAY_MS - SWEEP_MS);
  t.ok(store.get(a)?.place, 'is kept for seven days');
  await clock.advance(2 * SWEEP_MS);
  t.equal(store.get(a)?.place, null, 'and no longer');
  await t.rejects(store.retry(a), { code: 'conflict' });
  const [b, c] = [await acceptOne(store, 'b'), await acceptOne(store, 'c')];
  await settleAs(store, b, 'failed');
  await settleAs(store, c, 'failed');
  lines.length = 0;
  await store.accept([draftTo('d'), draftTo('e')], null);
  t.equal(store.get(b)?.place, null, 'gives way to new messages, oldest first');
  t.match(lines.join('\n'), /content dropped messages=1\n$/, 'which is logged');
  t.ok(store.get(c)?.place);
  t.equal(store.counts().failed, 3);
});

t.test('pages, newest first', async (t) => {
  const { store } = await openOn(newDisk());
  const ids: string[] = [];
  for (let i = 0; i < 5; i++) ids.unshift(await acceptOne(store, `m${i}`));
  const idsOf = (query: Parameters<Store['list']>[0]) => store.list(query).messages.map(({ id }) => id);
  const first = store.list({ status: null, limit: 2, after: null });
  t.same(
    first.messages.map(({ id }) => id),
    ids.slice(0, 2),
  );
  t.equal(first.next, ids[1]);
  t.same(idsOf({ status: null, limit: 2, after: first.next }), ids.slice(2, 4));
  t.equal(store.list({ status: null, limit: 5, after: null }).next, null, 'exactly all');
  await settleAs(store, ids[3] as string, 'sent');
  t.same(idsOf({ status: 'sent', limit: 5, after: null }), [ids[3]]);
  t.same([...ids].sort().reverse(), ids, 'ids sort by acceptance');
});

t.test('counts', async (t) => {
  const { store, clock } = await openOn(newDisk());
  const ids: string[] = [];
  for (let i = 0; i < 6; i++) ids.push(await acceptOne(store, `m${i}`));
  const [a, b, c, d] = ids as [string, string, string, string];
  await settleAs(store, a, 'failed');
  store.claim(b);
  store.claim(c);
  await store.settle(c, { kind: 'deferred', reply: '451', delayMs: 1 });
  store.claim(c);
  store.claim(d);
  await store.settle(d, { kind: 'deferred', reply: '451', delayMs: 1 });
  await clock.advance(5000);
  t.match(store.counts(), { queued: 2, sending: 2, deferred: 1, failed: 1, oldestAgeMs: 5000, held: false });
});

t.test('how many wait for the cloud, also after starts by replay and by snapshot', async (t) => {
  const disk = newDisk();
  const { store, clock } = await openOn(disk);
  const sms: Draft = { ...draftTo('s'), type: 2, destination: '+31612345678', content: { message: 'x' } };
  const { ids } = await store.accept([draftTo('a'), sms, sms, { ...sms, urgent: true }], null);
  await settleAs(store, ids[1] as string, 'failed');
  t.match(store.counts(), { queued: 3, failed: 1, forCloud: 2 });
  await store.retry(ids[1] as string);
  await store.cancel(ids[2] as string);
  t.match(store.counts(), { queued: 3, forCloud: 2 });
  const killed = disk.afterKill();
  const { store: replayed } = await openOn(killed, 2, { clock });
  t.match(replayed.counts(), { queued: 3, forCloud: 2 }, 'after a kill');
  await replayed.accept([sms], null);
  await replayed.close();
  const { store: read } = await openOn(killed.afterKill(), 3, { clock });
  t.match(read.counts(), { queued: 4, forCloud: 3 }, 'after a stop');
});

t.test('outcomes are synced within a second or 32, and idleness writes nothing', async (t) => {
  const disk = newDisk();
  const { store, clock } = await openOn(disk);
  const drafts = Array.from({ length: 40 }, (_, i) => draftTo(`m${i}`));
  const { ids } = await store.accept(drafts, null);
  await clock.advance(100);
  const seen = watch(disk);
  const syncs = () => seen.filter(({ kind }) => kind === 'sync').length;
  await settleAs(store, ids[0] as string, 'sent');
  t.same(
    seen.map(({ kind }) => kind),
    ['write'],
    'an outcome is written, not synced',
  );
  await clock.advance(999);
  t.equal(syncs(), 0);
  await clock.advance(1);
  t.equal(syncs(), 1, 'but a second later it is');
  for (let i = 1; i <= OUTCOME_SYNC_COUNT; i++) await settleAs(store, ids[i] as string, 'sent');
  t.equal(syncs(), 2, 'or with the thirty-second');
  await clock.advance(5000);
  seen.length = 0;
  await clock.advance(DAY_MS);
  t.same(seen, [], 'a day of idleness');
});

t.test('restarts do not wear the flash', async (t) => {
  const disk = newDisk();
  const { store, clock } = await openOn(disk);
  await acceptOne(store, 'a');
  await clock.advance(10);
  await store.close();
  const seen = watch(disk);
  for (let i = 0; i < 3; i++) await (await openOn(disk, i)).store.close();
  t.notOk(
    seen.some(({ kind }) => kind === 'write'),
    'without work nothing is written',
  );
  const { store: again } = await openOn(disk, 9);
  await acceptOne(again, 'b');
  t.ok((await disk.list(`${STATE_DIR}/journal`)).includes('00000002.log'), 'the prepared segment is used');
});

t.test('stopping', async (t) => {
  const { store } = await openOn(newDisk());
  await store.close();
  await t.rejects(store.accept([draftTo('late')], null), { code: 'stopping' });
});

t.test('the number and age of remembered keys are bounded', async (t) => {
  const clock = new FakeClock();
  const { store } = await openOn(newDisk(), 1, { clock, keyAgeMs: 1000, keysMax: 2 });
  const accept = (key: string) => store.accept([draftTo('a')], { key, hash: 'h' });
  for (const key of ['a', 'b', 'c']) await accept(key);
  t.equal((await accept('b')).replayed, true);
  t.equal((await accept('a')).replayed, false, 'the oldest was dropped');
  await clock.advance(1001);
  t.equal((await accept('c')).replayed, false, 'too old');
  await store.close();
});

t.test(
  'pages follow the order of acceptance, even if mails with and without files come together',
  async (t) => {
    const { store } = await openOn(newDisk());
    // Files take a while: their names must be on the disk first.
    const accept = async (i: number) =>
      i % 3 === 0
        ? (await acceptWith(store, `mail${i}`, [Buffer.from('file')])).id
        : await acceptOne(store, `mail${i}`);
    const accepted = await Promise.all(Array.from({ length: 30 }, (_, i) => accept(i)));
    const seen: string[] = [];
    for (let after: string | null = null; ; ) {
      const page = store.list({ status: null, limit: 3, after });
      seen.push(...page.messages.map(({ id }) => id));
      after = page.next;
      if (after === null) break;
    }
    t.same(seen, [...accepted].sort().reverse(), 'each once, newest first');
    t.same(
      [...store.queued()].map(({ id }) => id),
      [...accepted].sort(),
      'and they are sent in this order',
    );
    await store.close();
  },
);

t.test('a stop retries outcomes that the disk refused', async (t) => {
  const disk = newDisk();
  const { store, clock } = await openOn(disk);
  const id = await acceptOne(store, 'a');
  await settleAs(store, id);
  disk.onOperation = (_, { kind }) => (kind === 'sync' ? 'error:EIO' : 'ok');
  await clock.advance(1100);
  t.equal(store.storage().state, 'failed');
  disk.onOperation = () => 'ok';
  await store.close();
  const next = await openOn(disk.afterPowerCut('nothing'), 2);
  t.equal(next.store.get(id)?.status, 'sent');
});

t.test('while the disk refuses, no key is answered', async (t) => {
  const disk = newDisk();
  const { store, clock } = await openOn(disk);
  const keyed = { key: 'k', hash: 'h' };
  await store.accept([draftTo('a')], keyed);
  disk.onOperation = (_n, { kind }) => (kind === 'sync' ? 'error:EIO' : 'ok');
  await t.rejects(store.accept([draftTo('b')], null), { code: 'storage-failed' });
  await t.rejects(store.accept([draftTo('a')], keyed), { code: 'storage-failed' });
  t.throws(() => store.recall('k'), { code: 'storage-failed' });
  disk.onOperation = () => 'ok';
  await clock.advance(STORAGE_RETRY_MS);
  t.equal(store.recall('k')?.hash, 'h');
});
