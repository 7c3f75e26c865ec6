/** Segments that nothing needs go also while nothing is appended. */
import { join } from 'node:path';
import t from 'tap';
import { JOURNAL_BYTES_MIN, KIB, MIB, SEGMENT_BYTES } from '../../src/base/limits.js';
import {
  CHECKPOINT_AFTER_START_MS,
  COMPACT_BYTES_MIN,
  OVERDUE_FACTOR,
} from '../../src/mail/store/checkpoints.js';
import { type Store, SWEEP_MS } from '../../src/mail/store/store.js';
import { type FakeClock, settled } from '../support/clock.js';
import { draftTo, octets } from '../support/drafts.js';
import { comeAndGo, refuseEachSecondRecord } from '../support/failing-journal.js';
import type { FaultyDisk, Operation } from '../support/faulty-disk.js';
import { acceptWith } from '../support/spool.js';
import { newDisk, openOn, passThrough, STATE_DIR, sendOne } from '../support/store.js';

const JOURNAL = join(STATE_DIR, 'journal');

/** The older snapshot needs segments until the second checkpoint. */
const SWEEPS = 2;

async function sweep(clock: FakeClock, times = SWEEPS): Promise<void> {
  for (let count = 0; count < times; count++) {
    await clock.advance(SWEEP_MS);
    await settled();
  }
}

/** No snapshot gets its name. */
function isNaming({ kind, path }: Operation): boolean {
  return kind === 'rename' && path.endsWith('store.json');
}

/** Gives the number of snapshots written since this call. */
function countSnapshots(disk: FaultyDisk): () => number {
  let count = 0;
  disk.onOperation = (_n, { kind, path }) => {
    if (kind === 'create' && path.endsWith('store.json.new')) count++;
    return 'ok';
  };
  return () => count;
}

/** A start begins a segment, and is killed at once. */
async function acceptAndKill(disk: FaultyDisk, i: number, bytes = 200): Promise<FaultyDisk> {
  const { store } = await openOn(disk, i);
  await store.accept([draftTo(`m${i}`, bytes)], null);
  await settled();
  return disk.afterKill();
}

t.test('checkpoints that failed are made once the disk works again', async (t) => {
  const disk = newDisk();
  const { store, clock } = await openOn(disk);
  refuseEachSecondRecord(disk, isNaming);
  await comeAndGo({ store, clock });
  t.ok(store.counts().bytes > 20 * MIB, `${store.counts().bytes} bytes while the disk refuses`);
  disk.onOperation = () => 'ok';
  await sweep(clock);
  t.ok(store.counts().bytes <= JOURNAL_BYTES_MIN + SEGMENT_BYTES, `${store.counts().bytes} bytes`);
  await store.close();
});

t.test('a segment that cannot be removed at once keeps none of the others', async (t) => {
  const disk = newDisk();
  const { store, clock } = await openOn(disk);
  refuseEachSecondRecord(disk, isNaming);
  await comeAndGo({ store, clock });
  const refused = new Set<string>();
  disk.onOperation = (_n, { kind, path }) => {
    if (kind !== 'remove' || !path.startsWith(JOURNAL) || refused.has(path)) return 'ok';
    refused.add(path);
    return 'error:EIO';
  };
  await sweep(clock, SWEEPS + 1);
  t.ok(refused.size > 10, `${refused.size} refused`);
  t.ok(store.counts().bytes <= JOURNAL_BYTES_MIN + SEGMENT_BYTES, `${store.counts().bytes} bytes`);
  await store.close();
});

t.test('a sweep makes no checkpoint while few segments can go', async (t) => {
  const disk = newDisk();
  const { store, clock } = await openOn(disk);
  for (let i = 0; i < 24; i++) {
    await sendOne(store, `m${i}`, 400_000);
    await settled();
  }
  const snapshots = countSnapshots(disk);
  await sweep(clock);
  t.equal(snapshots(), 0);
  await store.close();
});

t.test('a start after a kill serves before it makes a checkpoint', async (t) => {
  let disk = newDisk();
  for (let i = 0; i < 2; i++) disk = await acceptAndKill(disk, i, SEGMENT_BYTES / 2);
  const snapshots = countSnapshots(disk);
  const { store, clock } = await openOn(disk, 4);
  await store.accept([draftTo('first')], null);
  await settled();
  t.equal(snapshots(), 0);
  await clock.advance(CHECKPOINT_AFTER_START_MS);
  await settled();
  t.equal(snapshots(), 1);
  await store.close();
});

t.test('starts that are killed before their checkpoint do not fill the disk', async (t) => {
  let disk = newDisk();
  for (let i = 0; i < 40; i++) disk = await acceptAndKill(disk, i);
  const { store } = await openOn(disk, 40);
  const bytesMax = COMPACT_BYTES_MIN + (5 + 2 * OVERDUE_FACTOR) * SEGMENT_BYTES;
  t.ok(store.counts().bytes <= bytesMax, `${store.counts().bytes} bytes`);
  t.equal(store.counts().queued, 40);
  await store.close();
});

/** Text mails until the queue is full. */
async function fill(store: Store): Promise<void> {
  await t.rejects(
    (async () => {
      for (;;) await store.accept([draftTo('waiting', 20_000)], null);
    })(),
    { code: 'queue-full' },
  );
}

t.test('a start goes on in the last segment also before the lines of its former use', async (t) => {
  let disk = newDisk();
  const { store, clock } = await openOn(disk);
  const highest = async () => Number.parseInt((await disk.list(JOURNAL)).at(-1) ?? '', 10);
  // Segments that nothing needs are used again.
  for (let i = 0; i < 200; i++) await sendOne(store, 'former', 20_000);
  await sweep(clock, 4);
  for (let i = 0; i < 60; i++) await sendOne(store, 'later', 20_000);
  disk = disk.afterKill();
  disk = await acceptAndKill(disk, 2);
  const before = await highest();
  const last = (await disk.readWhole(join(JOURNAL, `${String(before).padStart(8, '0')}.log`))) as Buffer;
  t.ok(last.includes('former', SEGMENT_BYTES / 2), 'the segment was used before');
  for (let i = 3; i < 13; i++) disk = await acceptAndKill(disk, i);
  t.equal(await highest(), before);
  const { store: end } = await openOn(disk, 13);
  t.equal(end.counts().queued, 11);
  await end.close();
});

t.test('a hundred restarts of a full store take no room, and urgent messages are still taken', async (t) => {
  const budget = { maxQueue: 10_000, maxSpoolBytes: 8 * MIB, minFreeBytes: 0 };
  let disk = newDisk();
  let { store } = await openOn(disk, 1, { budget });
  await fill(store);
  const { queued } = store.counts();
  let mostBytes = disk.usedBytes;
  t.ok(mostBytes > 0.85 * budget.maxSpoolBytes, `full at ${mostBytes} bytes`);
  const usedBytes = store.room().used.bytes;
  for (let n = 0; n < 100; n++) {
    if (n % 2 === 0) await store.close();
    disk = disk.afterKill();
    const next = await openOn(disk, 2 + n, { budget });
    store = next.store;
    // As delivery does before its first offer.
    await store.fillReserve();
    await next.clock.advance(2000);
    t.equal(store.counts().queued, queued);
    mostBytes = Math.max(mostBytes, disk.usedBytes);
  }
  t.ok(mostBytes <= budget.maxSpoolBytes, `${mostBytes} bytes on the disk`);
  const grownBytes = store.room().used.bytes - usedBytes;
  t.ok(grownBytes < 128 * KIB, `${grownBytes} more bytes count`);
  for (let n = 0; n < 10; n++) await store.accept([{ ...draftTo(`${n}`, 10_000), urgent: true }], null);
  t.ok(disk.usedBytes <= budget.maxSpoolBytes, `${disk.usedBytes} bytes with urgent messages`);
  await store.close();
});

t.test('segments kept for later make way for files', async (t) => {
  const disk = newDisk();
  const budget = { maxQueue: 10_000, maxSpoolBytes: 8 * MIB, minFreeBytes: 0 };
  const { store } = await openOn(disk, 1, { budget });
  // Four segments that nothing needs: two of them are kept.
  await passThrough(store, 12);
  await settled();
  let mostBytes = 0;
  disk.onOperation = () => {
    mostBytes = Math.max(mostBytes, disk.usedBytes);
    return 'ok';
  };
  await t.rejects(
    (async () => {
      for (;;) await acceptWith(store, 'large', [octets(200 * KIB)]);
    })(),
    { code: 'queue-full' },
  );
  t.ok(mostBytes > 6 * MIB && mostBytes <= budget.maxSpoolBytes, `${mostBytes} bytes`);
  await store.close();
});
