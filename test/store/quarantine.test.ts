/** Strange files under the store's names do not stop a start. On the real file system. */
// A process of its own: it takes long.
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { writeNew } from '../../src/base/durable-file.js';
import { MIB } from '../../src/base/limits.js';
import { systemDisk } from '../../src/base/system/disk.js';
import type { Message } from '../../src/mail/message/message.js';
import { draftTo } from '../support/drafts.js';
import { FaultyDisk } from '../support/faulty-disk.js';
import { budgetOf } from '../support/spool.js';
import { type Bench, newDisk, openOn, passThrough, STATE_DIR } from '../support/store.js';
import { systemError } from '../support/system-error.js';

const STRANGE: Readonly<Record<string, (path: string) => void>> = {
  'a directory'(path) {
    mkdirSync(path);
    writeFileSync(join(path, 'inside'), 'text');
  },
  'a fifo': (path) => execFileSync('mkfifo', [path]),
  'a link that leads nowhere': (path) => symlinkSync('/nowhere/at/all', path),
  'a link to itself': (path) => symlinkSync(path, path),
  'a sparse file of 3 GiB'(path) {
    writeFileSync(path, '');
    truncateSync(path, 3 * 2 ** 30);
  },
};
const NAMES = [
  'store.json',
  'store.json.1',
  'store.json.new',
  'journal/00000009.log',
  'damaged/1-x',
  'spool/0123',
];
const DIRECTORIES = ['journal', 'spool', 'damaged'];

const openAt = (directory: string): Promise<Bench> =>
  openOn(systemDisk() as unknown as FaultyDisk, 1, { directory });

function namesIn({ store }: Bench): string[] {
  const { messages } = store.list({ status: 'queued', limit: 10, after: null });
  return messages.map(({ destination }: Message) => destination.replace(/@.*/, '')).sort();
}

/** A store that was killed with two messages in its journal, and has no snapshot. */
async function storeWithTwo(t: Test): Promise<string> {
  const directory = t.testdir();
  const { store } = await openAt(directory);
  await store.accept([draftTo('a')], null);
  await store.accept([draftTo('b')], null);
  return directory;
}

for (const [what, make] of Object.entries(STRANGE)) {
  t.test(`${what} in the place of any file`, async (t) => {
    for (const name of NAMES) {
      const directory = await storeWithTwo(t);
      mkdirSync(join(directory, 'damaged'), { recursive: true });
      rmSync(join(directory, name), { force: true });
      make(join(directory, name));
      const bench = await openAt(directory);
      t.same(namesIn(bench), ['a', 'b'], name);
      await bench.store.accept([draftTo('c')], null);
      await bench.store.close();
      const again = await openAt(directory);
      t.same(namesIn(again), ['a', 'b', 'c'], `${name}, and the start after that`);
      await again.store.close();
    }
  });
}

t.test('a file in the place of a directory', async (t) => {
  for (const name of DIRECTORIES) {
    const directory = t.testdir();
    writeFileSync(join(directory, name), 'text');
    const bench = await openAt(directory);
    await bench.store.accept([draftTo('a')], null);
    await bench.store.close();
    t.ok(readdirSync(directory).includes(`${name}.aside`), name);
    t.match(bench.lines.join(), new RegExp(`put aside name=${name} as=${name}.aside`));
  }
});

t.test('a link in the place of a directory is put aside, and nothing behind it is touched', async (t) => {
  for (const name of DIRECTORIES) {
    const directory = t.testdir({ elsewhere: { file: 'text', 'abc.log': '' }, state: {} });
    const state = join(directory, 'state');
    // Only `damaged` is put aside also if nobody else may write there.
    if (name !== 'damaged') chmodSync(join(directory, 'elsewhere'), name === 'spool' ? 0o777 : 0o775);
    symlinkSync(join(directory, 'elsewhere'), join(state, name));
    const bench = await openAt(state);
    await bench.store.accept([draftTo('a')], null);
    await bench.store.close();
    t.match(bench.lines.join(), `put aside name=${name} as=${name}.aside`);
    t.same(readdirSync(join(directory, 'elsewhere')), ['abc.log', 'file'], name);
    const again = await openAt(state);
    t.same(namesIn(again), ['a']);
    t.notMatch(again.lines.join(), 'put aside', 'once');
    await again.store.close();
  }
});

t.test('a link to files of the store is followed: messages need them', async (t) => {
  for (const name of ['journal', 'spool']) {
    const directory = await storeWithTwo(t);
    writeFileSync(join(directory, 'spool', '0123456789abcdef0123'), '');
    const moved = join(directory, 'moved');
    renameSync(join(directory, name), moved);
    symlinkSync(moved, join(directory, name));
    const bench = await openAt(directory);
    t.same(namesIn(bench), ['a', 'b'], name);
    t.match(bench.lines.join(), `<4>link followed name=${name}`);
    await bench.store.close();
  }
});

t.test('so is one to a directory of this user alone, even if it is empty', async (t) => {
  for (const name of ['journal', 'spool']) {
    const directory = t.testdir({ elsewhere: {}, state: {} });
    const [state, elsewhere] = [join(directory, 'state'), join(directory, 'elsewhere')];
    chmodSync(elsewhere, 0o755);
    symlinkSync(elsewhere, join(state, name));
    for (const id of ['a', 'b']) {
      const bench = await openAt(state);
      t.match(bench.lines.join(), `<4>link followed name=${name}`);
      t.notMatch(bench.lines.join(), 'put aside');
      await bench.store.accept([draftTo(id)], null);
      await bench.store.close();
    }
    t.equal(readdirSync(elsewhere).length > 0, name === 'journal');
  }
});

t.test('not one to a directory of another user, nor to nothing', async (t) => {
  const isRoot = process.getuid?.() === 0;
  const directory = t.testdir({ elsewhere: {}, state: {} });
  chmodSync(join(directory, 'elsewhere'), 0o755);
  if (isRoot) chownSync(join(directory, 'elsewhere'), 65_534, 65_534);
  const state = join(directory, 'state');
  symlinkSync(join(directory, isRoot ? 'elsewhere' : 'nowhere'), join(state, 'spool'));
  symlinkSync(join(directory, 'nowhere'), join(state, 'journal'));
  const bench = await openAt(state);
  for (const name of ['journal', 'spool'])
    t.match(bench.lines.join(), `put aside name=${name} as=${name}.aside`);
  await bench.store.close();
});

/** Lets every call on this name fail. */
function refuse(disk: FaultyDisk, name: string, code: string): void {
  const check = (...paths: string[]) => {
    if (paths.some((path) => path.endsWith(name))) throw systemError(code, `${code}: refused`);
  };
  const { look, open, rename } = disk;
  disk.look = async (path) => {
    check(path);
    return await look.call(disk, path);
  };
  disk.open = async (path, how) => {
    check(path);
    return await open.call(disk, path, how);
  };
  disk.rename = async (from, to) => {
    check(from, to);
    await rename.call(disk, from, to);
  };
}

t.test('an inode that the kernel refuses, which cannot be renamed either', async (t) => {
  for (const code of ['EUCLEAN', 'EBADMSG']) {
    for (const name of ['journal/00000009.log', 'damaged/1-x', 'store.json.1']) {
      const disk = new FaultyDisk({ directories: [`${STATE_DIR}/damaged`] });
      const before = await openOn(disk);
      await before.store.accept([draftTo('a')], null);
      await writeNew(disk, `${STATE_DIR}/${name}`, []);
      refuse(disk, name, code);
      const bench = await openOn(disk, 2);
      t.same(namesIn(bench), ['a'], `${name}: ${code}`);
      await bench.store.accept([draftTo('b')], null);
      if (!name.startsWith('damaged')) t.match(bench.lines.join(), /unusable name=/);
      t.same(namesIn(await openOn(disk, 3)), ['a', 'b'], 'and the next start');
    }
  }
});

t.test('a snapshot that the kernel refuses, from a start on or while the daemon runs', async (t) => {
  for (const name of ['store.json', 'store.json.1', 'store.json.new']) {
    for (const since of ['start', 'checkpoint']) {
      const what = `${name}, since the ${since}`;
      const disk = newDisk();
      const before = await openOn(disk);
      await before.store.accept([draftTo('a')], null);
      await passThrough(before.store, 30);
      if (since === 'start') {
        await before.store.close();
        if (!(await disk.look(`${STATE_DIR}/${name}`))) await writeNew(disk, `${STATE_DIR}/${name}`, []);
      }
      const whole = { look: disk.look, open: disk.open, rename: disk.rename };
      refuse(disk, `/${name}`, 'EUCLEAN');
      const bench = since === 'start' ? await openOn(disk, 2) : before;
      await passThrough(bench.store, 60);
      await bench.store.accept([draftTo('b')], null);
      t.same(bench.store.storage().unusable, [name], `${what}: the state says so`);
      const segments = await disk.list(`${STATE_DIR}/journal`);
      t.ok(segments.length <= 8, `${what}: checkpoints go on, ${segments.length} segments`);
      const failed = bench.lines.filter((line) => line.includes('checkpoint failed'));
      t.ok(failed.length <= (since === 'start' ? 0 : 1), `${what}: ${failed}`);
      t.match(bench.lines.join(), new RegExp(`unusable name=${name.replaceAll('.', '\\.')} `), what);
      await bench.store.purge(false);
      await bench.clock.advance(1000);

      const again = await openOn(disk, 3);
      t.same(namesIn(again), ['a', 'b'], `${what}: and the next start`);
      await again.store.accept([draftTo('c')], null);
      await passThrough(again.store, 10);
      await again.clock.advance(1000);
      // The file system was repaired: the snapshot from before is there again.
      Object.assign(disk, whole);
      const last = await openOn(disk, 4);
      t.same(namesIn(last), ['a', 'b', 'c'], `${what}: repaired`);
      t.notMatch(last.lines.join(), /store damaged/, `${what}: and not taken for damage`);
      await passThrough(last.store, 10);
      await last.store.close();
      const end = await openOn(disk, 5);
      t.same(namesIn(end), ['a', 'b', 'c'], `${what}: and goes on`);
    }
  }
});

t.test('copies have a budget of their own, and the oldest go', async (t) => {
  const disk = new FaultyDisk({ directories: [`${STATE_DIR}/damaged`] });
  for (const name of ['10-c', '9-b', 'store.json.0123abcd'])
    await writeNew(disk, `${STATE_DIR}/damaged/${name}`, [Buffer.alloc(MIB / 2, 1)]);
  const { store } = await openOn(disk, 1, budgetOf({ maxSpoolBytes: 4 * MIB }));
  t.same(await disk.list(`${STATE_DIR}/damaged`), ['10-c', '9-b'], 'a quarter of the budget, the newest');
  t.equal(store.counts().bytes, 0, 'they count against no message');
  await store.accept([draftTo('a', 700_000)], null);
});
