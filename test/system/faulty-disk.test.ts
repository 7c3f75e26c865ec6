/** The faulty disk, against which the store's promises are tested: here scenes made by hand show that it behaves as its header says. */
import t from 'tap';
import type { DiskFile } from '../../src/base/system/disk.js';
import { diskBehaviour } from '../support/disk-behaviour.js';
import { type Fault, FaultyDisk, type Operation } from '../support/faulty-disk.js';
import type { PowerCut } from '../support/faulty-nodes.js';
import { seededRandom, testSeed } from '../support/random.js';

const seed = testSeed();
t.comment(`FIELDPOST_TEST_SEED=${seed}`);
const freshDisk = (own = seed) => new FaultyDisk({ random: seededRandom(own), directories: ['/d'] });

const SECTOR = 512;
const textOf = async (disk: FaultyDisk, path: string) => (await disk.readWhole(path))?.toString() ?? null;
const sectors = (letters: string) =>
  Buffer.concat([...letters].map((letter) => Buffer.alloc(SECTOR, letter === '0' ? 0 : letter)));
const lettersOf = (bytes: Buffer | null) =>
  bytes === null
    ? null
    : Array.from({ length: Math.ceil(bytes.length / SECTOR) }, (_, at) => {
        const sector = bytes.subarray(at * SECTOR, (at + 1) * SECTOR);
        const first = sector[0] ?? 0;
        return sector.every((byte) => byte === first)
          ? first === 0
            ? '0'
            : String.fromCharCode(first)
          : '?';
      }).join('');

/** A file whose name and content are certain. */
async function certainFile(disk: FaultyDisk, path: string, bytes: Buffer | string): Promise<DiskFile> {
  const file = await disk.open(path, 'create');
  await file.write(Buffer.from(bytes), 0);
  await file.sync();
  await disk.syncDirectory('/d');
  return file;
}

/** Everything that `look` finds after many random power cuts, sorted. */
async function outcomes(disk: FaultyDisk, look: (disk: FaultyDisk) => Promise<unknown>): Promise<string[]> {
  const found = new Set<string>();
  for (let round = 0; round < 400; round++) {
    found.add(JSON.stringify(await look(disk.afterPowerCut('random', seededRandom(seed + round)))));
  }
  return [...found].sort();
}

t.test('without faults the faulty disk behaves as a disk does', (t) =>
  diskBehaviour(t, async () => ({ disk: freshDisk(), directory: '/d' })),
);

t.test('content needs a sync of its file, a name a sync of its directory', async (t) => {
  const disk = freshDisk();
  const file = await disk.open('/d/a', 'create');
  await file.write(Buffer.from('one'), 0);
  await file.sync();
  t.equal(await textOf(disk.afterPowerCut('nothing'), '/d/a'), null, 'no name without the directory');
  t.equal(await textOf(disk.afterPowerCut('everything'), '/d/a'), 'one');

  const other = freshDisk();
  const empty = await other.open('/d/a', 'create');
  await empty.write(Buffer.from('one'), 0);
  await other.syncDirectory('/d');
  t.equal(await textOf(other.afterPowerCut('nothing'), '/d/a'), '', 'a name without content');
  await empty.sync();
  t.equal(await textOf(other.afterPowerCut('nothing'), '/d/a'), 'one', 'both');
});

t.test('a directory needs the one above synced', async (t) => {
  const disk = freshDisk();
  await disk.makeDirectory('/d/x/y');
  await disk.syncDirectory('/d/x');
  t.same(await disk.afterPowerCut('nothing').list('/d'), []);
  await disk.syncDirectory('/d');
  t.same(await disk.afterPowerCut('nothing').list('/d/x'), ['y']);
});

t.test('an overwrite may be there sector by sector, old or new, never mixed', async (t) => {
  const disk = freshDisk();
  const file = await certainFile(disk, '/d/a', sectors('aaa'));
  await file.write(sectors('bbb'), 0);
  const found = await outcomes(disk, async (after) => lettersOf(await after.readWhole('/d/a')));
  const every = ['aaa', 'aab', 'aba', 'abb', 'baa', 'bab', 'bba', 'bbb'].map((one) => JSON.stringify(one));
  t.same(found, every);
  t.equal(lettersOf(await disk.afterPowerCut('nothing').readWhole('/d/a')), 'aaa');
  t.equal(lettersOf(await disk.afterPowerCut('everything').readWhole('/d/a')), 'bbb');
});

t.test('a sector written twice may hold the version between', async (t) => {
  const disk = freshDisk();
  const file = await certainFile(disk, '/d/a', sectors('a'));
  await file.write(sectors('b'), 0);
  await file.write(sectors('c'), 0);
  const found = await outcomes(disk, async (after) => lettersOf(await after.readWhole('/d/a')));
  t.same(found, ['"a"', '"b"', '"c"']);
});

t.test('a file that grew may have grown less, with zeros where sectors are missing', async (t) => {
  const disk = freshDisk();
  const file = await certainFile(disk, '/d/a', sectors('a'));
  await file.write(sectors('bb'), SECTOR);
  const lengths = new Set<number>();
  const shapes = new Set<string | null>();
  for (let round = 0; round < 400; round++) {
    const bytes = await disk.afterPowerCut('random', seededRandom(seed + round)).readWhole('/d/a');
    lengths.add(bytes?.length ?? -1);
    shapes.add(lettersOf(bytes));
  }
  t.same([...shapes].sort(), ['a', 'a0', 'a00', 'a0b', 'ab', 'ab0', 'abb']);
  t.ok(Math.min(...lengths) === SECTOR && Math.max(...lengths) === 3 * SECTOR && lengths.size > 10);
  const gaps = await outcomes(disk, async (after) => {
    const again = await after.open('/d/a', 'update');
    const end = await again.size();
    await again.write(Buffer.from('e'), 4 * SECTOR);
    return (await again.read(end, 4 * SECTOR - end)).every((byte) => byte === 0);
  });
  t.same(gaps, ['true'], 'beyond the shorter length nothing of the write comes back');
  await file.sync();
  t.equal(lettersOf(await disk.afterPowerCut('nothing').readWhole('/d/a')), 'abb', 'synced, its length too');
});

t.test('the torn variants tear the last write alone', async (t) => {
  const disk = freshDisk();
  const file = await certainFile(disk, '/d/a', sectors('aaaaaa'));
  await file.write(sectors('bb'), 0);
  await file.write(sectors('cccc'), 2 * SECTOR);
  t.equal(lettersOf(await disk.afterPowerCut('torn-head').readWhole('/d/a')), 'bbccaa');
  t.equal(lettersOf(await disk.afterPowerCut('torn-tail').readWhole('/d/a')), 'bbaacc');
  const next = disk.afterKill();
  t.equal(lettersOf(await next.afterPowerCut('torn-head').readWhole('/d/a')), 'bbccaa', 'after a kill too');
  const grown = await next.open('/d/b', 'create');
  await grown.write(sectors('dd'), 0);
  t.equal(lettersOf(await next.afterPowerCut('torn-head').readWhole('/d/b')), 'd');
  t.equal(lettersOf(await next.afterPowerCut('torn-tail').readWhole('/d/b')), '0d');
});

t.test('a sync covers what was done before the call, and that file or directory only', async (t) => {
  for (let own = seed; own < seed + 20; own++) {
    const disk = freshDisk(own);
    const a = await certainFile(disk, '/d/a', sectors('aa'));
    const b = await certainFile(disk, '/d/b', sectors('a'));
    const content = async (kind: 'nothing' | 'everything', path: string) =>
      lettersOf(await disk.afterPowerCut(kind).readWhole(path));
    await a.write(sectors('b'), 0);
    await b.write(sectors('b'), 0);
    await Promise.all([a.sync(), a.write(sectors('c'), SECTOR)]);
    t.equal(await content('nothing', '/d/a'), 'ba');
    t.equal(await content('nothing', '/d/b'), 'a');
    t.equal(await content('everything', '/d/a'), 'bc');
    await a.sync();
    t.equal(await content('nothing', '/d/a'), 'bc', 'the next sync covers the rest');
    await Promise.all([disk.syncDirectory('/d'), disk.remove('/d/b')]);
    t.same(await disk.afterPowerCut('nothing').list('/d'), ['a', 'b'], 'so it is with names');
    t.same(await disk.afterPowerCut('everything').list('/d'), ['a']);
  }
});

t.test('a durable write makes its own sectors certain, and no others', async (t) => {
  const disk = freshDisk();
  const file = await certainFile(disk, '/d/a', sectors('aaaa'));
  const durable = await disk.open('/d/a', 'durable');
  await file.write(sectors('bbb'), 0);
  await durable.write(sectors('c'), SECTOR);
  const after = async (kind: PowerCut) => lettersOf(await disk.afterPowerCut(kind).readWhole('/d/a'));
  t.equal(await after('nothing'), 'acaa', 'what was written before may be lost');
  t.equal(await after('everything'), 'bcba', 'and no earlier write brings the old sector back');
  await file.write(sectors('d'), SECTOR);
  t.equal(await after('nothing'), 'acaa');
  t.equal(await after('everything'), 'bdba');
  await file.sync();
  t.equal(await after('nothing'), 'bdba');
});

t.test('a durable write is torn before its end, and may fail in each way', async (t) => {
  const kept = async (fault: Fault, kind: Operation['kind'], cut: PowerCut = 'everything') => {
    const disk = freshDisk();
    await certainFile(disk, '/d/a', sectors('aa'));
    const durable = await disk.open('/d/a', 'durable');
    disk.onOperation = (_, operation) => (operation.kind === kind ? fault : 'ok');
    await t.rejects(durable.write(sectors('bb'), 0));
    return lettersOf(await disk.afterPowerCut(cut).readWhole('/d/a'));
  };
  t.equal(await kept('power-cut-before', 'write'), 'aa');
  t.equal(await kept('power-cut-before', 'sync', 'nothing'), 'aa');
  t.equal(await kept('power-cut-before', 'sync', 'torn-head'), 'ba');
  t.equal(await kept('power-cut-after', 'sync', 'nothing'), 'bb');
  t.equal(await kept('error:EIO', 'write'), 'aa');
  t.equal(await kept('error:EIO', 'sync'), 'aa', 'lost');
  t.equal(await kept('error-after:EIO', 'sync', 'nothing'), 'bb');
});

t.test('a failed sync loses: readable now, gone after the cut, not brought back by another', async (t) => {
  const disk = freshDisk();
  const file = await certainFile(disk, '/d/a', sectors('aaaa'));
  await file.write(sectors('bb'), 0);
  disk.onOperation = (_, { kind }) => (kind === 'sync' ? 'error:EIO' : 'ok');
  await t.rejects(file.sync(), { code: 'EIO' });
  disk.onOperation = () => 'ok';
  await file.sync();
  await file.write(sectors('c'), 3 * SECTOR);
  await file.sync();
  t.equal(lettersOf(await disk.readWhole('/d/a')), 'bbac', 'the running system reads it');
  for (const kind of ['nothing', 'everything', 'random'] as const) {
    t.equal(lettersOf(await disk.afterPowerCut(kind).readWhole('/d/a')), 'aaac', kind);
  }
  const next = disk.afterKill();
  t.equal(lettersOf(await next.readWhole('/d/a')), 'bbac', 'so does the next process');
  t.equal(
    lettersOf(await next.afterPowerCut('everything').readWhole('/d/a')),
    'aaac',
    'until the power fails',
  );

  const grown = await next.open('/d/a', 'update');
  await grown.write(sectors('dd'), 4 * SECTOR);
  next.onOperation = () => 'error:EIO';
  await t.rejects(grown.sync(), { code: 'EIO' });
  next.onOperation = () => 'ok';
  await grown.write(sectors('e'), 0);
  await grown.sync();
  t.equal(
    lettersOf(await next.afterPowerCut('nothing').readWhole('/d/a')),
    'eaac',
    'nor does it keep the length',
  );
});

t.test('a sync may fail halfway, or after its work', async (t) => {
  const kept = async (fault: 'error-half:EIO' | 'error-after:EIO', own: number) => {
    const disk = freshDisk(own);
    const file = await certainFile(disk, '/d/a', sectors('aa'));
    await file.write(sectors('bb'), 0);
    disk.onOperation = () => fault;
    await t.rejects(file.sync(), { code: 'EIO' });
    return lettersOf(await disk.afterPowerCut('nothing').readWhole('/d/a'));
  };
  t.equal(await kept('error-after:EIO', seed), 'bb');
  const halves = new Set<string | null>();
  for (let round = 0; round < 60; round++) halves.add(await kept('error-half:EIO', seed + round));
  t.same([...halves].sort(), ['aa', 'ab', 'ba', 'bb']);
});

t.test('a failed write leaves nothing, half or all of itself', async (t) => {
  for (const [fault, expected] of [
    ['error:EIO', 'aa'],
    ['error-half:EIO', 'ba'],
    ['error-after:EIO', 'bb'],
  ] as const) {
    const disk = freshDisk();
    const file = await certainFile(disk, '/d/a', sectors('aa'));
    disk.onOperation = () => fault;
    await t.rejects(file.write(sectors('bb'), 0), { code: 'EIO' });
    t.equal(lettersOf(await disk.readWhole('/d/a')), expected, fault);
  }
});

t.test('an unsynced rename is wholly there or not at all', async (t) => {
  const disk = freshDisk();
  await certainFile(disk, '/d/a', 'new');
  await certainFile(disk, '/d/b', 'old');
  await disk.rename('/d/a', '/d/b');
  const look = async (after: FaultyDisk) => [await textOf(after, '/d/a'), await textOf(after, '/d/b')];
  t.same(await outcomes(disk, look), ['["new","old"]', '[null,"new"]']);
  t.same(await look(disk.afterPowerCut('nothing')), ['new', 'old']);
  await disk.syncDirectory('/d');
  t.same(await look(disk.afterPowerCut('nothing')), [null, 'new']);
});

t.test('renames of different names are independent, those of one name keep their order', async (t) => {
  const disk = freshDisk();
  await certainFile(disk, '/d/a', 'A');
  await certainFile(disk, '/d/b', 'B');
  await disk.rename('/d/a', '/d/a1');
  await disk.rename('/d/b', '/d/b1');
  const names = (after: FaultyDisk) => after.list('/d');
  t.same(await outcomes(disk, names), ['["a","b"]', '["a","b1"]', '["a1","b"]', '["a1","b1"]']);
  await disk.rename('/d/a1', '/d/a2');
  t.same(await outcomes(disk, names), [
    '["a","b"]',
    '["a","b1"]',
    '["a1","b"]',
    '["a1","b1"]',
    '["a2","b"]',
    '["a2","b1"]',
  ]);
});

t.test(
  'the checkpoint done wrong: a rename before the content was synced leaves an empty file',
  async (t) => {
    const disk = freshDisk();
    await certainFile(disk, '/d/store', 'old');
    const file = await disk.open('/d/store.tmp', 'create');
    await file.write(Buffer.from('new'), 0);
    await disk.rename('/d/store.tmp', '/d/store');
    await disk.syncDirectory('/d');
    t.equal(await textOf(disk.afterPowerCut('nothing'), '/d/store'), '');
  },
);

t.test('a removed file may come back', async (t) => {
  const disk = freshDisk();
  await certainFile(disk, '/d/a', 'one');
  await disk.remove('/d/a');
  t.same(await outcomes(disk, (after) => after.list('/d')), ['["a"]', '[]']);
  await disk.syncDirectory('/d');
  t.same(await outcomes(disk, (after) => after.list('/d')), ['[]']);
});

t.test('a failed sync of a directory loses its names', async (t) => {
  const disk = freshDisk();
  await (await disk.open('/d/a', 'create')).close();
  disk.onOperation = () => 'error:EIO';
  await t.rejects(disk.syncDirectory('/d'), { code: 'EIO' });
  disk.onOperation = () => 'ok';
  await (await disk.open('/d/b', 'create')).close();
  await disk.syncDirectory('/d');
  t.same(await disk.list('/d'), ['a', 'b']);
  t.same(await disk.afterPowerCut('everything').list('/d'), ['b']);
});

t.test('operations are counted and told; faults land where they are planted', async (t) => {
  const disk = freshDisk();
  const told: Operation[] = [];
  disk.onOperation = (n, operation) => {
    t.equal(n, told.push(operation));
    return 'ok';
  };
  const file = await disk.open('/d/a', 'create');
  await file.write(Buffer.from('one'), 0);
  await file.sync();
  await disk.syncDirectory('/d');
  await disk.rename('/d/a', '/d/b');
  await disk.remove('/d/b');
  await disk.remove('/d/b');
  await disk.makeDirectory('/d');
  await disk.makeDirectory('/d/x');
  await disk.list('/d');
  t.same(
    told.map(({ kind, path }) => `${kind} ${path}`),
    [
      'create /d/a',
      'write /d/a',
      'sync /d/a',
      'syncDirectory /d',
      'rename /d/b',
      'remove /d/b',
      'makeDirectory /d/x',
    ],
    'what changes nothing is no operation',
  );
  t.equal(disk.operations, 7);
  disk.onOperation = () => 'error:ENOSPC';
  await t.rejects(disk.open('/d/c', 'create'), { code: 'ENOSPC' });
  t.same(await disk.list('/d'), ['x']);
});

t.test('a dead machine answers no call', async (t) => {
  for (const [fault, expected] of [
    ['power-cut-before', 'a'],
    ['power-cut-after', 'b'],
  ] as const) {
    const disk = freshDisk();
    const file = await certainFile(disk, '/d/a', sectors('a'));
    await file.write(sectors('b'), 0);
    disk.onOperation = () => fault;
    await t.rejects(file.sync(), { code: 'POWERCUT' });
    t.ok(disk.dead);
    await t.rejects(file.read(0, 1), { code: 'POWERCUT' });
    await t.rejects(file.close(), { code: 'POWERCUT' });
    await t.rejects(disk.readWhole('/d/a'), { code: 'POWERCUT' });
    await t.rejects(disk.remove('/d/a'), { code: 'POWERCUT' });
    await t.rejects(disk.makeDirectory('/d'), { code: 'POWERCUT' });
    t.equal(lettersOf(await disk.afterPowerCut('nothing').readWhole('/d/a')), expected, fault);
  }
  const disk = freshDisk();
  const underWay = disk.open('/d/a', 'create');
  disk.cutPower();
  await t.rejects(underWay, { code: 'POWERCUT' }, 'calls under way included');
});

t.test("reading a power cut's result changes nothing on the disk, and the reverse", async (t) => {
  const disk = freshDisk();
  const file = await certainFile(disk, '/d/a', sectors('aa'));
  await file.write(sectors('b'), 0);
  const after = disk.afterPowerCut('everything');
  await (await after.open('/d/a', 'update')).write(sectors('x'), 0);
  await after.remove('/d/a');
  t.equal(lettersOf(await disk.readWhole('/d/a')), 'ba');
  await file.write(sectors('c'), SECTOR);
  t.equal(lettersOf(await disk.afterPowerCut('everything').readWhole('/d/a')), 'bc');
  const next = disk.afterKill();
  t.equal(lettersOf(await next.readWhole('/d/a')), 'bc', 'a killed process loses nothing it wrote');
  t.equal(
    lettersOf(await next.afterPowerCut('nothing').readWhole('/d/a')),
    'aa',
    'which is no more certain for it',
  );
  const known = await next.open('/d/a', 'update');
  await known.sync();
  t.equal(
    lettersOf(await next.afterPowerCut('nothing').readWhole('/d/a')),
    'bc',
    'until the next process syncs',
  );
  await t.rejects(disk.list('/d'), { code: 'POWERCUT' }, 'the killed one does nothing more');
});

t.test('a full disk: what fits is written, then ENOSPC; removing gives room', async (t) => {
  const disk = freshDisk();
  disk.capacityBytes = 3 * 4096;
  disk.capacityInodes = 3;
  const a = await disk.open('/d/a', 'create');
  await a.write(Buffer.alloc(4097, 'a'), 0);
  t.same(await disk.space('/d'), { freeBytes: 4096, sizeBytes: 12288, freeInodes: 1 });
  await t.rejects(a.write(Buffer.alloc(8192, 'b'), 4097), { code: 'ENOSPC' });
  t.equal(await a.size(), 12288, 'what fits');
  await a.write(Buffer.alloc(12288, 'c'), 0);
  const b = await disk.open('/d/b', 'create');
  await t.rejects(b.write(Buffer.from('b'), 0), { code: 'ENOSPC' });
  t.equal(await b.size(), 0, 'a file without content');
  await t.rejects(disk.open('/d/c', 'create'), { code: 'ENOSPC' });
  t.same(await disk.list('/d'), ['a', 'b'], 'without an inode there is no file');
  await disk.remove('/d/a');
  t.equal((await disk.space('/d')).freeBytes, 0, 'a removed file takes room while it is open');
  await a.close();
  t.same(await disk.space('/d'), { freeBytes: 12288, sizeBytes: 12288, freeInodes: 1 });
  await b.write(Buffer.from('b'), 0);
});

t.test('parallel calls end in any order, the same for the same seed', async (t) => {
  const run = async (own: number) => {
    const disk = freshDisk(own);
    const order: number[] = [];
    const create = async (n: number) => {
      await disk.open(`/d/${n}`, 'create');
      order.push(n);
    };
    await Promise.all([0, 1, 2, 3].map(create));
    return order.join('');
  };
  const orders = new Set<string>();
  for (let round = 0; round < 50; round++) {
    const first = await run(seed + round);
    orders.add(first);
    t.equal(await run(seed + round), first);
  }
  t.ok(orders.size > 5);
});
