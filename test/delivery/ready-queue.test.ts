import t from 'tap';
import { HOUR_MS, MIB, MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import { ReadyQueue } from '../../src/mail/delivery/ready-queue.js';
import { FakeClock } from '../support/clock.js';
import { openWatched, post } from '../support/delivery.js';
import { draftTo } from '../support/drafts.js';

const ROOMY = { maxQueue: 22_000, maxSpoolBytes: 256 * MIB, minFreeBytes: 0 };

async function setUp() {
  const clock = new FakeClock();
  const { store, watched } = await openWatched(clock, { budget: ROOMY });
  const ready = new ReadyQueue(store, clock, ({ type }) => type === 1);
  /** Claims up to `count`; gives their ids. */
  const pick = (count = 1, probe = false) => {
    const ids: string[] = [];
    for (let turn = 0; turn < count; turn++) {
      const message = ready.claim(probe, false);
      if (message === null) break;
      ids.push(message.id);
    }
    return ids;
  };
  const defer = async (id: string, delayMs: number) => {
    store.claim(id);
    await store.settle(id, { kind: 'deferred', reply: 'later', delayMs });
    ready.deferred(id);
  };
  const requeue = (id: string) => {
    store.giveBack(id);
    const message = store.get(id);
    if (message) ready.requeue(message, false);
  };
  return { clock, store, watched, ready, pick, defer, requeue };
}

t.test('oldest first; each once', async (t) => {
  const { store, ready, pick } = await setUp();
  const ids = await post(store, 90);
  t.same(pick(1000), ids);
  t.equal(ready.ready(), 0);
  t.equal(ready.nextMs, Number.POSITIVE_INFINITY);
  const more = await post(store, 2);
  ready.review();
  t.same(pick(3), more);
});

t.test('new and deferred take turns', async (t) => {
  const { clock, store, pick, defer } = await setUp();
  const [a = '', b = '', c = '', d = '', e = '', f = ''] = await post(store, 6);
  for (const id of [a, b, c]) await defer(id, SECOND_MS);
  await clock.advance(SECOND_MS);
  t.same(pick(9), [d, a, e, b, f, c]);
});

t.test('a deferred message is not picked before it is due, and the ready says when that is', async (t) => {
  const { clock, store, ready, pick, defer } = await setUp();
  const [a = '', b = ''] = await post(store, 2);
  t.same(pick(2), [a, b]);
  await defer(a, HOUR_MS);
  await defer(b, MINUTE_MS);
  const now = clock.bootMs();
  t.equal(ready.ready(), 0);
  t.equal(ready.nextMs, now + MINUTE_MS);
  await clock.advance(MINUTE_MS - 1);
  t.same(pick(), []);
  await clock.advance(1);
  t.same(pick(2), [b]);
  t.equal(ready.nextMs, now + HOUR_MS);
});

t.test('a message is due if it was flushed, has no date, or was deferred in another boot', async (t) => {
  const { store, ready, pick, defer } = await setUp();
  const [a = '', b = ''] = await post(store, 2);
  pick(2);
  await defer(a, HOUR_MS);
  await defer(b, HOUR_MS);
  t.same(pick(), []);
  const message = store.get(a);
  if (message?.due) message.due = { ...message.due, boot: 'another1' };
  ready.review();
  t.same(pick(2), [a]);
  await store.flush();
  ready.review();
  t.same(pick(2), [b]);
});

t.test('a message that was cancelled, or whose type others send, is passed over', async (t) => {
  const { store, ready, pick } = await setUp();
  await post(store, 100, 2);
  const [a = '', b = '', c = ''] = await post(store, 3);
  t.equal(ready.ready(), 3);
  await store.cancel(a);
  t.same(pick(9), [b, c]);
  t.equal(ready.ready(), 0);
});

t.test('a message that is put back is the next again', async (t) => {
  const { store, ready, pick } = await setUp();
  const [a = '', b = ''] = await post(store, 2);
  t.same(pick(), [a]);
  store.giveBack(a);
  const message = store.get(a);
  if (message) ready.putBack(message);
  t.same(pick(9), [a, b]);
});

t.test('a message that was requeued waits for those already waiting, not for later ones', async (t) => {
  const { clock, store, ready, pick, defer, requeue } = await setUp();
  const [a = '', b = '', c = '', d = ''] = await post(store, 4);
  pick(2);
  await defer(b, SECOND_MS);
  requeue(a);
  await clock.advance(SECOND_MS);
  const [late = ''] = await post(store, 1);
  ready.review();
  t.same(pick(9), [c, d, a, b, late]);
});

t.test('a probe takes messages that were requeued last, and then in turn', async (t) => {
  const { clock, store, ready, pick, requeue } = await setUp();
  const [a = '', b = ''] = await post(store, 2);
  pick(2);
  requeue(a);
  requeue(b);
  await clock.advance(SECOND_MS);
  const [late = ''] = await post(store, 1);
  ready.review();
  t.same(pick(1, true), [late]);
  t.same(pick(1, true), [a]);
  requeue(a);
  t.same(pick(1, true), [b]);
  requeue(b);
  await store.cancel(a);
  t.same(pick(9, true), [b], 'what is cancelled there is forgotten');
  t.equal(ready.ready(), 0);
});

t.test('with 10,000 of each the looks at the lists stay few', async (t) => {
  const { clock, store, watched, ready, pick, defer } = await setUp();
  const old = await post(store, 10_000);
  for (const id of old) await defer(id, HOUR_MS);
  const fresh = await post(store, 10_000);
  ready.review();
  watched.walked = 0;
  t.same(pick(1000), fresh.slice(0, 1000));
  // One walk over the deferred, and for each handful of new ones one over those that are taken and it.
  t.ok(watched.walked < 10_000 + 16 * 1100, `${watched.walked} looks`);
  watched.walked = 0;
  for (let turn = 0; turn < 1000; turn++) {
    ready.review();
    t.ok(pick().length === 1 || t.fail('nothing to pick'));
  }
  t.ok(
    watched.walked < 16 * 2200,
    `nothing new among the deferred is not looked for each time: ${watched.walked}`,
  );
  watched.walked = 0;
  await clock.advance(HOUR_MS);
  t.equal(pick(2000).length, 2000);
  t.ok(watched.walked < 32 * 4200, `${watched.walked} looks`);
});

t.test('10,000 messages of another transport are not walked over at each review', async (t) => {
  const { clock, store } = await setUp();
  await post(store, 10_000);
  const queued = store.queued.bind(store);
  let walks = 0;
  store.queued = (isWanted) => {
    walks++;
    return queued(isWanted);
  };
  const ready = new ReadyQueue(store, clock, ({ type }) => type === 2);
  const look = () => {
    for (let turn = 0; turn < 1000; turn++) {
      ready.review();
      t.equal(ready.ready(), 0);
    }
  };
  look();
  t.equal(walks, 1);
  await clock.advance(100);
  look();
  t.equal(walks, 2, 'a millisecond for each hundred');
});

t.test('a retry among 10,000 is noticed soon', async (t) => {
  const { clock, store, ready, pick, defer } = await setUp();
  const ids = await post(store, 10_000);
  for (const id of ids) await defer(id, HOUR_MS);
  t.same(pick(), []);
  const last = ids.at(-1) ?? '';
  await store.retry(last);
  ready.review();
  t.ok(ready.nextMs - clock.bootMs() <= 100);
  await clock.advance(100);
  t.same(pick(), [last]);
});

t.test('urgent messages go before all others, also when they were deferred or come last', async (t) => {
  const { clock, store, ready, pick, defer, requeue } = await setUp();
  const urgent = async (name: string) =>
    (await store.accept([{ ...draftTo(name), urgent: true }], null)).ids[0] as string;
  const [a = '', b = ''] = await post(store, 2);
  const u = await urgent('u');
  const v = await urgent('v');
  ready.review();
  t.same(pick(2), [u, v], 'in their order');
  requeue(u);
  store.giveBack(v);
  await defer(v, SECOND_MS);
  t.same(pick(1), [u], 'behind the urgent ones, not behind all');
  requeue(u);
  t.same(pick(1, true), [a], 'a probe is not the message that failed the last one');
  await clock.advance(SECOND_MS);
  t.same(pick(9).sort(), [u, v, b].sort());
  t.equal(pick(1).length, 0);
});

t.test('an urgent message is found among 10,000', async (t) => {
  const { store, ready, pick } = await setUp();
  await post(store, 10_000);
  ready.review();
  t.equal(pick(1).length, 1);
  const { ids } = await store.accept([{ ...draftTo('u'), urgent: true }], null);
  ready.review();
  t.same(pick(1), ids);
});
