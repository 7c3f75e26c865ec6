/** The real store on a faulty disk, a fake clock and a lock that is always free. */
import { START_READS_MS_MAX } from '../../src/limits.js';
import type { StoreOptions } from '../../src/store/journaled-store.js';
import { openStore } from '../../src/store/journaled-store.js';
import type { Store } from '../../src/store/store.js';
import { FakeClock } from './clock.js';
import { FaultyDisk } from './faulty-disk.js';
import { drawn, freeLock, keptLog } from './system.js';

export const STATE_DIR = '/var/lib/fieldpost';
export const segmentPath = (segment: number) =>
  `${STATE_DIR}/journal/${String(segment).padStart(8, '0')}.log`;
/** A disk with nothing of ours on it yet. */
export const newDisk = () => new FaultyDisk({ directories: ['/var/lib'] });

export interface Bench {
  readonly store: Store;
  readonly clock: FakeClock;
  readonly lines: string[];
}

/** Opens the store on `disk`. Everything random follows from `seed`. */
export async function openOn(
  disk: FaultyDisk,
  seed = 1,
  options: Partial<StoreOptions> = {},
): Promise<Bench> {
  const clock = options.clock instanceof FakeClock ? options.clock : new FakeClock();
  const { log, lines } = keptLog();
  const store = await openStore({
    disk,
    clock,
    log,
    ...drawn(seed),
    takeLock: freeLock,
    directory: STATE_DIR,
    historyMax: 1000,
    keepFailedMs: 7 * 24 * 3600 * 1000,
    budget: { maxQueue: 10_000, maxSpoolBytes: 256 * 2 ** 20, minFreeBytes: 0 },
    ...options,
  });
  return { store, clock, lines };
}

/**
 * The store for a test of another room, which is not about what the store does with the clock: its timers do not count
 * among those of `clock`.
 */
export async function openQuietly(
  clock: FakeClock,
  {
    disk = newDisk(),
    seed = 1,
    ...options
  }: Partial<StoreOptions> & { disk?: FaultyDisk; seed?: number } = {},
): Promise<{ store: Store; disk: FaultyDisk; lines: string[] }> {
  const { store, lines } = await openOn(disk, seed, { ...options, clock: clock.uncounted });
  return { store, disk, lines };
}

/** The store while the clock runs, for disks that fail to read; and how long it took. */
export async function openInTime(
  disk: FaultyDisk,
  seed = 1,
  { clock = new FakeClock() }: { clock?: FakeClock } = {},
): Promise<Bench & { tookMs: number }> {
  const beganMs = clock.bootMs();
  let endedMs = Number.NaN;
  const opening = openOn(disk, seed, { clock }).finally(() => {
    endedMs = clock.bootMs();
  });
  await clock.advance(2 * START_READS_MS_MAX);
  return { ...(await opening), tookMs: endedMs - beganMs };
}
