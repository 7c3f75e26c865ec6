/**
 * A device with the real store on a disk in memory, the sync of its address book, and a cloud's document.
 */
import { AddressBook } from '../../src/device/book/address-book.js';
import { Sync } from '../../src/device/link/sync.js';
import { FakeClock } from './clock.js';
import { CloudDocument } from './cloud-document.js';
import type { FaultyDisk } from './faulty-disk.js';
import { newDisk, openQuietly } from './store.js';

/** `name`: the cloud's, as the configuration spells it. `life`: counts the starts from one disk. */
export async function startSync({
  cloud: given = null as CloudDocument | null,
  disk = newDisk(),
  name = 'https://cloud.example/a',
  life = 1,
  random = (): number => 0,
} = {}) {
  const cloud = given ?? (await CloudDocument.start());
  const clock = new FakeClock();
  const lines: string[] = [];
  const log = (event: string, fields = {}) => void lines.push([event, ...Object.values(fields)].join(' '));
  const { store } = await openQuietly(clock, { disk, seed: life });
  const bench = {
    cloud,
    clock,
    disk,
    lines,
    isOnline: true,
    book: new AddressBook(store.book),
    sync: null as unknown as Sync,
    /** What was called since the last time. */
    calls: () => cloud.calls.splice(0).join(' '),
    async syncNow() {
      bench.sync.request();
      await clock.advance(0);
    },
    /** The same device after a power cut that loses all that may be lost, perhaps with another cloud. */
    restart: (other: { cloud?: CloudDocument; name?: string; disk?: FaultyDisk } = {}) =>
      startSync({ cloud, disk: disk.afterPowerCut('nothing'), name, ...other, life: life + 1 }),
  };
  bench.sync = new Sync({
    book: bench.book,
    cloud: name,
    client: cloud.client,
    config: { heartbeatMs: 30_000, backoffMinMs: 1000, backoffMaxMs: 300_000 },
    isOnline: () => bench.isOnline,
    clock,
    random,
    log: { debug: log, info: log, warn: log, error: log },
  });
  return bench;
}
