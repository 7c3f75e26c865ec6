/** Unreadable or missing bytes: the store logs and copies them, and loses nothing else. */
import t, { type Test } from 'tap';
import { crc32, hex8 } from '../../src/base/crc.js';
import { writeNew } from '../../src/base/durable-file.js';
import { DAY_MS, SEGMENT_BYTES } from '../../src/base/limits.js';
import { UNKNOWN_OUTCOME } from '../../src/mail/store/replay.js';
import type { Store } from '../../src/mail/store/store.js';
import { FakeClock } from '../support/clock.js';
import { draftTo, messagesOf } from '../support/drafts.js';
import type { FaultyDisk } from '../support/faulty-disk.js';
import {
  acceptOne,
  type Bench,
  damage,
  loseJournal,
  newDisk,
  openInTime,
  openOn,
  passThrough,
  STATE_DIR,
  segmentPath,
  sendOne,
  statusesOf,
} from '../support/store.js';

const BLOCK = 4096;
const SNAPSHOT = `${STATE_DIR}/store.json`;

type Spoil = (disk: FaultyDisk, path: string, offset: number, bytes: number) => Promise<void>;

function overwrite(octet: (at: number) => number): Spoil {
  return async (disk, path, offset, bytes) => {
    const file = await disk.open(path, 'update');
    await file.write(Buffer.from(Array.from({ length: bytes }, (_, at) => octet(at))), offset);
    await file.sync();
    await file.close();
  };
}

/** Every read of these bytes fails. */
const refuseReads =
  (code = 'EIO'): Spoil =>
  async (disk, path, from, bytes) => {
    disk.onRead = (at, offset, length) =>
      at === path && offset < from + bytes && offset + length > from ? code : null;
  };

const eraseFlash = overwrite(() => 0xff);
const makeNoise = overwrite((at) => (at * 73 + (at >> 3) * 31 + 7) & 255);
const KINDS: Readonly<Record<string, Spoil>> = {
  zeros: overwrite(() => 0),
  'what erased flash holds': eraseFlash,
  noise: makeNoise,
  'reads that fail': refuseReads(),
  "reads that the file system's checksum refuses": refuseReads('EUCLEAN'),
};

interface Row {
  readonly what: string;
  /** The size of each message, by its name. */
  readonly mails: Readonly<Record<string, number>>;
  /** Accepted in a second run, which has a segment of its own. */
  readonly later?: string;
  /** In the first segment; or the first block that begins in the last message. */
  readonly at: number | 'last';
  readonly bytes?: number;
  readonly left: readonly string[];
}

const ROWS: readonly Row[] = [
  { what: 'the head of the newest segment', mails: { a: 200, b: 200, c: 200 }, at: 0, left: [] },
  {
    what: 'the head, with records behind it',
    mails: { lost: BLOCK, a: 200, b: 200 },
    at: 0,
    left: ['a', 'b'],
  },
  {
    what: 'a record between others',
    mails: { a: BLOCK, lost: 4 * BLOCK, b: BLOCK },
    at: 2 * BLOCK,
    bytes: 512,
    left: ['a', 'b'],
  },
  { what: 'the last record', mails: { a: 3 * BLOCK, last: 3 * BLOCK }, at: 'last', left: ['a'] },
  { what: 'all of a needed segment', mails: { a: 200 }, later: 'b', at: 0, bytes: 2 * BLOCK, left: ['b'] },
];

/** Every segment stays needed. */
function withoutSnapshots(disk: FaultyDisk): FaultyDisk {
  disk.onOperation = (_n, { path }) => (path.includes('store.json') ? 'error:EIO' : 'ok');
  return disk;
}

/** Kills a daemon that has had a second since its last record, and gives what the next finds. */
async function killed({ clock }: Bench, disk: FaultyDisk): Promise<FaultyDisk> {
  await clock.advance(1000);
  return disk.afterKill();
}

const namesIn = ({ store }: Bench): string[] => [...messagesOf(store).keys()].sort();
const failedIn = (store: Store) => store.list({ status: 'failed', limit: 9, after: null }).messages;

async function isTold(t: Test, bench: Bench, disk: FaultyDisk, what: string): Promise<void> {
  t.ok(bench.store.storage().damaged > 0, `${what}: counted`);
  t.match(bench.lines.join(), /store damaged/, `${what}: told`);
  t.ok((await disk.list(`${STATE_DIR}/damaged`)).length > 0, `${what}: copied`);
}

for (const { what, mails, later, at, bytes = BLOCK, left } of ROWS) {
  for (const [kind, spoil] of Object.entries(KINDS)) {
    t.test(`${kind} in ${what}`, async (t) => {
      const disk = newDisk();
      const bench = await openOn(disk);
      let last = '';
      for (const [name, size] of Object.entries(mails)) last = await acceptOne(bench.store, name, size);
      const offset =
        at === 'last' ? Math.ceil((bench.store.get(last)?.place?.offset ?? 0) / BLOCK) * BLOCK : at;
      let next = await killed(bench, disk);
      if (later) {
        const second = await openOn(withoutSnapshots(next), 2);
        await acceptOne(second.store, later, SEGMENT_BYTES);
        next = await killed(second, next);
      }
      await spoil(next, segmentPath(1), offset, bytes);
      const again = await openInTime(next, 3);
      await isTold(t, again, next, kind);
      t.same(namesIn(again), left);
      const id = await acceptOne(again.store, 'next');
      t.ok(
        [...messagesOf(again.store).values()].every((other) => other.id <= id),
        'ids go on above all others',
      );
      t.same(namesIn(await openOn(next.afterKill(), 4)), [...left, 'next'].sort(), 'it goes on');
    });
  }
}

t.test(
  'reads that fail behind the last known sync are damage: the bytes may have been promised',
  async (t) => {
    const disk = newDisk();
    const { store } = await openOn(disk);
    await acceptOne(store, 'a');
    const last = store.get(await acceptOne(store, 'last', 3 * BLOCK));
    // At once: no second place says how far the segment is synced.
    const next = disk.afterKill();
    await refuseReads()(next, segmentPath(1), (last?.place?.offset ?? 0) + BLOCK, 512);
    const again = await openInTime(next, 2);
    await isTold(t, again, next, 'reads that fail');
    t.same(namesIn(again), ['a']);
  },
);

/** Ways to make a snapshot useless. The last has a right checksum. */
const SNAPSHOTS: Readonly<Record<string, (disk: FaultyDisk) => Promise<void>>> = {
  'a flipped bit': (disk) => damage(disk, 'store.json', 'b@example.com'),
  'reads that fail': (disk) => refuseReads('EBADMSG')(disk, SNAPSHOT, 0, 1),
  async 'an unexpected shape'(disk) {
    const whole = String(await disk.readWhole(SNAPSHOT)).slice('{"crc":"xxxxxxxx",'.length);
    const other = Buffer.from(whole.replace('"boots":', '"shoes":'));
    await writeNew(disk, SNAPSHOT, [Buffer.from(`{"crc":"${hex8(crc32(other))}",`), other]);
  },
};

for (const [kind, spoil] of Object.entries(SNAPSHOTS)) {
  t.test(`${kind} in a snapshot: the one before it and the journal give the same`, async (t) => {
    const disk = newDisk();
    const names = ['a', 'b', 'c'];
    for (const name of names) {
      const { store } = await openOn(disk, 3);
      await acceptOne(store, name);
      await store.close();
    }
    const next = disk.afterKill();
    await spoil(next);
    const bench = await openInTime(next, 4);
    t.same(namesIn(bench), names);
    t.equal(bench.store.storage().damaged, 1);
    t.match(bench.lines.join(), /store damaged/);
    const again = await openOn(next.afterKill(), 5);
    t.same(namesIn(again), names);
    t.notMatch(again.lines.join(), /store damaged/, 'the same damage is not met twice');
  });
}

t.test('both snapshots: nothing is sent by itself, nothing is thrown away', async (t) => {
  const disk = newDisk();
  let storeId = '';
  // Enough of them that the first segments are gone, and with them the history that no snapshot is needed for.
  for (let i = 0; i < 4; i++) {
    const { store } = await openOn(disk, 3);
    storeId = store.storeId;
    await sendOne(store, `done${i}`, SEGMENT_BYTES - 200_000);
    await acceptOne(store, `open${i}`, 300_000);
    await store.close();
  }
  t.notOk((await disk.list(`${STATE_DIR}/journal`)).includes('00000001.log'));
  await damage(disk, 'store.json', 'open');
  await damage(disk, 'store.json.1', 'open');
  const { store } = await openOn(disk, 4);
  t.equal(store.storeId, storeId, 'the store is still the same');
  t.match(store.counts(), { queued: 0, deferred: 0 });
  const held = failedIn(store);
  t.ok(held.length > 0);
  t.ok(held.every(({ lastReply }) => lastReply === UNKNOWN_OUTCOME));
  const [one] = held.map(({ id }) => id) as [string];
  await store.retry(one);
  t.equal(store.get(one)?.status, 'queued', 'a person may decide');
  const next = await acceptOne(store, 'next');
  t.ok(
    held.every(({ id }) => id < next),
    'ids go on above all that was seen',
  );
});

t.test('a segment that is gone, the newest or one before', async (t) => {
  for (const gone of [1, 2]) {
    const disk = newDisk();
    const first = await openOn(disk);
    await first.store.accept([draftTo('a')], null);
    const later = withoutSnapshots(await killed(first, disk));
    const second = await openOn(later, 2);
    // Its record does not fit into the first segment.
    await second.store.accept([draftTo('b', SEGMENT_BYTES)], null);
    const next = await killed(second, later);
    for (const number of gone === 2 ? [2, 3] : [1]) await next.remove(segmentPath(number));
    const again = await openOn(next, 3);
    await isTold(t, again, next, `segment ${gone}`);
    const replies = failedIn(again.store).map(({ lastReply }) => lastReply);
    t.same(replies, [UNKNOWN_OUTCOME], 'what is left may have been sent');
    await again.store.accept([draftTo('c')], null);
    const after = await openOn(next.afterKill(), 4);
    t.notMatch(after.lines.join(), /store damaged/, 'and is not told twice');
  }
});

t.test('a lost journal: messages in the snapshot may have been sent since', async (t) => {
  for (const had of ['sent', 'queued']) {
    let disk = newDisk();
    const { store } = await openOn(disk);
    if (had === 'sent') await sendOne(store, 'a');
    else await acceptOne(store, 'a');
    await store.close();
    await loseJournal(disk);
    const clock = new FakeClock();
    await clock.advance(8 * DAY_MS);
    const { store: second, lines } = await openOn(disk, 2, { clock });
    t.match(lines.join(), /store damaged/);
    const held = messagesOf(second).get('a');
    if (had === 'queued') t.ok(held?.place, 'it waits for a person from now on, however old it is');
    await acceptOne(second, 'b');
    await clock.advance(10);
    for (let i = 0; i < 3; i++) {
      disk = disk.afterKill();
      const { store: again } = await openOn(disk, 3 + i);
      t.match(statusesOf(again), { a: had === 'sent' ? 'sent' : 'failed', b: 'queued' });
      await acceptOne(again, `c${i}`);
      const { store: more, clock } = await openOn(disk.afterKill(), 7);
      t.equal(statusesOf(more)[`c${i}`], 'queued', 'what is accepted afterwards is kept');
      await clock.advance(10);
    }
  }
});

t.test('a copy is whole, wherever the power is cut while it is written', async (t) => {
  const disk = newDisk();
  const bench = await openOn(disk);
  for (const name of ['lost', 'a']) await bench.store.accept([draftTo(name, 2 * BLOCK)], null);
  const next = await killed(bench, disk);
  await eraseFlash(next, segmentPath(1), 0, BLOCK);
  const cuts: { readonly what: string; readonly disk: FaultyDisk }[] = [];
  next.onOperation = (_n, { kind, path }) => {
    if (!path.includes('/damaged')) return 'ok';
    for (const cut of ['nothing', 'everything', 'random', 'torn-head'] as const)
      cuts.push({ what: `${cut} before ${kind} ${path}`, disk: next.afterPowerCut(cut) });
    return 'ok';
  };
  await openOn(next, 2);
  t.ok(cuts.length >= 12, `${cuts.length} cuts`);
  for (const { what, disk } of cuts) {
    const again = await openOn(disk, 3);
    t.match(again.lines.join(), /store damaged pieces=1/, `${what}: told`);
    const copies = await disk.list(`${STATE_DIR}/damaged`);
    t.equal(copies.length, 1, what);
    for (const name of copies) {
      const bytes = await disk.readWhole(`${STATE_DIR}/damaged/${name}`);
      t.equal(hex8(crc32(bytes ?? Buffer.alloc(0))), name.slice(-8), `${what}: ${name}`);
    }
  }
});

t.test('no copy, no removal', async (t) => {
  const disk = newDisk();
  const bench = await openOn(disk);
  await bench.store.accept([draftTo('a')], null);
  const next = await killed(bench, disk);
  await makeNoise(next, segmentPath(1), 0, BLOCK);
  next.onOperation = (_n, { path }) => (path.includes('/damaged') ? 'error:ENOSPC' : 'ok');
  const again = await openOn(next, 2);
  t.match(again.lines.join(), /store damaged/);
  await passThrough(again.store, 40);
  await again.store.close();
  const names = await next.list(`${STATE_DIR}/journal`);
  t.ok(names.includes('00000001.log.damaged'), names.join());
});

t.test('the store leaves unknown files alone', async (t) => {
  const disk = newDisk();
  await (await openOn(disk)).store.close();
  for (const name of ['README', 'journal/notes.txt', 'journal/00000001.log.bak']) {
    await writeNew(disk, `${STATE_DIR}/${name}`, []);
  }
  await (await openOn(disk, 2)).store.close();
  t.ok((await disk.list(`${STATE_DIR}/journal`)).includes('notes.txt'));
  t.ok((await disk.list(`${STATE_DIR}/journal`)).includes('00000001.log.bak'));
  t.ok((await disk.list(STATE_DIR)).includes('README'));
});
