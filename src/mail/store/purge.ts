/**
 * Overwrites the text of final messages in the state directory. Without a purge the text stays until other records
 * overwrite it. The power may be cut at any point: nothing is overwritten while a snapshot, or the journal behind it,
 * needs it.
 */
import { join } from 'node:path';
import { FieldpostError } from '../../base/errors.js';
import type { Disk, DiskFile } from '../../base/system/disk.js';
import type { Place } from '../message/message.js';
import type { Contents } from './contents.js';
import type { Damaged } from './damaged.js';
import type { Journal } from './journal.js';
import { overwrite, overwriteAt } from './overwrite.js';
import { moveContents } from './relocation.js';
import type { Segments } from './segments.js';
import type { SnapshotAdapter } from './snapshot.js';
import type { State } from './state.js';

/** Segments whose content moves before the snapshots tell its new places. */
const SEGMENTS_AT_ONCE = 8;

interface PurgeOptions {
  readonly disk: Disk;
  readonly directory: string;
  readonly ledger: { readonly state: State; read(place: Place): Promise<Buffer> };
  readonly journal: Journal;
  readonly segments: Segments;
  readonly contents: Contents;
  readonly adapter: SnapshotAdapter;
  /** Writes a snapshot. */
  readonly write: () => Promise<void>;
  /** Null: the copies of damage stay. */
  readonly damaged: Damaged | null;
  readonly isStopping: () => boolean;
}

/**
 * Resolves once neither journal nor snapshots hold the content of a message that was final at the call. Rejects like
 * Journal.append or with the disk's error; a part is overwritten then.
 */
export async function purge(options: PurgeOptions): Promise<void> {
  const { journal, segments, adapter, damaged, directory, disk } = options;
  const mustGoOn = () => {
    if (options.isStopping()) throw new FieldpostError('stopping', 'the daemon is stopping');
  };
  mustGoOn();
  // A new segment syncs the outcomes first, so that the next start does not need the content of final messages.
  await journal.beginAnew(() => segments.purgeAhead());
  const from = journal.position.segment;
  const snapshots = await openAll(disk, adapter.paths);
  const old = segments.numbers.filter((number) => number < from);
  let unreadable = 0;
  try {
    do {
      mustGoOn();
      const group = old.splice(0, SEGMENTS_AT_ONCE);
      const failure = await moveContents(group, options).then(
        () => null,
        (error: unknown) => error,
      );
      // Twice, so that the older snapshot needs neither the old segments nor the lines that tell where content went: one
      // damaged line would else lose all that it moved.
      for (let count = 0; count < 2; count++) {
        await journal.sync();
        await options.write();
      }
      while (snapshots.length > 0) {
        await overwrite(snapshots[0] as DiskFile);
        await snapshots.shift()?.close();
      }
      const left = await purgeSegments(group, options);
      // Without room for all of them, those that are purged make room.
      if (failure !== null && left.length === group.length) throw failure;
      if (failure !== null) old.unshift(...left);
      else unreadable += left.length;
    } while (old.length > 0);
  } finally {
    for (const file of snapshots) await file.close().catch(() => undefined);
  }
  if (damaged) {
    await damaged.purge();
    for (const place of [directory, join(directory, 'journal')]) await removeDamaged(disk, place);
  }
  if (unreadable > 0)
    throw new FieldpostError('storage-failed', `${unreadable} segments hold content that cannot be read`, {
      hint: 'the rest is purged; try again when the messages have been sent, or have failed',
    });
}

/** Overwrites the segments that hold no content any more. Gives the others: some of their content was not moved. */
async function purgeSegments(group: readonly number[], options: PurgeOptions): Promise<number[]> {
  const { segments, contents, ledger } = options;
  const left: number[] = [];
  for (const segment of group) {
    if (ledger.state.liveBytes.has(segment)) {
      left.push(segment);
      continue;
    }
    // No read of it may be under way.
    await contents.idle();
    await segments.purge(segment);
  }
  return left;
}

/** Opens the files before new ones take their names. */
async function openAll(disk: Disk, paths: readonly string[]): Promise<DiskFile[]> {
  const files: DiskFile[] = [];
  for (const path of paths) {
    const found = await disk.look(path);
    if (found?.kind === 'file') files.push(await disk.open(path, 'update'));
  }
  return files;
}

/** Damaged files that were too large for a copy were renamed. */
async function removeDamaged(disk: Disk, directory: string): Promise<void> {
  const names = (await disk.list(directory)).filter((name) => /\.damaged\d*$/.test(name));
  for (const name of names) {
    const path = join(directory, name);
    if ((await disk.look(path))?.kind !== 'file') continue;
    await overwriteAt(disk, path);
    await disk.remove(path);
  }
  if (names.length > 0) await disk.syncDirectory(directory);
}
