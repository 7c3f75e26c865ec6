/**
 * Callers who may only send share half of the queue, and have Idempotency-Keys of their own. Each caller has at most its share.
 */
import t from 'tap';
import { BLOCK_BYTES, MIB } from '../../src/base/limits.js';
import type { Draft } from '../../src/mail/message/message.js';
import { storedKey } from '../../src/mail/store/keys.js';
import { ANYBODY } from '../../src/mail/store/quota.js';
import type { Store } from '../../src/mail/store/store.js';
import { draftTo, draftToAll, octets } from '../support/drafts.js';
import { addFile, budgetOf, inChunks } from '../support/spool.js';
import { newDisk, openOn, settleAs } from '../support/store.js';

const SENDER = { ...ANYBODY, onlySends: true };

const sent = (draft: Draft): Draft => ({ ...draft, onlySends: true });
const urgent = (draft: Draft): Draft => ({ ...draft, urgent: true });

/** Accepts messages one at a time until the first is refused; gives the ids and what refused. */
async function fill(store: Store, draft: Draft): Promise<{ ids: string[]; detail: string }> {
  const ids: string[] = [];
  for (;;) {
    try {
      ids.push(...(await store.accept([draft], null)).ids);
    } catch (error) {
      const { code, message } = error as Error & { code: string };
      if (code !== 'queue-full') throw error;
      return { ids, detail: message };
    }
  }
}

t.test('they fill half of the queue and a tenth of the urgent reserve, also after restarts', async (t) => {
  const disk = newDisk();
  const budget = budgetOf({ maxQueue: 400 });
  const { store: first } = await openOn(disk, 1, budget);
  let store = first;
  const half = await fill(store, sent(draftTo('s')));
  t.equal(half.ids.length, 200);
  t.match(
    half.detail,
    /callers who may only send have 200 messages in the queue and get at most half of it, 200/,
  );
  t.equal((await fill(store, urgent(sent(draftTo('s'))))).ids.length, 2, 'a tenth of 20');
  const next = disk.afterKill();
  ({ store } = await openOn(next, 2, budget));
  t.equal((await fill(store, sent(draftTo('s')))).ids.length, 0, 'after a kill');
  await store.close();
  ({ store } = await openOn(next, 3, budget));
  t.equal((await fill(store, urgent(sent(draftTo('s'))))).ids.length, 0, 'after a checkpoint');
  t.equal((await fill(store, draftTo('o'))).ids.length, 380 - 202, 'the rest is for the others');
  t.equal((await fill(store, urgent(draftTo('o')))).ids.length, 20, 'and what is kept for urgent ones');
  await settleAs(store, half.ids[0] as string);
  await settleAs(store, half.ids[1] as string, 'failed');
  await store.cancel(half.ids[2] as string);
  for (const { id } of [...store.queued()].filter(({ extras }) => !extras?.onlySends).slice(0, 100))
    await store.cancel(id);
  t.equal(
    (await fill(store, sent(draftTo('s')))).ids.length,
    1,
    'what is final no longer counts: 199 and one',
  );
  await store.close();
});

t.test('the others fill the queue: urgent messages of senders get a tenth of the reserve', async (t) => {
  const { store } = await openOn(newDisk(), 1, budgetOf({ maxQueue: 400 }));
  t.equal((await fill(store, draftTo('o'))).ids.length, 380);
  t.equal((await fill(store, sent(draftTo('s')))).ids.length, 0);
  t.equal((await fill(store, urgent(sent(draftTo('s'))))).ids.length, 2);
  t.equal((await fill(store, urgent(draftTo('o')))).ids.length, 18);
  await store.close();
});

t.test('a queue of one takes a message of anybody', async (t) => {
  const { store } = await openOn(newDisk(), 1, budgetOf({ maxQueue: 1 }));
  t.equal((await fill(store, sent(draftTo('s')))).ids.length, 1);
  await store.close();
});

t.test('they fill half of the disk budget, with texts', async (t) => {
  const { store } = await openOn(newDisk(), 1, budgetOf({ maxSpoolBytes: 40 * MIB }));
  const { ids, detail } = await fill(store, sent(draftTo('s', MIB / 2)));
  t.equal(ids.length, 24, 'of 0.8 MiB each');
  t.match(detail, /at most half of it, 20\.0? MiB|at most half of it, 20 MiB/);
  t.ok((await fill(store, draftTo('o', MIB / 2))).ids.length > 10);
  await store.close();
});

t.test(
  'and with files: while they come, while they wait, shared by their recipients, and once more',
  async (t) => {
    const disk = newDisk();
    const budget = budgetOf({ maxSpoolBytes: 64 * MIB });
    let { store } = await openOn(disk, 1, budget);
    const upload = await store.upload(0, SENDER);
    const file = await addFile(upload, inChunks(octets(20 * MIB)));
    await t.rejects(store.upload(13 * MIB, SENDER), { code: 'queue-full' }, 'while it comes');
    await (await store.upload(11 * MIB, SENDER)).discard();
    const names = Array.from({ length: 5 }, (_, i) => `s${i}`);
    const { ids } = await store.accept([sent({ ...draftToAll(names), attachments: [file] } as Draft)], null);
    await upload.discard();
    await t.rejects(store.upload(13 * MIB, SENDER), { code: 'queue-full' }, 'while it waits');
    await (await store.upload(11 * MIB, SENDER)).discard();
    await store.close();
    ({ store } = await openOn(disk, 2, budget));
    await t.rejects(store.upload(13 * MIB, SENDER), { code: 'queue-full' }, 'after a restart');
    await (await store.upload(11 * MIB, SENDER)).discard();
    for (const id of ids.slice(1)) await settleAs(store, id);
    await t.rejects(store.upload(13 * MIB, SENDER), { code: 'queue-full' }, 'one recipient still needs it');
    await settleAs(store, ids[0] as string, 'failed');
    await (await store.upload(30 * MIB, SENDER)).discard();
    t.pass('what is kept for a retry gives way');
    await store.close();
  },
);

t.test('uploads that end leave nothing behind in the count', async () => {
  const { store } = await openOn(newDisk(), 1, budgetOf({ maxSpoolBytes: 64 * MIB }));
  for (let i = 0; i < 20; i++) {
    const upload = await store.upload(0, SENDER);
    await addFile(upload, inChunks(octets(10 * MIB)));
    await upload.discard();
  }
  await (await store.upload(32 * MIB - 2 * BLOCK_BYTES, SENDER)).discard();
  await store.close();
});

t.test('they fill half of the memory budget', async (t) => {
  const { store } = await openOn(newDisk(), 1, { memoryBytesMax: 4 * MIB });
  const { ids, detail } = await fill(store, sent(draftTo('s')));
  t.match(detail, /of memory in the queue and get at most half of it/);
  const others = await fill(store, draftTo('o'));
  t.ok(ids.length > 500 && others.ids.length > 500, `${ids.length} and ${others.ids.length}`);
  await store.close();
});

t.test('the log tells once that they have filled their half, and once that there is room', async (t) => {
  const { store, lines, clock } = await openOn(newDisk(), 1, budgetOf({ maxQueue: 100 }));
  const { ids } = await fill(store, sent(draftTo('s')));
  for (let i = 0; i < 3; i++) {
    await fill(store, sent(draftTo('s')));
    await clock.advance(2000);
    await store.look();
  }
  const told = () => lines.filter((line) => /queue (?:full|no longer)/.test(line));
  t.equal(told().length, 1);
  t.match(told()[0], /queue full reason="callers who may only send have 50 messages/);
  for (const id of ids.slice(0, 10)) await settleAs(store, id);
  await clock.advance(2000);
  await store.look();
  t.equal(told().length, 2);
  t.match(told()[1], /queue no longer full for="callers who may only send"/);
  await store.close();
});

const of = (caller: string, draft: Draft): Draft => ({ ...draft, caller });
const shareOf = (maxShare: number, limits: Parameters<typeof budgetOf>[0] = { maxQueue: 400 }) =>
  budgetOf({ ...limits, maxShare });

t.test(
  'one caller gets its share and no more, and the next one gets its own; also after restarts',
  async (t) => {
    const disk = newDisk();
    const options = shareOf(30);
    let { store } = await openOn(disk, 1, options);
    const looping = await fill(store, of('uid 33', draftTo('a')));
    t.equal(looping.ids.length, 120);
    t.equal(
      looping.detail,
      'uid 33 has 120 messages in the queue and gets at most 30 % of it, 120',
      'it names the caller',
    );
    t.equal((await fill(store, urgent(of('uid 33', draftTo('a'))))).ids.length, 0, 'nor urgent ones');
    const error = await store.accept([of('uid 33', draftTo('a'))], null).catch((thrown) => thrown);
    t.match(error, { code: 'queue-full', hint: /raise FIELDPOST_MAX_SHARE$/ });
    const next = disk.afterKill();
    ({ store } = await openOn(next, 2, options));
    t.equal((await fill(store, of('uid 33', draftTo('a')))).ids.length, 0, 'after a kill');
    t.equal((await fill(store, of('smtp 192.0.2.7', draftTo('b')))).ids.length, 120, 'another caller');
    await store.close();
    ({ store } = await openOn(next, 3, options));
    t.equal((await fill(store, of('uid 33', draftTo('a')))).ids.length, 0, 'after a checkpoint');
    await settleAs(store, looping.ids[0] as string);
    await settleAs(store, looping.ids[1] as string, 'failed');
    await store.cancel(looping.ids[2] as string);
    await store.retry(looping.ids[1] as string);
    t.equal((await fill(store, of('uid 33', draftTo('a')))).ids.length, 2, 'what is final no longer counts');
    t.equal((await fill(store, draftTo('o'))).ids.length, 380 - 240, 'the rest is for the others');
    await store.close();
  },
);

t.test('a reload makes the share smaller and larger, and 100 % is none', async (t) => {
  const options = shareOf(50, { maxQueue: 100 });
  const budget = options.budget as { maxShare: number };
  const { store } = await openOn(newDisk(), 1, options);
  const { ids, detail } = await fill(store, of('uid 33', draftTo('a')));
  t.match(detail, /gets at most half of it, 50$/);
  budget.maxShare = 20;
  for (const id of ids.slice(0, 31)) await settleAs(store, id);
  t.equal((await fill(store, of('uid 33', draftTo('a')))).ids.length, 1);
  budget.maxShare = 60;
  t.equal((await fill(store, of('uid 33', draftTo('a')))).ids.length, 40);
  budget.maxShare = 100;
  t.match((await fill(store, of('uid 33', draftTo('a')))).detail, /^the queue holds 95 messages/);
  await store.close();
});

t.test('a caller who may only send has its share within the half of all such callers', async (t) => {
  const { store } = await openOn(newDisk(), 1, shareOf(30, { maxQueue: 100 }));
  t.equal((await fill(store, of('send token', sent(draftTo('a'))))).ids.length, 30);
  const { ids, detail } = await fill(store, of('unix:/run/send.sock', sent(draftTo('b'))));
  t.equal(ids.length, 20);
  t.match(detail, /^callers who may only send have 50 messages/);
  t.equal((await fill(store, of('token', draftTo('c')))).ids.length, 30);
  await store.close();
});

t.test('the place of a message that it replaces is free for its own caller', async (t) => {
  const { store } = await openOn(newDisk(), 1, shareOf(10, { maxQueue: 100 }));
  const keyed = (caller: string, n: number) => of(caller, { ...draftTo('a'), collapse: `k${n}` });
  for (let n = 0; n < 10; n++) {
    await store.accept([keyed('uid 1', n)], null);
    await store.accept([of('uid 33', draftTo('b'))], null);
  }
  await t.rejects(store.accept([keyed('uid 33', 0)], null), { code: 'queue-full' }, 'of another');
  await store.accept([keyed('uid 1', 0)], null);
  t.equal(store.counts().queued, 20);
  await store.close();
});

t.test('the smallest share of a small queue is one message', async (t) => {
  const { store } = await openOn(newDisk(), 1, shareOf(1, { maxQueue: 20 }));
  t.equal((await fill(store, of('uid 1', draftTo('a')))).ids.length, 1);
  t.equal((await fill(store, of('uid 2', draftTo('a')))).ids.length, 1);
  await store.close();
});

t.test(
  'files count for the share, while they come and while they wait; kept for a retry they give way',
  async (t) => {
    const disk = newDisk();
    const options = shareOf(25, { maxSpoolBytes: 64 * MIB });
    let { store } = await openOn(disk, 1, options);
    const asker = { ...ANYBODY, caller: 'uid 33' };
    const upload = await store.upload(0, asker);
    const file = await addFile(upload, inChunks(octets(10 * MIB)));
    const tooLarge = () => store.upload(7 * MIB, asker);
    await t.rejects(tooLarge(), {
      code: 'queue-full',
      message:
        /^uid 33 has 10(?:\.\d)? MiB in the queue and gets at most 25 % of it, 16 MiB; this one needs 7 MiB$/,
    });
    await (await store.upload(7 * MIB, { ...ANYBODY, caller: 'uid 34' })).discard();
    const draft = { ...draftTo('a'), attachments: [file] } as Draft;
    const { ids } = await store.accept([of('uid 33', draft)], null);
    await upload.discard();
    await t.rejects(tooLarge(), { code: 'queue-full' }, 'while it waits');
    await store.close();
    ({ store } = await openOn(disk, 2, options));
    await t.rejects(tooLarge(), { code: 'queue-full' }, 'after a restart');
    await settleAs(store, ids[0] as string, 'failed');
    await (await store.upload(15 * MIB, asker)).discard();
    t.pass('what is kept gives way');
    await store.close();
  },
);

t.test('the log tells of each caller once, and once that there is room', async (t) => {
  const { store, lines, clock } = await openOn(newDisk(), 1, shareOf(10, { maxQueue: 1000 }));
  const { ids } = await fill(store, of('uid 33', draftTo('a')));
  await fill(store, of('uid 34', draftTo('a')));
  for (let i = 0; i < 3; i++) {
    await fill(store, of('uid 33', draftTo('a')));
    await clock.advance(2000);
    await store.look();
  }
  const told = () => lines.filter((line) => /queue (?:full|no longer)/.test(line));
  t.match(told(), [/queue full reason="uid 33 has 100 messages/, /queue full reason="uid 34 has/]);
  t.equal(told().length, 2);
  for (const id of ids.slice(0, 11)) await settleAs(store, id);
  await clock.advance(2000);
  await store.look();
  t.match(told()[2], /queue no longer full for="uid 33"/);
  t.equal(told().length, 3);
  await store.close();
});

const accept = (store: Store, key: string, onlySends: boolean, name = 'a') => {
  const draft = onlySends ? sent(draftTo(name)) : draftTo(name);
  return store.accept([draft], { key: storedKey(key, onlySends), hash: name });
};

t.test('a key that a sender has taken is free for the others, and leads to no id of theirs', async (t) => {
  const disk = newDisk();
  let { store } = await openOn(disk);
  const theirs = await accept(store, 'alarm', true, 'x');
  const own = await accept(store, 'alarm', false, 'y');
  const same = await accept(store, 'alarm', false, 'y');
  t.same([own.replayed, same.replayed], [false, true]);
  t.same(same.ids, own.ids);
  t.same((await accept(store, 'alarm', true, 'x')).ids, theirs.ids);
  t.not(own.ids[0], theirs.ids[0]);
  const ahead = await accept(store, 'report', false, 'z');
  await store.close();
  ({ store } = await openOn(disk, 2));
  t.same((await accept(store, 'alarm', false, 'y')).ids, own.ids, 'after a restart');
  t.same((await accept(store, 'alarm', true, 'x')).ids, theirs.ids);
  const behind = await accept(store, 'report', true, 'z');
  t.equal(behind.replayed, false, 'not even with the same content');
  t.not(behind.ids[0], ahead.ids[0]);
  await store.close();
});

for (const onlySends of [true, false])
  t.test(`keys of one kind drive out none of the other: ${onlySends ? 'senders' : 'others'}`, async (t) => {
    const { store } = await openOn(newDisk(), 1, { keysMax: 20 });
    const first = await accept(store, 'first', !onlySends);
    for (let i = 0; i < 100; i++) await accept(store, `k${i}`, onlySends);
    const again = await accept(store, 'first', !onlySends);
    t.same([again.replayed, again.ids], [true, first.ids]);
    t.equal((await accept(store, 'k80', onlySends)).replayed, true, '20 of its own are remembered');
    t.equal((await accept(store, 'k79', onlySends)).replayed, false);
    await store.close();
  });

t.test('nor if keys fill their part of the memory', async (t) => {
  const { store } = await openOn(newDisk(), 1, {
    memoryBytesMax: 4 * MIB,
    budget: budgetOf({ maxQueue: 9 }).budget,
  });
  const one = async (key: string, onlySends: boolean) => {
    const { ids, replayed } = await accept(store, key, onlySends);
    if (!replayed) await settleAs(store, ids[0] as string);
    return replayed;
  };
  await one('first', false);
  for (let i = 0; i < 3000; i++) await one(`${i}`.padStart(255, 'k'), true);
  t.equal(await one('first', false), true);
  t.equal(await one('0'.padStart(255, 'k'), true), false, 'senders forget their own');
  await store.close();
});
