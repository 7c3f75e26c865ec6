/** A file replaces another, on a disk that fails or loses power at every operation. */
import t from 'tap';
import { DurableFile, openLow, replace, writeNew } from '../src/base/durable-file.js';
import { FaultyDisk } from './support/faulty-disk.js';
import type { PowerCut } from './support/faulty-nodes.js';
import { onOpen } from './support/store.js';
import { systemError } from './support/system-error.js';

const PATH = '/dir/file';
const OLD = Buffer.alloc(3000, 'old');
const NEW = Buffer.alloc(4000, 'new');
const VARIANTS: readonly PowerCut[] = ['nothing', 'everything', 'random', 'random', 'torn-head', 'torn-tail'];

async function diskWithOld(): Promise<FaultyDisk> {
  const disk = new FaultyDisk({ directories: ['/dir'] });
  await replace(disk, PATH, OLD);
  return disk;
}

const contentOf = async (disk: FaultyDisk) => String(await disk.readWhole(PATH)).slice(0, 3);

t.test('whenever the power is cut, the old file or the new one is there, whole', async (t) => {
  const disk = await diskWithOld();
  const cuts: FaultyDisk[] = [];
  disk.onOperation = () => {
    cuts.push(...VARIANTS.map((variant) => disk.afterPowerCut(variant)));
    return 'ok';
  };
  await replace(disk, PATH, NEW);
  const seen = new Set<string>();
  for (const cut of cuts) {
    const bytes = await cut.readWhole(PATH);
    t.ok(bytes?.equals(OLD) || bytes?.equals(NEW));
    seen.add(await contentOf(cut));
    // A left-over part is in no one's way.
    await replace(cut, PATH, NEW);
    t.equal(await contentOf(cut.afterPowerCut('nothing')), 'new');
    t.same(await cut.list('/dir'), ['file']);
  }
  t.same([...seen].sort(), ['new', 'old']);
  t.equal(await contentOf(disk.afterPowerCut('nothing')), 'new', 'once it has resolved, the new one lasts');
});

t.test('a failed operation of the disk is reported, and no file is left beside', async (t) => {
  for (const fault of ['error:EIO', 'error-half:EIO'] as const) {
    for (let failing = 1; ; failing++) {
      const disk = await diskWithOld();
      let n = 0;
      disk.onOperation = () => (++n === failing ? fault : 'ok');
      const code = await replace(disk, PATH, NEW).then(
        () => null,
        (error) => error.code,
      );
      if (n < failing) break;
      t.equal(code, 'EIO');
      t.same(await disk.list('/dir'), ['file'], `operation ${failing}`);
      t.match(await contentOf(disk), /old|new/);
      t.equal(disk.handles, 0);
    }
  }
});

t.test('the first error is reported, not that of the close after it', async (t) => {
  const disk = await diskWithOld();
  onOpen(disk, /./, (file) => {
    const { close } = file;
    file.close = async () => {
      await close.call(file);
      throw systemError('EIO', 'EIO: close');
    };
  });
  disk.onOperation = (_n, { kind }) => (kind === 'write' ? 'error:ENOSPC' : 'ok');
  await t.rejects(replace(disk, PATH, NEW), { code: 'ENOSPC' });
  disk.onOperation = () => 'ok';
  await t.rejects(replace(disk, PATH, NEW), { code: 'EIO' }, 'and that of the close if it is the first');
  t.equal(await contentOf(disk), 'old');
});

t.test('a file in pieces', async (t) => {
  const disk = await diskWithOld();
  const pieces = ['a', 'bc', '', 'd'].map((text) => Buffer.from(text));
  await writeNew(disk, PATH, pieces);
  t.equal(String(await disk.readWhole(PATH)), 'abcd');
});

/** lowdb over `/dir/file` with the numbers of a list; `damage` gets what was told. */
function numbersOn(disk: FaultyDisk, damage: object[] = []) {
  const parse = (value: unknown) => (Array.isArray(value) ? (value as number[]) : null);
  const file = new DurableFile({ disk, path: PATH, parse, onDamage: (paths) => damage.push(paths) });
  return openLow<number[]>(file, []);
}

t.test(
  'lowdb over a durable file: the data before a write or behind it, whenever the power is cut',
  async (t) => {
    const disk = new FaultyDisk({ directories: ['/dir'] });
    const low = numbersOn(disk);
    await low.read();
    t.same(low.data, [], 'no file');
    await low.update((numbers) => numbers.push(1));
    t.equal(String(await disk.readWhole(PATH)), '4c2f32b8 [1]\n', 'the form that earlier programs read');
    const cuts: FaultyDisk[] = [];
    disk.onOperation = () => {
      cuts.push(...VARIANTS.map((variant) => disk.afterPowerCut(variant)));
      return 'ok';
    };
    await low.update((numbers) => numbers.push(2));
    const seen = new Set<string>();
    for (const cut of cuts) {
      const damage: object[] = [];
      const again = numbersOn(cut, damage);
      await again.read();
      t.same(damage, []);
      seen.add(String(again.data));
    }
    t.same([...seen].sort(), ['1', '1,2']);
    const last = numbersOn(disk.afterPowerCut('nothing'));
    await last.read();
    t.same(last.data, [1, 2]);
  },
);

t.test('a file with one wrong octet, or of another shape, is told and renamed', async (t) => {
  const whole = '4c2f32b8 [1]\n';
  const texts = [...whole.slice(0, -1)].map((_, at) => `${whole.slice(0, at)}?${whole.slice(at + 1)}`);
  for (const text of [...texts, '', 'a3a6bf43 {}\n']) {
    const disk = new FaultyDisk({ directories: ['/dir'] });
    await replace(disk, PATH, Buffer.from(text));
    const damage: object[] = [];
    const low = numbersOn(disk, damage);
    await low.read();
    t.same(low.data, []);
    t.same(damage, [{ path: PATH, copy: `${PATH}.damaged` }], text);
    t.same(await disk.list('/dir'), ['file.damaged']);
  }
});

t.test('a damaged file stays as it is if its owner throws', async (t) => {
  const disk = new FaultyDisk({ directories: ['/dir'] });
  await replace(disk, PATH, Buffer.from('?'));
  const onDamage = () => {
    throw new Error('damaged');
  };
  const file = new DurableFile({ disk, path: PATH, parse: () => null, onDamage });
  await t.rejects(file.read(), { message: 'damaged' });
  t.same(await disk.list('/dir'), ['file']);
});
