/**
 * A device with an address book and its sync, on the real store and the faulty disk. Its power can fail at any step. Used by
 * test/cloud/histories.test.ts.
 */
import { join } from 'node:path';
import type { CloudClient } from '../../src/cloud/client.js';
import { Sync } from '../../src/cloud/sync.js';
import type { AddressBook } from '../../src/destinations/address-book.js';
import type { FakeClock } from './clock.js';
import { FaultyDisk } from './faulty-disk.js';
import { openOn, STATE_DIR } from './store.js';

/** What becomes of one step of a device. */
export type Step = 'ok' | 'dies before' | 'dies after' | 'refused';

export interface DeviceWorld {
  /** In [0, 1). */
  readonly random: () => number;
  /** Called before each sync of the journal. */
  readonly onRecord: () => Step;
  /** The cloud it syncs with, and its name. */
  client: Pick<CloudClient, 'getDestinations' | 'putDestinations'>;
  cloud: string;
  isOnline: boolean;
  /** Entries made so far, and nonces drawn. */
  made: number;
  drawn: number;
}

/** One life of a device, from one power-on to the next. */
export interface BookDevice {
  readonly book: AddressBook;
  readonly sync: Sync;
  readonly clock: FakeClock;
  readonly isDead: boolean;
  /** The uid made last. */
  readonly lastUid: string;
  /** Resolves when it dies. Its pending calls never resolve. */
  readonly died: Promise<void>;
  /** The power fails. */
  die(): void;
  /** The next life, perhaps with damage found at its start. */
  restart(isDamaged: boolean): Promise<BookDevice>;
}

function uidIn(world: DeviceWorld): string {
  return `00000000-0000-4000-8000-${(++world.made).toString(16).padStart(12, '0')}`;
}

/** A life that can end, and a promise of its end. */
function mortality() {
  const life = { isDead: false, die: (): void => undefined, died: Promise.resolve() };
  life.died = new Promise((resolve) => {
    life.die = () => {
      life.isDead = true;
      resolve();
    };
  });
  return life;
}

function syncOf(book: AddressBook, clock: FakeClock, world: DeviceWorld, isDead: () => boolean): Sync {
  const hang = () => new Promise<never>(() => undefined);
  const silent = () => undefined;
  return new Sync({
    book,
    cloud: world.cloud,
    client: {
      getDestinations: (etag, signal) => (isDead() ? hang() : world.client.getDestinations(etag, signal)),
      putDestinations: (entries, ifMatch, signal, more) =>
        isDead() ? hang() : world.client.putDestinations(entries, ifMatch, signal, more),
    },
    config: { heartbeatMs: 30_000, backoffMinMs: 1000, backoffMaxMs: 60_000 },
    isOnline: () => world.isOnline && !isDead(),
    clock,
    random: world.random,
    log: { debug: silent, info: silent, warn: silent, error: silent },
  });
}

/** A device on this disk. */
export async function bookDevice(
  world: DeviceWorld,
  disk = new FaultyDisk({ random: world.random, directories: ['/var/lib'] }),
): Promise<BookDevice> {
  const life = mortality();
  const device = { lastUid: '' };
  const randomBytes = (count: number) => {
    const bytes = Uint8Array.from({ length: count }, () => Math.floor(world.random() * 256));
    if (count !== 16) return bytes;
    device.lastUid = uidIn(world);
    return Uint8Array.from(Buffer.from(device.lastUid.replaceAll('-', ''), 'hex'));
  };
  disk.onOperation = (_, { kind, path }) => {
    if (kind !== 'sync' || !path.includes('/journal/')) return 'ok';
    const step = world.onRecord();
    if (step === 'ok') return 'ok';
    if (step === 'refused') return 'error:EIO';
    life.die();
    return step === 'dies before' ? 'power-cut-before' : 'power-cut-after';
  };
  const die = () => {
    life.die();
    disk.cutPower();
  };
  const { store, clock } = await openOn(disk, 1 + Math.floor(world.random() * 1000), { randomBytes });
  return {
    book: store.book,
    clock,
    sync: syncOf(store.book, clock, world, () => life.isDead),
    died: life.died,
    die,
    get isDead() {
      return life.isDead;
    },
    get lastUid() {
      return device.lastUid;
    },
    restart: async (isDamaged) => {
      die();
      const next = disk.afterPowerCut('random', world.random);
      if (isDamaged) {
        // A snapshot that cannot be read: with the journal whole nothing is missing, but nobody can know that.
        const path = join(STATE_DIR, 'store.json.1');
        const file = await next.open(path, 'create').catch(() => next.open(path, 'update'));
        await file.write(Buffer.from('{"crc":"0'), 0);
        // Without a sync the next power cut would change the damage.
        await file.sync();
        await next.syncDirectory(STATE_DIR);
      }
      return await bookDevice(world, next);
    },
  };
}
