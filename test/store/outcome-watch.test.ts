/** Calls that wait for outcomes: which event ends which of them, and that none is left behind. */
import t from 'tap';
import { STORAGE_RETRY_MS } from '../../src/base/limits.js';
import type { Message } from '../../src/mail/message/message.js';
import { OutcomeWatch } from '../../src/mail/store/ledger.js';
import type { Store } from '../../src/mail/store/store.js';
import { settled } from '../support/clock.js';
import { seededRandom } from '../support/random.js';
import { acceptOne, newDisk, openOn, settleAs } from '../support/store.js';

/** Waits for the message; `isOver` says whether the wait has ended. */
function waitFor(store: Store, id: string) {
  const leave = new AbortController();
  const wait = { isOver: false, leave: () => leave.abort() };
  void store.whenFinal(id, leave.signal).then(() => {
    wait.isOver = true;
  });
  return wait;
}

t.test('every final outcome ends the waits for its message, and for no other', async (t) => {
  const { store } = await openOn(newDisk(), 1, { historyMax: 2 });
  const other = waitFor(store, await acceptOne(store, 'other'));
  const ends: Record<string, (id: string) => Promise<void>> = {
    sent: (id) => settleAs(store, id),
    failed: (id) => settleAs(store, id, 'failed'),
    expired: (id) => settleAs(store, id, 'expired'),
    cancelled: (id) => store.cancel(id),
  };
  for (const [name, end] of Object.entries(ends)) {
    const id = await acceptOne(store, name);
    const waits = [waitFor(store, id), waitFor(store, id)];
    await settled();
    t.notOk(
      waits.some(({ isOver }) => isOver),
      `${name}: it waits`,
    );
    await end(id);
    await settled();
    t.ok(
      waits.every(({ isOver }) => isOver),
      `${name}: it is over`,
    );
    const late = waitFor(store, id);
    await settled();
    t.ok(late.isOver, `${name}: a wait for a final message is over at once`);
  }
  const unknown = waitFor(store, 'nope');
  await settled();
  t.ok(unknown.isOver, 'there is nothing to wait for');
  t.notOk(other.isOver);
  other.leave();
  await settled();
  t.ok(other.isOver, 'a signal ends the wait');
  await store.close();
});

t.test('neither a deferral nor a retry ends a wait; a retried message can be waited for anew', async (t) => {
  const { store } = await openOn(newDisk());
  const id = await acceptOne(store, 'a');
  const wait = waitFor(store, id);
  store.claim(id);
  await store.settle(id, { kind: 'deferred', reply: '450', delayMs: 1000 });
  await store.retry(id);
  await store.flush();
  await settled();
  t.notOk(wait.isOver);
  await settleAs(store, id, 'failed');
  await settled();
  t.ok(wait.isOver);
  await store.retry(id);
  const again = waitFor(store, id);
  await settled();
  t.notOk(again.isOver);
  await settleAs(store, id, 'sent');
  await settled();
  t.ok(again.isOver);
  await store.close();
});

t.test('an outcome that is applied ends the wait although its sync failed', async (t) => {
  const disk = newDisk();
  const { store, clock } = await openOn(disk);
  const id = await acceptOne(store, 'a');
  const wait = waitFor(store, id);
  disk.onOperation = () => 'error:EIO';
  await t.rejects(store.cancel(id), { code: 'storage-failed' });
  disk.onOperation = () => 'ok';
  await clock.advance(STORAGE_RETRY_MS);
  t.equal(wait.isOver, store.get(id)?.status === 'cancelled', 'it follows the state');
  wait.leave();
  await settled();
  t.ok(wait.isOver);
  await store.close();
});

t.test('thousands of random waits: each ends in time, and nothing is left of them', async (t) => {
  const random = seededRandom(14);
  const messages = new Map<string, Pick<Message, 'status'>>();
  let looks = 0;
  const watch = new OutcomeWatch((id) => {
    looks++;
    return messages.get(id) as Message | undefined;
  });
  const open = new Map<string, Set<AbortController>>();
  let ended = 0;
  for (let i = 0; i < 5000; i++) {
    const id = `m${Math.floor(random() * 50)}`;
    const waits = open.get(id) ?? new Set();
    open.set(id, waits);
    const roll = random();
    if (roll < 0.6) {
      if (messages.get(id)?.status !== 'queued') messages.set(id, { status: 'queued' });
      const leave = new AbortController();
      waits.add(leave);
      void watch.whenFinal(id, leave.signal).then(() => {
        ended++;
        waits.delete(leave);
      });
    } else if (roll < 0.8) {
      messages.set(id, { status: 'cancelled' });
      watch.noticed([{ e: 'flushed' }, { e: 'cancelled', id, at: { boot: 'b', bootMs: 1 } }]);
      await settled();
      t.equal(waits.size, 0, 'all waits for it are over') || t.bailout('see above');
    } else {
      const [first] = waits;
      first?.abort();
      await Promise.resolve();
    }
  }
  for (const waits of open.values()) for (const leave of [...waits]) leave.abort();
  await settled();
  t.ok(ended > 2000, `${ended} waits`);
  const before = looks;
  for (const id of messages.keys()) watch.noticed([{ e: 'cancelled', id, at: { boot: 'b', bootMs: 1 } }]);
  t.equal(looks, before, 'an outcome looks at nothing while nobody waits');
});
