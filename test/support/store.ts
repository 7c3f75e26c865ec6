/** The real store on a faulty disk, a fake clock and a lock that is always free. */

import type { DiskFile } from '../../src/base/system/disk.js';
import { AddressBook } from '../../src/device/book/address-book.js';
import type { Address } from '../../src/mail/message/address.js';
import { START_READS_MS_MAX } from '../../src/mail/store/disk-error.js';
import type { Store, StoreOptions } from '../../src/mail/store/store.js';
import { openStore } from '../../src/mail/store/store.js';
import { FakeClock } from './clock.js';
import { draftTo, messagesOf } from './drafts.js';
import { type Fault, FaultyDisk, type Operation } from './faulty-disk.js';
import { drawn, freeLock, keptLog } from './system.js';

export const STATE_DIR = '/var/lib/fieldpost';
export const segmentPath = (segment: number) =>
  `${STATE_DIR}/journal/${String(segment).padStart(8, '0')}.log`;
/** An empty disk. */
export const newDisk = () => new FaultyDisk({ directories: ['/var/lib'] });

const books = new WeakMap<object, AddressBook>();

/** The address book in this store. */
export function bookOf({ book }: Pick<Store, 'book'>): AddressBook {
  const known = books.get(book) ?? new AddressBook(book);
  books.set(book, known);
  return known;
}

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
    sender: () => 'device@example.com' as Address,
    directory: STATE_DIR,
    historyMax: 1000,
    keepFailedMs: 7 * 24 * 3600 * 1000,
    budget: { maxQueue: 10_000, maxSpoolBytes: 256 * 2 ** 20, minFreeBytes: 0 },
    ...options,
  });
  return { store, clock, lines };
}

/**
 * The store for a test of another module. Its timers do not count among those of `clock`.
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

/** Accepts an email to `name`; gives its id. */
export async function acceptOne(store: Store, name: string, bytes?: number): Promise<string> {
  const { ids } = await store.accept([draftTo(name, bytes)], null);
  return ids[0] as string;
}

/** Ends a message with this outcome. */
export async function settleAs(
  store: Store,
  id: string,
  kind: 'sent' | 'failed' | 'expired' = 'sent',
): Promise<void> {
  store.claim(id);
  await store.settle(id, { kind, reply: `${kind} it is` });
}

/** Accepts an email, and sends it. */
export async function sendOne(store: Store, name: string, bytes?: number): Promise<void> {
  await settleAs(store, await acceptOne(store, name, bytes));
}

/** Accepts and cancels large emails: each three of them take a segment. */
export async function passThrough(store: Store, count: number): Promise<void> {
  for (; count > 0; count--) await store.cancel(await acceptOne(store, 'gone', 330_000));
}

/** The status of each message, by the name that it was accepted with. */
export function statusesOf(store: Store): Record<string, string> {
  return Object.fromEntries([...messagesOf(store)].map(([name, { status }]) => [name, status]));
}

/** All operations from now on. `fault` says what becomes of them. */
export function watch(disk: FaultyDisk, fault: (operation: Operation) => Fault = () => 'ok'): Operation[] {
  const seen: Operation[] = [];
  disk.onOperation = (_n, operation) => {
    seen.push(operation);
    return fault(operation);
  };
  return seen;
}

/** Lets `how` change each file that is opened under such a path. */
export function onOpen(disk: FaultyDisk, path: RegExp, how: (file: DiskFile, path: string) => void): void {
  const { open } = disk;
  disk.open = async (at, mode) => {
    const file = await open.call(disk, at, mode);
    if (path.test(at)) how(file, at);
    return file;
  };
}

/** How many files are open under such a path. */
export function countOpen(disk: FaultyDisk, path: RegExp): () => number {
  let count = 0;
  onOpen(disk, path, (file) => {
    count++;
    const { close } = file;
    let isOpen = true;
    file.close = async () => {
      if (isOpen) count--;
      isOpen = false;
      await close.call(file);
    };
  });
  return () => count;
}

/** Flips a bit of a stored file, as wear does, at the beginning of `text` in it. */
export async function damage(disk: FaultyDisk, path: string, text: string): Promise<void> {
  const file = await disk.open(`${STATE_DIR}/${path}`, 'update');
  const bytes = await file.read(0, await file.size());
  const at = bytes.indexOf(text);
  if (at < 0) throw new Error(`${path} has no ${text}`);
  await file.write(Buffer.from([(bytes[at] as number) ^ 1]), at);
  await file.sync();
  await file.close();
}

/** The names in the journal's directory. */
export async function segmentsOf(disk: FaultyDisk): Promise<string[]> {
  return await disk.list(`${STATE_DIR}/journal`);
}

/** Removes the whole journal. */
export async function loseJournal(disk: FaultyDisk): Promise<void> {
  for (const name of await segmentsOf(disk)) await disk.remove(`${STATE_DIR}/journal/${name}`);
}
