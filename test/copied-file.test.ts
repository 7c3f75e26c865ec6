/** Data in two files, on a disk that damages one, fails, or loses power at every operation. */
import t from 'tap';
import { CopiedFile } from '../src/base/copied-file.js';
import { replace } from '../src/base/durable-file.js';
import { FaultyDisk } from './support/faulty-disk.js';
import type { PowerCut } from './support/faulty-nodes.js';

const PATH = '/dir/file';
const VARIANTS: readonly PowerCut[] = ['nothing', 'everything', 'random', 'random', 'torn-head', 'torn-tail'];
const COPY = `${PATH}.1`;
/** What a file may be. `torn` and `shape` cannot be used; `unreadable` has a bad sector. */
const CONTENT = {
  whole: '4c2f32b8 [1]\n',
  other: '6702617b [2]\n',
  torn: '4c2f32b8 [1',
  shape: 'a3a6bf43 {}\n',
  empty: '',
  unreadable: '4c2f32b8 [1]\n',
  missing: null,
} as const;
type Found = keyof typeof CONTENT;
const ALL_FOUND = Object.keys(CONTENT) as readonly Found[];
const isWhole = (found: Found) => found === 'whole' || found === 'other';

async function diskWith(found: readonly [Found, Found]): Promise<FaultyDisk> {
  const disk = new FaultyDisk({ directories: ['/dir'] });
  for (const [n, path] of [PATH, COPY].entries()) {
    const text = CONTENT[found[n] as Found];
    if (text !== null) await replace(disk, path, Buffer.from(text));
  }
  const bad = [PATH, COPY].filter((_, n) => found[n] === 'unreadable');
  disk.onRead = (path) => (bad.includes(path) ? 'EIO' : null);
  return disk;
}

function copied(disk: FaultyDisk, damage: object[] = []) {
  const parse = (value: unknown) => (Array.isArray(value) ? (value as number[]) : null);
  const lost = (path: string) => new Error(`${path} is lost`);
  return new CopiedFile({ disk, path: PATH, parse, onDamage: (paths) => damage.push(paths), lost });
}

/** The data and the faults that a read finds, twice: the second one is that of the next start. */
async function readTwice(disk: FaultyDisk) {
  const damage: object[] = [];
  const read = () =>
    copied(disk, damage)
      .read()
      .catch((error) => error.message as string);
  const first = await read();
  const told = damage.splice(0);
  disk.onRead = () => null;
  return { first, told, second: await read(), toldAgain: damage };
}

t.test('a file with a copy: what is read of each pair of files, and that both are whole then', async (t) => {
  for (const file of ALL_FOUND)
    for (const copy of ALL_FOUND) {
      const disk = await diskWith([file, copy]);
      const before = await disk.list('/dir');
      const { first, told, second, toldAgain } = await readTwice(disk);
      const pair = `${file}, ${copy}`;
      const used = isWhole(file) ? file : copy;
      if (isWhole(used)) {
        t.same(first, used === 'other' ? [2] : [1], pair);
        t.same(second, first, pair);
        const other = used === file && isWhole(file) ? COPY : PATH;
        const state = other === COPY ? copy : file;
        const isBad = !isWhole(state) && state !== 'missing';
        const from = other === COPY ? PATH : COPY;
        t.same(told, isBad ? [{ path: other, copy: `${other}.damaged`, used: from }] : [], `${pair}: told`);
        t.same(toldAgain, [], `${pair}: told once`);
        t.same(await disk.readWhole(PATH), await disk.readWhole(COPY), `${pair}: both are the same then`);
        t.equal(await disk.look(`${other}.damaged`).then((found) => found !== null), isBad, pair);
      } else {
        const isUnreadable = [file, copy].includes('unreadable');
        const isNone = file === 'missing' && copy === 'missing';
        if (isNone) t.equal(first, null, pair);
        else t.match(first, isUnreadable ? /EIO/ : /is lost/, pair);
        t.same(told, []);
        if (!isUnreadable) t.same(await disk.list('/dir'), before, `${pair}: nothing was touched`);
      }
    }
});

t.test(
  'a write of both, cut at every operation: the data before it or behind it, nothing told',
  async (t) => {
    const disk = await diskWith(['whole', 'whole']);
    const cuts: FaultyDisk[] = [];
    disk.onOperation = () => {
      cuts.push(...VARIANTS.map((variant) => disk.afterPowerCut(variant)));
      return 'ok';
    };
    await copied(disk).write([2]);
    cuts.push(disk.afterPowerCut('nothing'));
    const seen = new Set<string>();
    for (const cut of cuts) {
      const found = await readTwice(cut);
      t.match(found, { told: [], second: found.first as object, toldAgain: [] });
      seen.add(String(found.first));
    }
    t.same([...seen].sort(), ['1', '2']);
    t.same(await copied(cuts.at(-1) as FaultyDisk).read(), [2], 'once it has resolved, it lasts');
  },
);

t.test('while one of the two is damaged, no cut and no refusing disk loses the other', async (t) => {
  for (const found of [
    ['torn', 'whole'],
    ['whole', 'torn'],
  ] as const)
    for (const fault of ['power-cut-before', 'power-cut-after', 'error:ENOSPC', 'error-half:EIO'] as const)
      for (let failing = 1, isOver = false; !isOver; failing++) {
        const disk = await diskWith(found);
        let n = 0;
        disk.onOperation = () => (++n === failing ? fault : 'ok');
        t.same(await copied(disk).read(), [1], `${found}, ${fault} at ${failing}`);
        isOver = n < failing;
        disk.onOperation = () => 'ok';
        for (const variant of VARIANTS)
          t.same(await copied(disk.afterPowerCut(variant)).read(), [1], `${found}, ${fault} at ${failing}`);
        if (!disk.dead) await copied(disk).write([2]);
      }
});
