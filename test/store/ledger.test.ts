/** The use of the disk over weeks, and odd failures of the disk. */
import t from 'tap';
import { MIB, SEGMENT_BYTES, STORAGE_RETRY_MS } from '../../src/base/limits.js';
import { COMPACT_BYTES_MIN, OVERDUE_FACTOR } from '../../src/mail/store/checkpoints.js';
import type { StoreOptions } from '../../src/mail/store/store.js';
import { settled } from '../support/clock.js';
import { draftTo } from '../support/drafts.js';
import type { Fault, FaultyDisk } from '../support/faulty-disk.js';
import { seededRandom } from '../support/random.js';
import {
  acceptOne,
  countOpen,
  newDisk,
  onOpen,
  openOn,
  STATE_DIR,
  segmentsOf,
  sendOne,
  settleAs,
  statusesOf,
  watch,
} from '../support/store.js';
import { systemError } from '../support/system-error.js';

const ROOMY: StoreOptions['budget'] = { maxQueue: 10_000, maxSpoolBytes: 256 * MIB, minFreeBytes: 0 };

/** Calls `act` before each write that moves content. */
function onMove(disk: FaultyDisk, act: () => void | Promise<void>): void {
  onOpen(disk, /journal/, (file) => {
    const { write } = file;
    file.write = async (bytes, offset) => {
      if (bytes.includes('"e":"relocated"')) await act();
      await write.call(file, bytes, offset);
    };
  });
}

t.test('a checkpoint frees no segment because of an outcome that is not synced', async (t) => {
  const disk = newDisk();
  const { store } = await openOn(disk);
  // Larger than a segment: what it lies in is removed, not used again.
  const draft = draftTo('a', SEGMENT_BYTES);
  const accept = async () => (await store.accept([draft], null)).ids[0] as string;
  const id = await accept();
  let sent: Promise<void> | null = null;
  let checkpoints = 0;
  disk.onOperation = (_n, { kind, path }) => {
    // The third is the first that may free the first segment.
    if (kind === 'create' && path.endsWith('store.json.new') && ++checkpoints === 3)
      sent = settleAs(store, id);
    return 'ok';
  };
  while (sent === null) await settleAs(store, await accept());
  await sent;
  await settled();
  let queued = 0;
  for (let seed = 1; seed <= 20; seed++) {
    const { store: next } = await openOn(disk.afterPowerCut('random', seededRandom(seed)));
    const message = next.get(id);
    if (message?.status !== 'queued') continue;
    queued++;
    t.same(await next.content(message), draft.content);
  }
  t.ok(queued > 0, 'the outcome may be lost');
});

t.test('needed content is not moved', async (t) => {
  const disk = newDisk();
  const { store } = await openOn(disk);
  let moves = 0;
  onMove(disk, () => void moves++);
  let count = 0;
  while (store.counts().bytes < 60 * MIB) await store.accept([draftTo(`m${count++}`, 100_000)], null);
  t.equal(moves, 0);
});

t.test('a full queue refuses without an operation of the disk', async (t) => {
  const disk = newDisk();
  const { store, clock } = await openOn(disk, 1, { budget: { ...ROOMY, maxQueue: 2 } });
  await store.accept([draftTo('a'), draftTo('b')], null);
  await clock.advance(2000);
  const seen = watch(disk);
  for (let i = 0; i < 5; i++) {
    await t.rejects(store.accept([draftTo(`c${i}`)], null), { code: 'queue-full' });
    await settled();
  }
  t.same(seen, []);
});

for (const when of ['from the start', 'since a reload']) {
  t.test(`sent messages do not use up a budget that is small ${when}`, async (t) => {
    const small = { ...ROOMY, maxSpoolBytes: 11 * MIB };
    const budget = when === 'from the start' ? small : { ...ROOMY };
    const { store } = await openOn(newDisk(), 1, { budget });
    Object.assign(budget, small);
    for (let i = 0; i < 100; i++) {
      const { ids } = await store.accept([draftTo(`stays${i}`), draftTo(`goes${i}`, 500_000)], null);
      await settleAs(store, ids[1] as string);
      await settled();
    }
    t.equal(store.counts().queued, 100);
  });
}

t.test('power cuts without end do not fill the disk', async (t) => {
  let disk = newDisk();
  for (let i = 0; i < 45; i++) {
    const { store, clock } = await openOn(disk, i);
    // Some do nothing, but they begin a new segment, too.
    if (i % 3 < 2) await store.accept([draftTo(`m${i}`)], null);
    await clock.advance(10);
    disk = disk.afterPowerCut('everything');
  }
  const names = await segmentsOf(disk);
  t.ok(
    names.length <= COMPACT_BYTES_MIN / SEGMENT_BYTES + 2 + 2 * OVERDUE_FACTOR,
    `${names.length} segments`,
  );
  const { store } = await openOn(disk, 99);
  t.equal(store.counts().queued, 30);
});

t.test('restarts do not fill a small disk', async (t) => {
  const budget = { ...ROOMY, minFreeBytes: 4 * MIB };
  let disk = newDisk();
  disk.capacityBytes = 16 * MIB;
  /** Accepts it, after as many looks as a program that tries again every minute needs. */
  const accept = async ({ store, clock }: Awaited<ReturnType<typeof openOn>>, name: string) => {
    for (let tries = 0; ; tries++) {
      const accepted = await store.accept([draftTo(name)], null).catch((error) => error.code);
      if (accepted !== 'storage-full' || tries === 5) return accepted;
      await clock.advance(60_000);
      store.storage();
      await settled();
    }
  };
  for (let boot = 0; boot < 40; boot++) {
    const bench = await openOn(disk, boot, { budget });
    t.match(await accept(bench, `m${boot}`), { ids: { length: 1 } }, `boot ${boot}`);
    await bench.clock.advance(10_000);
    disk = disk.afterKill();
  }
  const bench = await openOn(disk, 99, { budget });
  t.equal(bench.store.counts().queued, 40);
});

t.test('the older snapshot goes if only that makes room for a newer one', async (t) => {
  const disk = newDisk();
  const { store, clock } = await openOn(disk);
  const sendAll = async () => {
    for (const { id } of [...store.queued()]) await settleAs(store, id);
  };
  // Two snapshots.
  while (!(await disk.list(STATE_DIR)).includes('store.json.1')) {
    await store.accept(Array(20).fill(draftTo('a', 50_000)), null);
    await sendAll();
    await settled();
  }
  await store.accept([draftTo('stays')], null);
  await clock.advance(2000);
  let isOver = false;
  // A network file system may refuse the close as well: what counts is what it said first.
  onOpen(disk, /store\.json\.new/, (file) => {
    const { close } = file;
    file.close = async () => {
      await close.call(file);
      if (!isOver) throw systemError('EIO', 'EIO: close');
    };
  });
  disk.onOperation = (_n, { kind, path }) => {
    if (kind === 'remove' && path.endsWith('store.json.1')) isOver = true;
    return kind === 'write' && path.endsWith('store.json.new') && !isOver ? 'error:ENOSPC' : 'ok';
  };
  await store.close();
  t.ok(isOver);
  disk.onOperation = () => 'ok';
  const again = await openOn(disk.afterPowerCut('nothing'));
  t.equal(again.store.counts().queued, 1);
  t.equal(again.store.storage().damaged, 0);
});

/** No file can be opened until the returned function is called. */
function refuseOpens(disk: FaultyDisk): () => void {
  const { open } = disk;
  disk.open = async () => {
    throw systemError('EMFILE', 'too many open files');
  };
  return () => {
    disk.open = open;
  };
}

/** Refuses another segment, and gives the way back. By the code of the refusal. */
const SHORT: Readonly<Record<string, (disk: FaultyDisk) => () => void>> = {
  busy: refuseOpens,
  'storage-full'(disk) {
    disk.capacityBytes = 2 * MIB;
    return () => {
      disk.capacityBytes = 2 ** 40;
    };
  },
};

for (const [code, refuse] of Object.entries(SHORT)) {
  t.test(`an outcome is kept though a message beside it is refused as ${code}`, async (t) => {
    const disk = newDisk();
    const { store, clock } = await openOn(disk);
    const id = await acceptOne(store, 'first');
    await clock.advance(10);
    const mend = refuse(disk);
    while (await acceptOne(store, 'more', 100_000).catch(() => null));
    store.claim(id);
    const refused = t.rejects(acceptOne(store, 'toomuch', 100_000), { code });
    await store.settle(id, { kind: 'sent', reply: '250 taken' });
    await refused;
    t.equal(store.get(id)?.status, 'sent');
    t.equal(store.storage().state, 'ok', 'the disk itself has not failed');
    mend();
    await clock.advance(1000);
    await t.resolves(acceptOne(store, 'later', 100_000), 'it recovers by itself');
  });
}

t.test('on a full disk', async (t) => {
  t.test('a checkpoint is made although there is no room to move what holds segments back', async (t) => {
    const disk = newDisk();
    const { store } = await openOn(disk);
    let full = false;
    onMove(disk, async () => {
      if (full) return;
      full = true;
      const { freeBytes } = await disk.space(STATE_DIR);
      // Enough for snapshots alone.
      disk.capacityBytes -= freeBytes - MIB / 2;
    });
    const seen = watch(disk);
    // One message of each segment stays, and more and more is held back with it.
    while (!full) {
      const { ids } = await store.accept([draftTo('stays', 250_000), draftTo('goes', 300_000)], null);
      await settleAs(store, ids[1] as string);
      seen.length = 0;
      await settled();
    }
    t.ok(seen.some(({ kind, path }) => kind === 'rename' && path.endsWith('store.json')));
    await t.resolves(store.accept([draftTo('after', 600_000)], null), 'and its segments take what comes');
  });

  t.test('a disk that is full before the budget loses the segments of sent messages', async (t) => {
    const disk = newDisk();
    const { store, clock } = await openOn(disk);
    disk.capacityBytes = 8 * MIB;
    const ids: string[] = [];
    for (;;) {
      const accepted = await store.accept([draftTo('a', 300_000)], null).catch(() => null);
      if (!accepted) break;
      ids.push(...accepted.ids);
      await settled();
    }
    for (const id of ids) await settleAs(store, id);
    let tries = 0;
    while (tries < 5 && !(await store.accept([draftTo('again', 300_000)], null).catch(() => null))) {
      tries++;
      await clock.advance(2000);
    }
    t.ok(tries < 5, `${tries} tries`);
  });
});

t.test('a disk that fails for a while leaves no file open', async (t) => {
  const disk = newDisk();
  const count = countOpen(disk, /./);
  const { store, clock } = await openOn(disk);
  let failing = false;
  disk.onOperation = (_n, { kind, path }): Fault => {
    if (!failing || !path.includes('journal')) return 'ok';
    return kind === 'create' || kind === 'sync' || kind === 'syncDirectory' ? 'error:EIO' : 'ok';
  };
  const before = new Set<number>();
  for (let i = 0; i < 12; i++) {
    failing = true;
    for (let j = 0; j < 3; j++) {
      await store.accept([draftTo(`a${i}.${j}`, 500_000)], null).catch(() => undefined);
      await clock.advance(STORAGE_RETRY_MS);
    }
    failing = false;
    await clock.advance(STORAGE_RETRY_MS);
    for (let j = 0; j < 3; j++) await store.accept([draftTo(`b${i}.${j}`, 500_000)], null);
    await clock.advance(10);
    before.add(count());
  }
  // The current segment and the next one, each by two descriptors.
  t.same([...before], [4]);
  await store.close();
  t.equal(count(), 0);
});

t.test('a segment that could not be begun once leaves no file open', async (t) => {
  const disk = newDisk();
  const count = countOpen(disk, /./);
  const { store, clock } = await openOn(disk);
  for (let i = 0; i < 6; i++) {
    // Fills the segment; the next one is taken away, and another cannot be made.
    await store.accept([draftTo(`a${i}`, 400_000)], null);
    disk.onOperation = (_n, { kind, path }) =>
      kind === 'create' && path.includes('journal') ? 'error:EIO' : 'ok';
    await store.accept([draftTo(`huge${i}`, 2 * SEGMENT_BYTES)], null).catch(() => undefined);
    disk.onOperation = () => 'ok';
    await clock.advance(STORAGE_RETRY_MS);
    t.equal(store.storage().state, 'ok');
  }
  await store.accept([draftTo('last')], null);
  await clock.advance(10);
  t.equal(count(), 4);
  await store.close();
});

t.test('a snapshot whose rename reports a failure does not stop later ones', async (t) => {
  const disk = newDisk();
  const { store } = await openOn(disk);
  let renames = 0;
  disk.onOperation = (_n, { kind, path }) =>
    kind === 'rename' && path.includes('store.json') && ++renames === 2 ? 'error-after:EIO' : 'ok';
  for (let i = 0; i < 40; i++) {
    await sendOne(store, `m${i}`, 500_000);
    await settled();
  }
  t.ok(renames > 4, `${renames} renames`);
  t.ok(store.counts().bytes < 12 * MIB, 'old segments went');
});

t.test('a content that could not be read once can be read again', async (t) => {
  const disk = newDisk();
  const { store } = await openOn(disk);
  const { ids } = await store.accept([draftTo('a')], null);
  const message = store.get(ids[0] as string) as never;
  const mend = refuseOpens(disk);
  await t.rejects(
    store.content(message),
    { code: 'storage-failed' },
    'the disk, not the content, is at fault',
  );
  mend();
  t.match(await store.content(message), { subject: 'a' });
});

t.test(
  'records in doubt at the start, written again later, do not disturb a message that is being sent',
  async (t) => {
    const disk = newDisk();
    const { store, clock } = await openOn(disk);
    const id = await acceptOne(store, 'a');
    store.claim(id);
    // In one write, of which nothing behind it says that it was synced.
    await Promise.all([
      store.accept([draftTo('b')], null),
      store.settle(id, { kind: 'deferred', reply: '451', delayMs: 0 }),
    ]);
    await clock.advance(10);
    const after = disk.afterKill();
    let failing = true;
    after.onOperation = (_n, { kind }) => (failing && kind === 'sync' ? 'error:EIO' : 'ok');
    const { store: again, clock: later } = await openOn(after, 2);
    t.equal(again.storage().state, 'failed');
    again.claim(id);
    failing = false;
    await later.advance(STORAGE_RETRY_MS);
    t.equal(again.storage().state, 'ok');
    t.equal(again.get(id)?.status, 'sending');
    await again.settle(id, { kind: 'sent', reply: '250 taken' });
    t.equal(again.get(id)?.status, 'sent');
  },
);

t.test('a segment whose rename reports a failure refuses no request', async (t) => {
  const disk = newDisk();
  const { store } = await openOn(disk);
  disk.onOperation = (n, { kind, path }) => {
    if (kind !== 'rename' || !path.includes('journal')) return 'ok';
    return n % 2 === 0 ? 'error-after:EIO' : 'error:EIO';
  };
  for (let i = 0; i < 40; i++) {
    await sendOne(store, `m${i}`, 400_000);
    await settled();
  }
  t.equal(store.storage().state, 'ok');
  const names = await segmentsOf(disk);
  t.ok(names.length < 8, names.join(' '));
  // A snapshot is counted three times, and is small here.
  t.equal(
    Math.floor(store.counts().bytes / SEGMENT_BYTES),
    names.length,
    'none is counted that is not there',
  );
});

t.test('records that a kill left unsynced are on the device after the next start', async (t) => {
  const disk = newDisk();
  const { store, clock } = await openOn(disk);
  await store.accept([draftTo('a')], null);
  await clock.advance(10);
  disk.onOperation = (_n, { kind }) => (kind === 'sync' ? 'power-cut-before' : 'ok');
  await t.rejects(store.accept([draftTo('b')], null));
  const killed = disk.afterKill();
  const { store: next } = await openOn(killed, 2);
  t.same(statusesOf(next), { a: 'queued', b: 'queued' });
  await next.close();
  const { store: again } = await openOn(killed.afterPowerCut('nothing'), 3);
  t.same(statusesOf(again), { a: 'queued', b: 'queued' });
  for (const message of again.queued()) t.match(await again.content(message), { subject: /^[ab]$/ });
});

t.test('a first segment that was begun and abandoned is no damage', async (t) => {
  const disk = newDisk();
  let syncs = 0;
  // The first makes it ready, the second is of a record. Nor can it be removed, so that its number is passed over.
  disk.onOperation = (_n, { kind, path }) =>
    path.endsWith('00000001.log') && (kind === 'remove' || (kind === 'sync' && ++syncs === 2))
      ? 'error:EIO'
      : 'ok';
  const { store, clock } = await openOn(disk);
  await store.accept([draftTo('a')], null);
  await clock.advance(10);
  disk.onOperation = () => 'ok';
  let after = disk.afterPowerCut('nothing');
  for (let start = 0; start < 3; start++) {
    const { store: again, lines } = await openOn(after, start);
    t.same(statusesOf(again), { a: 'queued' });
    t.notMatch(lines.join(''), /store damaged/);
    t.notOk((await segmentsOf(after)).includes('00000001.log'));
    after = after.afterKill();
    for (const name of ['store.json', 'store.json.1']) await after.remove(`${STATE_DIR}/${name}`);
  }
});

t.test(
  'a failed sync of a directory ends the start, unless that is a parent which cannot change',
  async (t) => {
    for (const [directory, code, isFatal] of [
      ['/var/lib', 'EINVAL', false],
      ['/var/lib', 'EROFS', false],
      ['/var/lib', 'EACCES', false],
      ['/var/lib', 'EIO', true],
      [STATE_DIR, 'EINVAL', true],
    ] as const) {
      const disk = newDisk();
      disk.onOperation = (_n, { kind, path }) =>
        kind === 'syncDirectory' && path === directory ? `error:${code}` : 'ok';
      const start = openOn(disk);
      if (isFatal) await t.rejects(start, { code }, `${directory}: ${code}`);
      else await t.resolves(acceptOne((await start).store, 'a'), `${directory}: ${code}`);
    }
  },
);
