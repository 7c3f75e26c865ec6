/**
 * Restarts on a full disk must not send a mail again because its outcome found no room. The real store and both
 * transports on a disk without room.
 */
import t from 'tap';
import { MIB, MINUTE_MS, STORAGE_RETRY_MS } from '../../src/base/limits.js';
import { Delivery } from '../../src/mail/delivery/delivery.js';
import type { Store } from '../../src/mail/store/store.js';
import type { FakeClock } from '../support/clock.js';
import { CONFIG, FakeRelays, post, reply } from '../support/delivery.js';
import { FaultyDisk } from '../support/faulty-disk.js';
import { openOn } from '../support/store.js';
import { configOf } from '../support/system.js';

/** Fills the disk: no file can grow. */
async function fill(disk: FaultyDisk): Promise<void> {
  disk.capacityBytes = 1024 * MIB;
  disk.capacityBytes -= (await disk.space('/')).freeBytes;
}

/** Accepts this many hundred messages; gives their ids. */
async function postMany(store: Store, hundreds: number): Promise<string[]> {
  const ids: string[] = [];
  for (let n = 0; n < hundreds; n++) ids.push(...(await post(store, 100)));
  return ids;
}

/** Both transports of a store; relay and cloud accept everything. */
function transports(store: Store, clock: FakeClock) {
  const relays = new FakeRelays();
  const offered: string[] = [];
  const lines: string[] = [];
  const line = (event: string) => void lines.push(event);
  const log = { debug: line, info: line, warn: line, error: line };
  const delivery = new Delivery({
    store,
    config: { ...configOf({}), ...CONFIG },
    clock,
    random: () => 0,
    log,
    openSession: ({ relay }) => relays.session(relay),
    connect: () => Promise.reject(new Error('nothing is connected')),
    hostname: () => 'device.example',
    short: {
      isOnline: () => true,
      send: async ({ id }) => {
        offered.push(id);
        return { kind: 'taken', reply: '202' };
      },
    },
  });
  return { delivery, relays, lines, offered: () => [...relays.offered, ...offered] };
}

t.test('a mail whose outcome cannot be recorded is not sent, at any start', async (t) => {
  let disk = new FaultyDisk({ directories: ['/var/lib'] });
  const first = await openOn(disk);
  const ids = [...(await post(first.store, 3)), ...(await post(first.store, 3, 2))];
  await first.clock.advance(MINUTE_MS);
  disk = disk.afterKill();
  await fill(disk);
  // Uses up the one prepared segment.
  const second = await openOn(disk, 2);
  await second.store.hold();
  await second.store.release();
  const offered: string[] = [];
  for (let start = 0; start < 5; start++) {
    disk = disk.afterKill();
    await fill(disk);
    const { store, clock, lines } = await openOn(disk, start + 3);
    const out = transports(store, clock);
    out.delivery.start();
    await clock.advance(MINUTE_MS);
    offered.push(...out.offered());
    const waits = out.lines.filter((event) => event === 'sending waits').length;
    t.equal(waits > 0, store.counts().queued > 0, `start ${start}: ${[...lines, ...out.lines]}`);
    t.ok(waits <= 1, 'the log says so once');
    t.notOk(out.lines.includes('outcome not recorded'));
    t.ok(clock.fired < 20, `${clock.fired} timers in a minute`);
  }
  t.same(offered, [...new Set(offered)], 'no message is sent twice');

  disk = disk.afterKill();
  await fill(disk);
  const { store, clock } = await openOn(disk, 9);
  const out = transports(store, clock);
  out.delivery.start();
  await clock.advance(MINUTE_MS);
  disk.capacityBytes += 64 * MIB;
  await clock.advance(STORAGE_RETRY_MS);
  offered.push(...out.offered());
  t.same(offered.sort(), ids.sort(), 'with free space the rest is sent without help');
  await out.delivery.stop();
  await store.close();
});

t.test('on a full disk a backlog is sent as far as its outcomes have room', async (t) => {
  const disk = new FaultyDisk({ directories: ['/var/lib'] });
  const { store, clock } = await openOn(disk);
  for (let n = 0; n < 20; n++) await post(store, 100);
  await clock.advance(MINUTE_MS);
  await fill(disk);
  const out = transports(store, clock);
  // The prepared segment has no room for all outcomes of this length.
  out.relays.onSend = () => reply('dot', `250 2.0.0 ${'€'.repeat(480)}`);
  out.delivery.start();
  await clock.advance(MINUTE_MS);
  const { length } = out.offered();
  t.ok(length > 500 && length < 2000, `${length} of 2000`);
  t.notOk(out.lines.includes('outcome not recorded'));
  const next = await openOn(disk.afterKill(), 2);
  t.equal(next.store.counts().queued, 2000 - length, 'the store knows of every sent message');
});

t.test('a start that fails for lack of space says what to do', async (t) => {
  const before = new FaultyDisk({ directories: ['/var/lib'] });
  const { store } = await openOn(before);
  const [id = ''] = await post(store, 1);
  store.claim(id);
  // Written but not synced: the next start must write it again.
  await store.settle(id, { kind: 'sent', reply: '250' });
  const disk = before.afterKill();
  await fill(disk);
  disk.onOperation = (_n, { kind }) => (kind === 'write' ? 'error:ENOSPC' : 'ok');
  const { store: next, lines } = await openOn(disk, 2);
  t.equal(next.storage().state, 'failed');
  t.match(lines, [/storage failed reason="the disk is full" hint="free some space on the disk"/]);
});

t.test('on a full disk messages are cancelled, but not in the room for outcomes', async (t) => {
  const disk = new FaultyDisk({ directories: ['/var/lib'] });
  const { store } = await openOn(disk);
  const [failed = '', sending = '', ...others] = [...(await post(store, 2)), ...(await postMany(store, 7))];
  store.claim(failed);
  await store.settle(failed, { kind: 'failed', reply: '550' });
  store.claim(sending);
  await fill(disk);
  // Uses up the journal except the room for outcomes.
  const changes = async () => {
    for (;;) await (store.held ? store.release() : store.hold());
  };
  await t.rejects(changes(), { code: 'storage-full' });
  t.ok(store.hasReserve);

  await store.cancel(failed);
  t.equal(store.get(failed)?.place, null, 'the content of the failed message is deleted');
  let cancelled = 0;
  const cancelAll = async () => {
    for (const id of others) {
      await store.cancel(id);
      cancelled++;
    }
  };
  await t.rejects(cancelAll(), { code: 'storage-full', message: 'the disk is full' });
  t.ok(cancelled > 100, `${cancelled} are cancelled`);
  await t.rejects(Promise.all(others.slice(-50).map((id) => store.cancel(id))), { code: 'storage-full' });
  await store.settle(sending, { kind: 'sent', reply: '€'.repeat(500) });
  const next = await openOn(disk.afterKill(), 2);
  t.equal(next.store.get(sending)?.status, 'sent');
  t.equal(next.store.get(others[0] as string)?.status, 'cancelled');
  t.equal(next.store.get(failed)?.place, null);
});
