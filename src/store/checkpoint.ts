/**
 * A checkpoint: a new snapshot, and the segments go that neither snapshot nor any content needs. Used by checkpoints.ts.
 */
import { wordsOf } from '../errors.js';
import type { Place } from '../message/message.js';
import type { Log } from '../system/log.js';
import type { Journal } from './journal.js';
import { relocate } from './relocation.js';
import type { Segments } from './segments.js';
import type { SnapshotAdapter } from './snapshot.js';
import type { State } from './state.js';

/** What a checkpoint is given. */
export interface CheckpointOptions {
  readonly ledger: { readonly state: State; read(place: Place): Promise<Buffer> };
  readonly journal: Journal;
  readonly segments: Segments;
  readonly adapter: SnapshotAdapter;
  /** Writes a snapshot. */
  readonly write: () => Promise<void>;
  readonly log: Log;
  readonly maxSpoolBytes: number;
  readonly isShort: boolean;
}

/** Rejects like Journal.append, or with what the disk says. */
export async function checkpoint(options: CheckpointOptions): Promise<void> {
  const { ledger, journal, segments, adapter, log } = options;
  /** Segments that no snapshot needs for a replay. They are kept only for content that lies in them. */
  const oldSegments = () => segments.numbers.filter((segment) => segment < adapter.neededFrom);
  // What is done with goes also when there is no room to move the rest.
  await relocate({ ...options, old: oldSegments() }).catch((error) =>
    log.warn('checkpoint failed', { reason: wordsOf(error) }),
  );
  // Whoever gave up what lies there is synced now; an outcome that is written meanwhile is not.
  const done = segments.numbers.filter((segment) => !ledger.state.liveBytes.has(segment));
  await journal.sync();
  await options.write();
  const old = new Set(oldSegments());
  const failures: unknown[] = [];
  for (const segment of done) {
    // One of which the disk does not let go keeps none of the others.
    if (old.has(segment)) await segments.free(segment).catch((error) => failures.push(error));
  }
  if (failures.length > 0) throw failures[0];
}
