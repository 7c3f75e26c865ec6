/** A disk that keeps one record of the journal and refuses the next, and a client that goes on all the same. */
import { join } from 'node:path';
import { STORAGE_RETRY_MS } from '../../src/base/limits.js';
import { draftTo } from './drafts.js';
import type { FaultyDisk, Operation } from './faulty-disk.js';
import { type Bench, STATE_DIR } from './store.js';

const JOURNAL = join(STATE_DIR, 'journal');

/**
 * Each segment keeps one record and refuses the next, so each try costs a segment. Operations that `isRefused` names fail,
 * too. Gives the number of syncs of each segment.
 */
export function refuseEachSecondRecord(
  disk: FaultyDisk,
  isRefused: (operation: Operation) => boolean = () => false,
): ReadonlyMap<string, number> {
  const syncs = new Map<string, number>();
  disk.onOperation = (_n, operation) => {
    const { kind, path } = operation;
    if (isRefused(operation)) return 'error:EIO';
    if (kind !== 'sync' || !path.startsWith(JOURNAL)) return 'ok';
    const nth = (syncs.get(path) ?? 0) + 1;
    syncs.set(path, nth);
    // It is filled, and begun.
    return nth > 2 ? 'error:EIO' : 'ok';
  };
  return syncs;
}

/** Messages are accepted and cancelled, while the disk refuses and is well again in turn. */
export async function comeAndGo({ store, clock }: Pick<Bench, 'store' | 'clock'>): Promise<void> {
  for (let i = 0; i < 20; i++) {
    const { ids } = await store.accept([draftTo(`m${i}`)], null);
    await store.cancel(ids[0] as string);
    await clock.advance(STORAGE_RETRY_MS);
  }
}
