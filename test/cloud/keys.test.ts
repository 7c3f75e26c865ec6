/** The keys that the operator makes: also on a full disk, and with the process killed or the power cut at every write. */
import t from 'tap';
import { replace } from '../../src/base/durable-file.js';
import { digest } from '../../src/base/http/access.js';
import { FileKeys } from '../../src/cloud/files/keys.js';
import { durable } from '../support/durable.js';
import { FaultyDisk } from '../support/faulty-disk.js';
import { drawn } from '../support/system.js';

const DIRECTORY = '/var/lib';
const PATH = `${DIRECTORY}/keys.json`;
const ID = 'pump-3';
// All keys of a test are different, also after a restart.
const { randomBytes } = drawn(1);

function newDisk(): FaultyDisk {
  return new FaultyDisk({ directories: [DIRECTORY] });
}

/** `told` gets the errors that are logged. */
const open = (disk: FaultyDisk, told: unknown[] = []) =>
  FileKeys.open({
    ...{ disk, directory: DIRECTORY, randomBytes },
    log: { error: (event, fields) => told.push([event, fields]) },
  });
const opens = (keys: FileKeys, key: string, id = ID) => keys.opens(id, digest(key));

/** Rejects with the power cut, too. */
const failing = (work: Promise<unknown>) => work.then(() => false).catch(() => true);

t.test('the file has the digest of a key, and not the key', async (t) => {
  const disk = newDisk();
  const key = await (await open(disk)).make(ID);
  t.match(key, /^[\w-]{43}$/, '256 bits');
  const text = String(await disk.readWhole(PATH));
  t.notOk(text.includes(key));
  t.match(text, digest(key).toString('base64url'));
});

t.test('a removal removes both keys; without any it writes nothing', async (t) => {
  const disk = newDisk();
  const keys = await open(disk);
  const before = disk.operations;
  await keys.remove(ID);
  t.equal(disk.operations, before);
  const all = [await keys.make(ID), await keys.make(ID)];
  await keys.remove(ID);
  for (const each of [keys, await open(disk.afterPowerCut('nothing'))]) {
    t.notOk(each.has(ID) || all.some((key) => opens(each, key)));
  }
  const [late] = await Promise.all([keys.make(ID), keys.remove(ID)]);
  t.notOk(opens(keys, late), 'a removal during the write of a key removes it, too');
  t.notOk((await open(disk)).has(ID));
});

t.test('calls at the same time share a write, and each key opens', async (t) => {
  const disk = newDisk();
  const keys = await open(disk);
  const before = disk.operations;
  await keys.make('one');
  const perWrite = disk.operations - before;
  const ids = Array.from({ length: 100 }, (_, n) => `pump-${n}`);
  const made = await Promise.all(ids.map((id) => keys.make(id)));
  t.ok(disk.operations - before <= 3 * perWrite, `${disk.operations - before} operations`);
  const again = await open(disk);
  for (const [n, id] of ids.entries()) t.ok(opens(again, made[n] as string, id));
  // A call that begins as soon as another one is done.
  await keys.make(ID).then(() => keys.make(ID));
});

t.test('a key that is first used during a write stays', async (t) => {
  const disk = newDisk();
  const keys = await open(disk);
  const first = await keys.make(ID);
  const second = await keys.make(ID);
  const other = keys.make('pump-4');
  t.ok(opens(keys, second));
  await other;
  t.ok(opens(keys, second));
  t.notOk(opens(keys, first));
  await keys.stop();
  const again = await open(disk);
  t.notOk(opens(again, first));
  t.ok(opens(again, second));
});

t.test('on a full disk no key is made, the keys from before open, and later it works again', async (t) => {
  const disk = newDisk();
  const keys = await open(disk);
  const first = await keys.make(ID);
  disk.onOperation = (_n, { kind }) => (kind === 'write' ? 'error:ENOSPC' : 'ok');
  await t.rejects(keys.make(ID), { code: 'storage-failed', message: /the disk is full/ });
  await t.rejects(keys.make('pump-4'), { code: 'storage-failed' });
  await t.rejects(keys.remove(ID), { code: 'storage-failed' });
  t.strictSame([...keys.ids], [ID]);
  t.ok(opens(keys, first));
  disk.onOperation = (_n, { kind }) => (kind === 'create' ? 'error:EMFILE' : 'ok');
  await t.rejects(keys.make(ID), { code: 'busy' });
  disk.onOperation = () => 'ok';
  const second = await keys.make(ID);
  disk.onOperation = () => 'error:EIO';
  t.ok(opens(keys, second), 'the use of a new key waits for no disk');
  await keys.stop();
  t.notOk(opens(keys, first));
});

t.test(
  'killed or cut off at every operation: an answered key opens, the earlier one locks nobody out',
  async (t) => {
    for (const cut of ['before', 'after'] as const) {
      let isOver = false;
      for (let at = 1; !isOver; at++) {
        const disk = newDisk();
        const keys = await open(disk);
        const first = await keys.make(ID);
        const from = disk.operations;
        disk.onOperation = (n) => (n === from + at ? `power-cut-${cut}` : 'ok');
        let second: string | null = null;
        let isRemoved = false;
        const died = await failing(
          (async () => {
            second = await keys.make(ID);
            await keys.make('pump-4');
            await keys.remove('pump-4');
            isRemoved = true;
          })(),
        );
        isOver = !died;
        for (const lost of ['nothing', 'everything'] as const) {
          const again = await open(disk.afterPowerCut(lost));
          t.ok(opens(again, first), `${cut} ${at} ${lost}: the earlier key`);
          if (isRemoved) t.notOk(again.has('pump-4'));
          if (second !== null) t.ok(opens(again, second), `${cut} ${at} ${lost}: the answered key`);
        }
        t.ok(at < 100);
      }
    }
  },
);

const COPY = `${PATH}.1`;

t.test('a damaged file costs no key: it is told once, and its copy is used', async (t) => {
  for (const path of [PATH, COPY]) {
    const disk = newDisk();
    const keys = await open(disk);
    const [first, second, gone] = [await keys.make(ID), await keys.make('pump-4'), await keys.make('pump-5')];
    await keys.remove('pump-5');
    const good = String(await disk.readWhole(path));
    t.equal(String(await disk.readWhole(path === PATH ? COPY : PATH)), good);
    for (let at = 0; at < good.length; at += 7) {
      await replace(disk, path, Buffer.from(`${good.slice(0, at)}?${good.slice(at + 1)}`));
      const told: unknown[] = [];
      for (const start of ['first', 'second']) {
        const again = await open(disk, told);
        t.ok(opens(again, first) && opens(again, second, 'pump-4'), `${path} at ${at}, ${start} start`);
        t.notOk(again.has('pump-5') || opens(again, gone, 'pump-5'), 'a removed key stays removed');
      }
      const used = path === PATH ? COPY : PATH;
      t.strictSame(told, [['cloud file damaged', { path, copy: `${path}.damaged`, used }]]);
    }
  }
});

t.test(
  'without a whole file no start succeeds, and both stay: without keys it would refuse all devices',
  async (t) => {
    const disk = newDisk();
    const key = await (await open(disk)).make(ID);
    const good = await disk.readWhole(PATH);
    const message = /\/var\/lib\/keys\.json .*damaged.* copy/;
    const bad = { code: 'storage-damaged', message, hint: /backup.*keys\.json and .*keys\.json\.1/ };
    const files = () => disk.list(DIRECTORY);
    for (const value of [{ [ID]: null }, { [ID]: { key: 7 } }]) {
      for (const path of [PATH, COPY]) await durable(disk, path).write(value);
      await t.rejects(open(disk), bad, 'a good checksum and no keys');
    }
    for (const path of [PATH, COPY])
      await replace(disk, path, Buffer.from(`xxxxxxxx${String(good).slice(8)}`));
    for (const start of ['first', 'second']) await t.rejects(open(disk), bad, start);
    t.strictSame(await files(), ['keys.json', 'keys.json.1']);
    for (const [one, other] of [
      [PATH, COPY],
      [COPY, PATH],
    ] as const) {
      const alone = disk.afterPowerCut('nothing');
      await alone.remove(other);
      await t.rejects(open(alone), bad, `${one} alone`);
    }
    await replace(disk, PATH, good ?? Buffer.alloc(0));
    t.ok(opens(await open(disk), key), 'a backup of it was put back');
    t.same(await disk.readWhole(COPY), good);
  },
);

t.test('a full disk does not keep the cloud from starting with the copy', async (t) => {
  const disk = newDisk();
  const key = await (await open(disk)).make(ID);
  await replace(disk, PATH, Buffer.from('?'));
  disk.onOperation = (_n, { kind }) => (kind === 'write' ? 'error:ENOSPC' : 'ok');
  for (const start of ['first', 'second']) t.ok(opens(await open(disk), key), start);
  disk.onOperation = () => 'ok';
  const keys = await open(disk.afterPowerCut('nothing'));
  t.ok(opens(keys, key));
});
