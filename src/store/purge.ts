/**
 * Overwrites the text of final messages in the state directory. Without a purge the text stays until other records
 * overwrite it. The power may be cut at any point: nothing is overwritten while a snapshot, or the journal behind it,
 * needs it.
 */
import { join } from 'node:path';
import { FieldpostError } from '../errors.js';
import type { Place } from '../message/message.js';
import type { Disk, DiskFile } from '../system/disk.js';
import type { Contents } from './contents.js';
import type { Damaged } from './damaged.js';
import type { Journal } from './journal.js';
import { overwrite, overwriteAt } from './overwrite.js';
import { moveContents } from './relocation.js';
import type { Segments } from './segments.js';
import type { SnapshotAdapter } from './snapshot.js';
import type { State } from './state.js';

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
  try {
    // Twice, so that the older snapshot does not need the old segments either.
    for (let count = 0; count < 2; count++) {
      await journal.sync();
      await options.write();
    }
    for (const file of snapshots) await overwrite(file);
  } finally {
    for (const file of snapshots) await file.close().catch(() => undefined);
  }
  let unreadable = 0;
  for (const segment of segments.numbers.filter((number) => number < from)) {
    mustGoOn();
    if (!(await purgeSegment(segment, options))) unreadable++;
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

/** One segment at a time, so that one segment's room is enough. False if some of its content cannot be read. */
async function purgeSegment(segment: number, options: PurgeOptions): Promise<boolean> {
  const { journal, segments, contents, ledger } = options;
  await moveContents([segment], options);
  if (ledger.state.liveBytes.has(segment)) return false;
  // The events that dropped content must be synced, and no read of it may be under way.
  await journal.sync();
  await contents.idle();
  await segments.purge(segment);
  return true;
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
