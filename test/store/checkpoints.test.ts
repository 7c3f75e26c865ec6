/** Segments that nothing needs go also while nothing is appended. */
import { join } from 'node:path';
import t from 'tap';
import { JOURNAL_BYTES_MIN, MIB, SEGMENT_BYTES, SWEEP_MS } from '../../src/limits.js';
import { type FakeClock, settled } from '../support/clock.js';
import { comeAndGo, refuseEachSecondRecord } from '../support/failing-journal.js';
import type { Operation } from '../support/faulty-disk.js';
import { newDisk, openOn, STATE_DIR, sendOne } from '../support/store.js';

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
  let snapshots = 0;
  disk.onOperation = (_n, { kind, path }) => {
    if (kind === 'create' && path.endsWith('store.json.new')) snapshots++;
    return 'ok';
  };
  await sweep(clock);
  t.equal(snapshots, 0);
  await store.close();
});
