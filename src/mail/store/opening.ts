/**
 * Opens the state directory: builds the parts of the store over its files, and recovers the state of the last run.
 */
import { dirname, join } from 'node:path';
import { type Low, openLow } from '../../base/durable-file.js';
import { stampOf } from '../../base/stamp.js';
import { Aside } from './aside.js';
import { Contents } from './contents.js';
import { Damaged } from './damaged.js';
import { syncAbove } from './disk-error.js';
import type { LedgerOptions } from './ledger.js';
import { fileOf, type Replayed, replay } from './replay.js';
import { Segments } from './segments.js';
import { SnapshotAdapter } from './snapshot.js';
import { Spool } from './spool.js';
import { emptyState, type State } from './state.js';
import { SyncedFile } from './synced-file.js';
import { boundsOf } from './weight.js';

/** The parts of the store, each with its own files. */
export interface Parts {
  readonly segments: Segments;
  readonly spool: Spool;
  readonly contents: Contents;
  readonly aside: Aside;
  readonly syncedFile: SyncedFile;
  readonly damaged: Damaged;
  readonly adapter: SnapshotAdapter;
  /** lowdb, whose data is the recovered state. */
  readonly low: Low<State>;
  readonly replayed: Replayed;
  /** Bytes of journal, spool and snapshots. The copies in damaged/ have a budget of their own. */
  readonly diskBytes: () => number;
}

/** Rejects with the disk's error if it cannot be read. */
export async function openParts(options: LedgerOptions): Promise<Parts> {
  const { disk, clock, directory, randomBytes, log, budget, dropped = () => undefined } = options;
  const aside = new Aside(disk, log);
  const diskBytes = () => segments.bytes + spool.bytes + adapter.diskBytes;
  const fits = (bytes: number) => diskBytes() + bytes <= budget.maxSpoolBytes;
  const segments = new Segments(disk, join(directory, 'journal'), fits);
  const spool = new Spool(disk, join(directory, 'spool'), randomBytes);
  const copies = join(directory, 'damaged');
  const damaged = new Damaged(disk, copies, budget.maxSpoolBytes);
  const contents = new Contents(
    (...range) => segments.read(...range),
    async ({ segment, offset }, bytes) => {
      const before = damaged.count;
      // As a start names them.
      const piece = bytes === null ? 'missing' : offset;
      const isKept = await damaged.keep(`${fileOf(segment)}.${piece}`, bytes ?? Buffer.alloc(0));
      if (!isKept) segments.keepWhole(segment);
      if (damaged.count > before) log.error('store damaged', { pieces: 1, heldBack: 0, copies });
    },
  );
  const syncedFile = new SyncedFile(disk, clock, join(directory, 'synced'));
  const bounds = boundsOf(options);
  const adapter = new SnapshotAdapter({ disk, directory, aside, bounds, dropped });
  const low = openLow(adapter, emptyState(bounds));
  await Promise.all([segments, spool, damaged].map((part) => part.open(aside)));
  await Promise.all([disk.syncDirectory(directory), syncAbove(disk, dirname(directory))]);
  await low.read();
  const state = low.data;
  const found = { ...adapter.takeFound(), noted: await syncedFile.read() };
  const replayed = await replay({ segments, damaged, aside, state, ...found, now: stampOf(clock) });
  if (state.storeId === '') state.storeId = Buffer.from(randomBytes(8)).toString('hex');
  // The spool finds files that no message needs by itself.
  state.released.length = 0;
  return { segments, spool, contents, aside, syncedFile, damaged, adapter, low, replayed, diskBytes };
}
