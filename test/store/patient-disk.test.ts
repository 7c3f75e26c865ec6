/** A disk that fails to read while a start reads, for a moment or for good; and one that reads wrongly once. */
import t, { type Test } from 'tap';
import { START_READS_MS_MAX } from '../../src/mail/store/disk-error.js';
import { FakeClock } from '../support/clock.js';
import { draftTo } from '../support/drafts.js';
import type { FaultyDisk } from '../support/faulty-disk.js';
import { type Bench, newDisk, openInTime, openOn, passThrough, STATE_DIR } from '../support/store.js';
import { systemError } from '../support/system-error.js';
import { StoreClient } from './store-client.js';

const JOURNAL = `${STATE_DIR}/journal`;

/** Called before each read of a file (`content`) or of a directory, and after it with its bytes. */
interface Reads {
  before(path: string, what: 'content' | 'name'): void;
  after?(path: string, bytes: Buffer): Buffer;
}

function watchReads(disk: FaultyDisk, { before, after = (_path, bytes) => bytes }: Reads): void {
  const { open, look, list, readWhole } = disk;
  disk.look = async (path) => {
    before(path, 'name');
    return await look.call(disk, path);
  };
  disk.list = async (path) => {
    before(path, 'name');
    return await list.call(disk, path);
  };
  disk.readWhole = async (path) => {
    before(path, 'content');
    const bytes = await readWhole.call(disk, path);
    return bytes && after(path, bytes);
  };
  disk.open = async (path, how) => {
    if (how === 'read') before(path, 'content');
    const file = await open.call(disk, path, how);
    const { read, size } = file;
    file.read = async (offset, length) => {
      before(path, 'content');
      return after(path, await read.call(file, offset, length));
    };
    file.size = async () => {
      before(path, 'content');
      return await size.call(file);
    };
    return file;
  };
}

/** Reads of paths that match fail for so long. */
function failReads(disk: FaultyDisk, clock: FakeClock, forMs: number, where = /./): void {
  const untilMs = clock.bootMs() + forMs;
  watchReads(disk, {
    before(path) {
      if (where.test(path) && clock.bootMs() < untilMs) throw systemError('EIO');
    },
  });
}

/** Two snapshots, and a journal behind them, of a daemon that was killed. */
async function killedStore(books: StoreClient): Promise<FaultyDisk> {
  const disk = newDisk();
  for (const name of ['a', 'b']) {
    const { store } = await openOn(disk);
    await books.accept(store, [draftTo(name)]);
    await store.close();
  }
  const { store, clock } = await openOn(disk);
  await books.accept(store, [draftTo('c', 20_000), draftTo('d')]);
  await clock.advance(1000);
  return disk.afterKill();
}

async function isWhole(t: Test, { store, lines }: Bench, books: StoreClient, what: string): Promise<void> {
  t.same(await books.violations(store), [], what);
  t.equal(store.storage().damaged, 0, `${what}: nothing is damaged`);
  t.notMatch(lines.join(), /damaged|put aside|unusable/, what);
}

t.test('reads that fail for 2.5 s, or nearly 10 s, cost nothing but that time', async (t) => {
  for (const forMs of [2500, START_READS_MS_MAX - 1]) {
    for (const where of [/./, /store\.json$/, /store\.json\.1$/, /journal$/, /\.log$/, /synced/]) {
      const books = new StoreClient();
      const disk = await killedStore(books);
      const clock = new FakeClock();
      failReads(disk, clock, forMs, where);
      const bench = await openInTime(disk, 2, { clock });
      await isWhole(t, bench, books, `${where} for ${forMs} ms`);
      t.ok(bench.tookMs >= forMs && bench.tookMs < forMs + 1000, `${bench.tookMs} ms`);
      t.equal(bench.lines.filter((line) => line.includes('read failed reason=')).length, 1, 'told once');
    }
  }
});

t.test('a start waits for 10 s in all, then goes on, and keeps what it could not read', async (t) => {
  for (const name of ['store.json', 'journal/00000001.log']) {
    const books = new StoreClient();
    const disk = await killedStore(books);
    const whole = await disk.readWhole(`${STATE_DIR}/${name}`);
    t.ok(whole, name);
    const clock = new FakeClock();
    watchReads(disk, {
      before(path, what) {
        if (what === 'content' && path.endsWith(name)) throw systemError('EIO');
      },
    });
    const { store, lines, tookMs } = await openInTime(disk, 2, { clock });
    t.ok(tookMs >= START_READS_MS_MAX && tookMs <= START_READS_MS_MAX + 250, `${tookMs} ms`);
    t.match(lines.join(), /store damaged/);
    t.ok(store.storage().damaged > 0);
    await store.accept([draftTo('next')], null);
    await clock.advance(10);

    // The next start can read it, and removes all that nothing needs any more.
    let later = disk.afterKill();
    for (let starts = 0; starts < 4; starts++) {
      const { store } = await openOn(later, 3 + starts);
      // The segment also holds what waits.
      for (const { id } of store.list({ status: 'queued', limit: 9, after: null }).messages)
        await store.cancel(id);
      await passThrough(store, 8);
      await store.close();
      later = later.afterKill();
    }
    const kept = await later.readWhole(`${STATE_DIR}/${name}.damaged`);
    t.ok(whole && kept?.equals(whole), `${name}: the original is kept`);
  }
});

t.test('a read that fails after the start is reported at once', async (t) => {
  const books = new StoreClient();
  const disk = await killedStore(books);
  let isFailing = false;
  watchReads(disk, {
    before() {
      if (isFailing) throw systemError('EIO');
    },
  });
  const { store } = await openOn(disk, 2);
  const [message] = store.list({ status: null, limit: 1, after: null }).messages;
  if (!message) throw new Error('it was accepted');
  isFailing = true;
  // The clock stands still: a read that waited would never end.
  await t.rejects(store.content(message), { code: 'storage-failed' });
  isFailing = false;
  t.same(await store.content(message), draftTo('d').content);
});

t.test('bytes that are read wrongly once are no damage', async (t) => {
  // Where in the file the bit falls over: in the checksum, the head, a record, the tail.
  for (const name of ['store.json', 'store.json.1', ...(await disksSegments())]) {
    for (const at of [0, 30, 150, 5000, 20_500, -1]) {
      const books = new StoreClient();
      const disk = await killedStore(books);
      const seen = new Set<string>();
      watchReads(disk, {
        before: () => undefined,
        after(path, bytes) {
          const key = `${path} ${bytes.length}`;
          if (!path.endsWith(`/${name}`) || seen.has(key) || bytes.length === 0) return bytes;
          seen.add(key);
          const flipped = Buffer.from(bytes);
          const index = at < 0 ? bytes.length + at : Math.min(at, bytes.length - 1);
          flipped[index] = (flipped[index] ?? 0) ^ 0x04;
          return flipped;
        },
      });
      await isWhole(t, await openOn(disk, 2), books, `${name} at ${at}`);
      t.ok(seen.size > 0, `${name} was read`);
    }
  }
});

async function disksSegments(): Promise<string[]> {
  const disk = await killedStore(new StoreClient());
  return (await disk.list(JOURNAL)).slice(-2);
}
