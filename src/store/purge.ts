/**
 * Purging: the text of messages that are done with goes from the state directory, instead of standing there until other
 * records overwrite it. At every point of it the power may be cut: nothing is overwritten before two snapshots, and
 * the journal behind them, do without it. Used by ledger.ts.
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

/** What a purge is given. */
export interface PurgeOptions {
  readonly disk: Disk;
  /** The state directory. */
  readonly directory: string;
  readonly ledger: { readonly state: State; read(place: Place): Promise<Buffer> };
  readonly journal: Journal;
  readonly segments: Segments;
  readonly contents: Contents;
  readonly adapter: SnapshotAdapter;
  /** Writes a snapshot. */
  readonly write: () => Promise<void>;
  /** Where the copies of damage are, if those are to go as well. */
  readonly damaged: Damaged | null;
  /** Asked between two segments: the daemon may be stopping. */
  readonly isStopping: () => boolean;
}

/**
 * Resolves once nothing in the journal or the snapshots tells the content of a message that was done with when this
 * was called. Rejects like Journal.append or with what the disk says; what was overwritten until then stays so.
 */
export async function purge(options: PurgeOptions): Promise<void> {
  const { journal, segments, adapter, damaged, directory, disk } = options;
  const mustGoOn = () => {
    if (options.isStopping()) throw new FieldpostError('stopping', 'the daemon is stopping');
  };
  mustGoOn();
  // Outcomes first: what they gave up must not be needed by the next start. A new segment begins with all that is not synced.
  await journal.beginAnew(() => segments.purgeAhead());
  const from = journal.position.segment;
  const snapshots = await openAll(disk, adapter.paths);
  try {
    // Twice, so that the one before the newest does without the old segments as well.
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

/** Segment by segment, so that no more room is needed than for one. False if it holds what cannot be read. */
async function purgeSegment(segment: number, options: PurgeOptions): Promise<boolean> {
  const { journal, segments, contents, ledger } = options;
  await moveContents([segment], options);
  if (ledger.state.liveBytes.has(segment)) return false;
  // Whoever gave up what lies there is synced now, and whoever reads there has read.
  await journal.sync();
  await contents.idle();
  await segments.purge(segment);
  return true;
}

/** Opened before others take their names: then they can be overwritten after that. */
async function openAll(disk: Disk, paths: readonly string[]): Promise<DiskFile[]> {
  const files: DiskFile[] = [];
  for (const path of paths) {
    const found = await disk.look(path);
    if (found?.kind === 'file') files.push(await disk.open(path, 'update'));
  }
  return files;
}

/** What was damaged and too large for a copy was renamed. */
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
