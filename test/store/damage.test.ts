/** Bad blocks where recovery had nothing but its own judgement: each is told, copied, and costs only what it hit. */
import t, { type Test } from 'tap';
import { crc32, hex8 } from '../../src/store/crc.js';
import { draftTo } from '../support/drafts.js';
import { FaultyDisk } from '../support/faulty-disk.js';
import { type Bench, newDisk, openOn, STATE_DIR } from '../support/store.js';

const BLOCK = 4096;
const journal = (number: number) => `${STATE_DIR}/journal/${String(number).padStart(8, '0')}.log`;

const KINDS: Readonly<Record<string, (at: number) => number>> = {
  zeros: () => 0,
  'what erased flash holds': () => 0xff,
  noise: (at) => (at * 73 + (at >> 3) * 31 + 7) & 255,
};

async function spoil(
  disk: FaultyDisk,
  path: string,
  offset: number,
  kind: string,
  bytes = BLOCK,
): Promise<void> {
  const file = await disk.open(path, 'update');
  const octet = KINDS[kind] ?? (() => 0);
  await file.write(Buffer.from(Array.from({ length: bytes }, (_, at) => octet(at))), offset);
  await file.sync();
  await file.close();
}

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

function namesIn({ store }: Bench): string[] {
  const { messages } = store.list({ status: null, limit: 1000, after: null });
  return messages.map(({ destination }) => destination.replace(/@.*/, '')).sort();
}

async function isTold(t: Test, bench: Bench, disk: FaultyDisk, what: string): Promise<void> {
  t.ok(bench.store.storage().damaged > 0, `${what}: counted`);
  t.match(bench.lines.join(), /store damaged/, `${what}: told`);
  t.ok((await disk.list(`${STATE_DIR}/damaged`)).length > 0, `${what}: copied`);
}

for (const kind of Object.keys(KINDS)) {
  t.test(`${kind} at the head of the newest segment`, async (t) => {
    const disk = new FaultyDisk({ directories: ['/var/lib'] });
    const bench = await openOn(disk);
    for (const name of ['a', 'b', 'c']) await bench.store.accept([draftTo(name)], null);
    const next = await killed(bench, disk);
    await spoil(next, journal(1), 0, kind);
    const again = await openOn(next, 2);
    await isTold(t, again, next, kind);
    await again.store.accept([draftTo('d')], null);
    t.same(namesIn(await openOn(next.afterKill(), 3)), ['d'], 'it goes on');
  });

  t.test(`${kind} at the head, and records behind it`, async (t) => {
    const disk = new FaultyDisk({ directories: ['/var/lib'] });
    const bench = await openOn(disk);
    await bench.store.accept([draftTo('lost', BLOCK)], null);
    for (const name of ['a', 'b']) await bench.store.accept([draftTo(name)], null);
    const next = await killed(bench, disk);
    await spoil(next, journal(1), 0, kind);
    const again = await openOn(next, 2);
    await isTold(t, again, next, kind);
    t.same(namesIn(again), ['a', 'b'], 'what is behind the block is kept');
  });

  t.test(`${kind} over the last record`, async (t) => {
    const disk = new FaultyDisk({ directories: ['/var/lib'] });
    const bench = await openOn(disk);
    await bench.store.accept([draftTo('a', 3 * BLOCK)], null);
    const { ids } = await bench.store.accept([draftTo('last', 3 * BLOCK)], null);
    const at = bench.store.get(ids[0] as string)?.place?.offset ?? 0;
    const next = await killed(bench, disk);
    await spoil(next, journal(1), Math.ceil(at / BLOCK) * BLOCK, kind);
    const again = await openOn(next, 2);
    await isTold(t, again, next, kind);
    t.same(namesIn(again), ['a']);
  });

  t.test(`${kind} all over a needed segment`, async (t) => {
    const disk = new FaultyDisk({ directories: ['/var/lib'] });
    const first = await openOn(disk);
    await first.store.accept([draftTo('a')], null);
    const later = withoutSnapshots(await killed(first, disk));
    const second = await openOn(later, 2);
    await second.store.accept([draftTo('b')], null);
    const next = await killed(second, later);
    await spoil(next, journal(1), 0, kind, 2 * BLOCK);
    const again = await openOn(next, 3);
    await isTold(t, again, next, kind);
    t.same(namesIn(again), ['b']);
  });
}

t.test('a segment that is gone, the newest or one before', async (t) => {
  for (const gone of [1, 2]) {
    const disk = new FaultyDisk({ directories: ['/var/lib'] });
    const first = await openOn(disk);
    await first.store.accept([draftTo('a')], null);
    const later = withoutSnapshots(await killed(first, disk));
    const second = await openOn(later, 2);
    await second.store.accept([draftTo('b')], null);
    const next = await killed(second, later);
    for (const number of gone === 2 ? [2, 3] : [1]) await next.remove(journal(number));
    const again = await openOn(next, 3);
    await isTold(t, again, next, `segment ${gone}`);
    t.same(
      again.store
        .list({ status: 'failed', limit: 9, after: null })
        .messages.map(({ lastReply }) => lastReply),
      ['outcome unknown after storage damage'],
      'what is left may have been sent',
    );
    await again.store.accept([draftTo('c')], null);
    const after = await openOn(next.afterKill(), 4);
    t.notMatch(after.lines.join(), /store damaged/, 'and is not told twice');
  }
});

t.test('a copy is whole, wherever the power is cut while it is written', async (t) => {
  const disk = newDisk();
  const bench = await openOn(disk);
  for (const name of ['lost', 'a']) await bench.store.accept([draftTo(name, 2 * BLOCK)], null);
  const next = await killed(bench, disk);
  await spoil(next, journal(1), 0, 'what erased flash holds');
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
    await openOn(disk, 3);
    const copies = await disk.list(`${STATE_DIR}/damaged`);
    t.equal(copies.length, 1, what);
    for (const name of copies) {
      const bytes = await disk.readWhole(`${STATE_DIR}/damaged/${name}`);
      t.equal(hex8(crc32(bytes ?? Buffer.alloc(0))), name.slice(-8), `${what}: ${name}`);
    }
  }
});

t.test('no copy, no removal', async (t) => {
  const disk = new FaultyDisk({ directories: ['/var/lib'] });
  const bench = await openOn(disk);
  await bench.store.accept([draftTo('a')], null);
  const next = await killed(bench, disk);
  await spoil(next, journal(1), 0, 'noise');
  next.onOperation = (_n, { path }) => (path.includes('/damaged') ? 'error:ENOSPC' : 'ok');
  const again = await openOn(next, 2);
  t.match(again.lines.join(), /store damaged/);
  for (let i = 0; i < 40; i++) {
    const { ids } = await again.store.accept([draftTo(`big${i}`, 330_000)], null);
    await again.store.cancel(ids[0] as string);
  }
  await again.store.close();
  const names = await next.list(`${STATE_DIR}/journal`);
  t.ok(names.includes('00000001.log.damaged'), names.join());
});

t.test('a store that was never damaged is never told to be', async (t) => {
  let disk = new FaultyDisk({ directories: ['/var/lib'] });
  for (let seed = 1; seed < 8; seed++) {
    const bench = await openOn(disk, seed);
    t.notMatch(bench.lines.join(), /damaged/);
    for (let i = 0; i < 5; i++) await bench.store.accept([draftTo('a', 200_000)], null);
    if (seed % 2 === 0) await bench.store.close();
    disk = seed % 3 === 0 ? disk.afterPowerCut('random') : await killed(bench, disk);
  }
});

t.test('a snapshot of an unexpected shape, with a checksum that is right, is damage', async (t) => {
  const disk = new FaultyDisk({ directories: ['/var/lib'] });
  const bench = await openOn(disk);
  await bench.store.accept([draftTo('a')], null);
  await bench.store.close();
  const path = `${STATE_DIR}/store.json`;
  const whole = String(await disk.readWhole(path)).slice('{"crc":"xxxxxxxx",'.length);
  const other = Buffer.from(whole.replace('"boots":', '"shoes":'));
  await disk.remove(path);
  const file = await disk.open(path, 'create');
  await file.write(Buffer.concat([Buffer.from(`{"crc":"${hex8(crc32(other))}",`), other]), 0);
  await file.close();
  const again = await openOn(disk, 2);
  await isTold(t, again, disk, 'shape');
  await again.store.accept([draftTo('b')], null);
});
