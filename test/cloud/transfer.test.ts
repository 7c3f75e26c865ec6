/** Export and import of the cloud's state: between both stores, of damaged files, and after a crash in the middle. */
import { createHash } from 'node:crypto';
import t, { type Test } from 'tap';
import type { StatOf } from '../../src/base/config/types.js';
import { FieldpostError } from '../../src/base/errors.js';
import { digest } from '../../src/base/http/access.js';
import { CLOUD_DOCUMENT_BYTES_MAX, MINUTE_MS, SECOND_MS } from '../../src/base/limits.js';
import { CLOUD_DEVICES_MAX } from '../../src/cloud/devices.js';
import { FileState } from '../../src/cloud/files/state.js';
import type { FleetStore } from '../../src/cloud/fleet-store.js';
import { CLOUD_GRACE_MS } from '../../src/cloud/presence.js';
import type { StateRecord, StateStore } from '../../src/cloud/state-record.js';
import { exportState, importState } from '../../src/cloud/transfer.js';
import { settled } from '../support/clock.js';
import { FaultyDisk } from '../support/faulty-disk.js';
import { seededRandom } from '../support/random.js';
import { freeLock } from '../support/system.js';
import { DIRECTORY, etcdOf, filesOf, type Outside, PLACES, type Place } from './fleet-stores.js';

const STATUS = {
  version: '2.1',
  queue: { queued: 1, deferred: 2, failed: 3 },
  relay: 'refusing',
  link: 'online',
  late: [],
};
const code = (name: string) => ({ code: name });

/** The text of an export of a store, or of these records. */
async function textOf(state: Pick<StateStore, 'read'>, atMs = 0): Promise<string> {
  const pieces: Buffer[] = [];
  await exportState(state, atMs, async (bytes) => void pieces.push(bytes));
  return Buffer.concat(pieces).toString();
}

async function exported(place: Pick<Place, 'state'>): Promise<string> {
  const state = place.state();
  const text = await textOf(state);
  await state.close();
  return text;
}

/** An export of these records, at another moment. */
const exportOf = (records: readonly object[]) =>
  textOf(
    {
      async read(each) {
        for (const record of records) await each(record as StateRecord);
      },
    },
    1,
  );

async function imported(place: Pick<Place, 'state'>, text: string) {
  const bytes = Buffer.from(text);
  const state = place.state();
  try {
    return await importState(state, { read: async (at, length) => bytes.subarray(at, at + length) });
  } finally {
    await state.close();
  }
}

/** The records of an export; revisions are those of the store. */
function recordsOf(text: string): StateRecord[] {
  const lines = text.trim().split('\n').slice(1, -1);
  return lines.map((line) => ({ ...JSON.parse(line), revision: 1 }));
}

const advance = async ({ clock }: Outside, ms: number) => {
  await clock.advance(ms);
  for (let times = 0; times < 25; times++) await settled();
};

async function silence(
  outside: Outside,
  fleet: FleetStore,
  steady: readonly string[],
  ms: number,
): Promise<void> {
  for (let passedMs = 0; passedMs < ms; passedMs += 30 * SECOND_MS) {
    for (const id of steady) fleet.watch.heard(id, { said: 'running', everyMs: 30_000 });
    await advance(outside, 30 * SECOND_MS);
  }
}

/** A cloud with devices in all states. Gives the keys that open `keyed` and `on`. */
async function populate({ outside, open }: Place) {
  const fleet = await open();
  await fleet.start();
  await advance(outside, CLOUD_GRACE_MS + MINUTE_MS);
  const { documents, keys, watch } = fleet;
  const named = (name: string) => ({ name, destinations: [{ uid: 'x' }], more: { a: [name] } });
  for (const id of ['on', 'off', 'quiet'])
    await documents.put(id, named(`Pömp ${id}`), { 'if-none-match': '*' });
  const { etag } = (await documents.read('on')) ?? { etag: '' };
  await documents.put('on', named('Pomp on 2'), { 'if-match': etag });
  const made = { on: await keys.make('on'), first: await keys.make('keyed'), next: await keys.make('keyed') };
  watch.heard('off', { said: 'running', everyMs: 30_000, status: STATUS });
  watch.heard('gone', { said: 'moved', everyMs: 0 });
  watch.heard('stopping', { said: 'stopping', everyMs: 0 });
  await silence(outside, fleet, ['on'], 3 * MINUTE_MS);
  // It flaps: the next outage needs a longer silence.
  watch.heard('off', { said: 'running', everyMs: 30_000, status: STATUS });
  await silence(outside, fleet, ['on'], 4 * MINUTE_MS);
  await advance(outside, MINUTE_MS);
  await fleet.stop();
  return made;
}

for (const [from, makeFrom] of Object.entries(PLACES))
  for (const [to, makeTo] of Object.entries(PLACES))
    t.test(`${from} to ${to}: nothing is lost, and nobody is told wrongly`, async (t) => {
      const source: Place = makeFrom();
      const made = await populate(source);
      t.strictSame(source.outside.told, ['silent off', 'back off', 'silent off']);
      const text = await exported(source);
      const target: Place = makeTo(source.outside);
      t.same(await imported(target, text), { document: 3, keys: 2, presence: 4 });
      t.strictSame(recordsOf(await exported(target)), recordsOf(text));

      const before = await source.open();
      const shown = sightingsOf(before);
      const texts = await Promise.all(['on', 'off'].map((id) => before.documents.read(id)));
      await before.stop();
      const fleet = await target.open();
      await fleet.start();
      t.strictSame(sightingsOf(fleet), shown);
      t.equal(fleet.watch.sighting('off')?.state, 'offline');
      for (const [n, id] of ['on', 'off'].entries())
        t.equal((await fleet.documents.read(id))?.text, texts[n]?.text);
      t.ok(fleet.keys.opens('keyed', digest(made.first)), 'the key before a new one is used');
      t.ok(fleet.keys.opens('keyed', digest(made.next)));
      t.ok(fleet.keys.opens('on', digest(made.on)));
      t.notOk(fleet.keys.opens('on', digest(made.next)));

      source.outside.told.length = 0;
      await silence(source.outside, fleet, ['on'], CLOUD_GRACE_MS - MINUTE_MS);
      t.strictSame(source.outside.told, [], 'silence does not count yet');
      fleet.watch.heard('off', { said: 'running', everyMs: 30_000, status: STATUS });
      await advance(source.outside, MINUTE_MS);
      t.strictSame(source.outside.told, ['back off']);
      await fleet.stop();
    });

const sightingsOf = ({ watch }: FleetStore) => [...watch.ids].sort().map((id) => watch.sighting(id));

for (const [name, make] of Object.entries(PLACES))
  t.test(`${name}: what people have not been told yet is decided again`, async (t) => {
    const source: Place = make();
    const { outside } = source;
    const fleet = await source.open();
    await fleet.start();
    const startMs = outside.clock.wallMs();
    fleet.watch.heard('pump', { said: 'running', everyMs: 30_000 });
    fleet.watch.heard('back', { said: 'running', everyMs: 30_000 });
    await advance(outside, CLOUD_GRACE_MS + 3 * MINUTE_MS);
    t.strictSame(outside.told.splice(0).sort(), ['silent back', 'silent pump']);
    outside.refused = new Set(['pump', 'back']);
    for (const id of ['pump', 'back']) fleet.watch.heard(id, { said: 'running', everyMs: 30_000 });
    await advance(outside, SECOND_MS);
    await silence(outside, fleet, ['back'], 6 * MINUTE_MS);
    await fleet.stop();

    const target: Place = make(outside);
    await imported(target, await exported(source));
    const presence = recordsOf(await exported(target)).filter(({ kind }) => kind === 'presence');
    t.match(presence, [
      { id: 'back', told: 'offline', awayMs: startMs },
      { id: 'pump', told: 'offline' },
    ]);
    outside.refused = new Set();
    outside.told.length = 0;
    const after = await target.open();
    await after.start();
    await silence(outside, after, ['back'], CLOUD_GRACE_MS + 4 * MINUTE_MS);
    t.strictSame(
      outside.told,
      ['back back'],
      'that it is back; of the other one people know that it is offline',
    );
    await after.stop();
  });

for (const [from, makeFrom] of Object.entries(PLACES))
  for (const [to, makeTo] of Object.entries(PLACES))
    t.test(`${from} to ${to}: who knows of an outage, and who waits, is kept`, async (t) => {
      const source: Place = makeFrom();
      const { outside } = source;
      const fleet = await source.open();
      await fleet.start();
      outside.marks = { told: ['tech'], waits: ['boss'] };
      fleet.watch.heard('pump', { said: 'running', everyMs: 30_000 });
      await advance(outside, CLOUD_GRACE_MS);
      await fleet.stop();
      const text = await exported(source);
      const target: Place = makeTo(outside);
      await imported(target, text);
      t.strictSame(recordsOf(await exported(target)), recordsOf(text));
      outside.calls.length = 0;
      const after = await target.open();
      await after.start();
      await advance(outside, SECOND_MS);
      const news = [{ news: { kind: 'silent', ...outside.marks } }];
      t.match(outside.calls[0]?.all, [{ device: 'pump', news }]);
      await after.stop();
    });

t.test('a file that is not whole is refused before anything is written', async (t) => {
  const source = filesOf();
  await populate(source);
  const text = await exported(source);
  const lines = text.split('\n');
  const without = (from: number, count = 1) => lines.toSpliced(from, count).join('\n');
  const swapped = lines.toSpliced(1, 2, lines[2] as string, lines[1] as string).join('\n');
  const damaged = {
    empty: '',
    'without its first line': without(0),
    'without a record': without(2),
    'without its last line': without(lines.length - 2),
    'cut in a line': text.slice(0, -5),
    'with a line behind': `${text}${lines.at(-2)}\n`,
    'with another name in it': text.replace('Pomp on 2', 'Pomp on 3'),
    'with another count': text.replace('"presence":4', '"presence":5'),
    'with another header': text.replace('cloud-export', 'cloud-backup'),
    'of a newer version': text.replace('"version":1', '"version":2'),
    'in another order': swapped,
    'with a record twice': lines.toSpliced(1, 0, lines[1] as string).join('\n'),
    'with an id that is none': text.replace('"id":"off"', '"id":"../off"'),
    'with a key that is no digest': text.replace(/"key":"[^"]{5}/, '"key":"'),
    'not of text': '\xff\n'.repeat(3),
    'with an endless line': 'x'.repeat(9 * 2 ** 20),
  };
  // Whoever writes the checksum, too.
  const sealed = Object.fromEntries(
    Object.entries(damaged).map(([how, bad]) => [
      `${how}, sealed`,
      bad.replace(/^\{"kind":"end".*\n/m, (end, at) => {
        const sha256 = createHash('sha256').update(bad.slice(0, at)).digest('hex');
        return `${JSON.stringify({ ...JSON.parse(end), sha256 })}\n`;
      }),
    ]),
  );
  delete sealed['with another name in it, sealed'];
  Object.assign(damaged, sealed);
  const target = filesOf();
  for (const [how, bad] of Object.entries(damaged))
    await t.rejects(imported(target, bad), code('invalid'), how);
  t.equal(target.disk.operations, 0);
  const etcd = etcdOf();
  for (const [how, bad] of Object.entries(damaged))
    await t.rejects(imported(etcd, bad), code('invalid'), how);
  t.equal(etcd.server.revision, 1);
});

t.test('a file that is another one when it is read again', async (t) => {
  const [first, second] = [await exportOf([documentOf('a')]), await exportOf([documentOf('b')])];
  const target = filesOf();
  let reads = 0;
  const read = async (at: number, length: number) => {
    if (at === 0) reads++;
    return Buffer.from(reads === 1 ? first : second).subarray(at, at + length);
  };
  await t.rejects(importState(target.state(), { read }), code('invalid'));
  await t.rejects(target.open(), code('storage-damaged'));
});

t.test('files: a crash at any moment of an import, and the import again', async (t) => {
  const source = filesOf();
  await populate(source);
  const text = await exported(source);
  const whole = filesOf();
  await imported(whole, text);
  for (let at = 1; at <= whole.disk.operations; at++) {
    const { disk } = filesOf();
    disk.onOperation = (n) => (n === at ? 'power-cut-before' : 'ok');
    await t.rejects(imported(filesOf(source.outside, disk), text), code('storage-failed'));
    const after = filesOf(source.outside, disk.afterPowerCut('random', seededRandom(at)));
    const fleet = await after.open().catch((error: unknown) => error);
    // Nothing of it was written, all of it was, or no cloud starts.
    if (fleet instanceof Error) t.match(fleet, code('storage-damaged'));
    else {
      const { documents, keys, watch, stop } = fleet as FleetStore;
      const counts = [documents, keys, watch].map(({ ids }) => [...ids].length);
      t.ok(
        [
          [0, 0, 0],
          [3, 2, 4],
        ].some((one) => one.join() === counts.join()),
        `${at}: ${counts}`,
      );
      await stop();
      if (counts[0] === 3) continue;
    }
    t.same(await imported(after, text), { document: 3, keys: 2, presence: 4 }, `${at}`);
    t.strictSame(recordsOf(await exported(after)), recordsOf(text));
  }
});

t.test('etcd: a failure at any moment of an import, and the import again', async (t) => {
  const source = filesOf();
  await populate(source);
  const text = await exported(source);
  for (let at = 1; ; at++) {
    const place = etcdOf();
    let ops = 0;
    place.server.onOp = () => {
      if (++ops === at) throw new Error('killed');
    };
    const result = await imported(place, text).catch(() => null);
    place.server.onOp = () => undefined;
    if (result !== null) {
      t.ok(at > 20);
      break;
    }
    const isOver = place.server.keyOf('layout')?.value === '3';
    if (!isOver) {
      if (place.server.keyOf('layout') !== null) await t.rejects(place.open(), code('unavailable'), `${at}`);
      await imported(place, text);
    }
    t.strictSame(recordsOf(await exported(place)), recordsOf(text), `${at}`);
  }
});

t.test('a full disk is told, and the import goes on when there is room', async (t) => {
  const source = filesOf();
  await populate(source);
  const text = await exported(source);
  const { disk } = filesOf();
  disk.capacityBytes = 3 * 4096;
  const target = filesOf(source.outside, disk);
  await t.rejects(imported(target, text), {
    code: 'storage-failed',
    message: 'The import cannot be stored: the disk is full',
  });
  await t.rejects(target.open(), { code: 'storage-damaged', hint: /run it again/ });
  await t.rejects(exported(target), code('storage-damaged'), 'half of a state is no backup');
  disk.capacityBytes = 2 ** 30;
  await t.rejects(imported(target, await exportOf(recordsOf(text))), code('conflict'));
  await imported(target, text);
  t.strictSame(recordsOf(await exported(target)), recordsOf(text));
});

const documentOf = (id: string, chars = 0) => ({
  kind: 'document',
  id,
  revision: 1,
  document: { destinations: [], x: 'x'.repeat(chars) },
});

t.test('what is refused', async (t: Test) => {
  const source = filesOf();
  await t.rejects(exported(source), code('not-found'));
  await t.rejects(exported(etcdOf()), code('not-found'));
  await populate(source);
  const text = await exported(source);
  await t.rejects(imported(source, text), {
    code: 'conflict',
    message: /is not empty: it has documents\/off.json/,
  });

  const etcd = etcdOf();
  const fleet = await etcd.open();
  await fleet.start();
  await t.rejects(imported(etcd, text), code('already-running'));
  t.equal(etcd.server.keyOf('layout')?.value, '3', 'it is as it was');
  await fleet.stop();
  t.ok(await imported(etcd, text), 'a cloud without devices has run here');
  await t.rejects(imported(etcd, text), { code: 'conflict', message: /it has at\/gone/ });

  const stateWith = (parts: Partial<ConstructorParameters<typeof FileState>[0]>) =>
    new FileState({
      ...{ disk: new FaultyDisk({ directories: ['/var/lib'] }), clock: source.outside.clock },
      ...{ takeLock: freeLock, statOf: () => null, directory: DIRECTORY, ...parts },
    });
  const refused = new FieldpostError('already-running', 'another daemon');
  const busy = { state: () => stateWith({ takeLock: () => Promise.reject(refused) }) };
  await t.rejects(imported(busy, text), code('already-running'));
  const uidOf = (path: string) => ({ uid: path === '/proc/self' ? 0 : 7 }) as ReturnType<StatOf>;
  const foreign = { state: () => stateWith({ statOf: uidOf }) };
  await t.rejects(imported(foreign, text), { code: 'forbidden', hint: /sudo -u '#7' .* import FILE$/ });

  const shared = etcdOf();
  shared.server.onOp = (client, op) => {
    if (client === 'transfer' && op.startsWith('txn doc') && !op.endsWith(': done'))
      shared.server.txn([], [{ put: 'layout', value: 'import other' }]);
  };
  await t.rejects(imported(shared, text), code('conflict'), 'another import has begun');
  t.strictSame(shared.server.keys('at/'), []);

  const many = Array.from({ length: CLOUD_DEVICES_MAX + 1 }, (_, n) =>
    documentOf(`p${String(n).padStart(6, '0')}`),
  );
  await t.rejects(imported(filesOf(), await exportOf(many)), code('too-large'));
  const large = await exportOf([documentOf('p', CLOUD_DOCUMENT_BYTES_MAX)]);
  await t.rejects(imported(etcdOf(), large), { code: 'too-large', message: /document of p / });
  t.ok(await imported(filesOf(), large));
  const heavy = Array.from({ length: 65 }, (_, n) => documentOf(`p${10 + n}`, CLOUD_DOCUMENT_BYTES_MAX));
  await t.rejects(imported(filesOf(), await exportOf(heavy)), code('too-large'));
});

t.test('ETags after a restore: new for other content, also with an older backup', async (t) => {
  const source = filesOf();
  const { outside } = source;
  const fleet = await source.open();
  const put = (of: FleetStore, name: string, etag?: string) =>
    of.documents.put('p', { name, destinations: [] }, etag ? { 'if-match': etag } : { 'if-none-match': '*' });
  const first = await put(fleet, 'A');
  const second = await put(fleet, 'A', first);
  const text = await exported(source);
  const third = await put(fleet, 'B', second);
  await fleet.stop();
  const restored = filesOf(outside);
  await imported(restored, text);
  const after = await restored.open();
  t.equal(after.documents.about('p')?.etag, second, 'the same document has the same one');
  await t.rejects(put(after, 'X', third), code('precondition-failed'), 'of what the backup has not');
  t.notOk([first, second, third].includes(await put(after, 'C', second)));
  await after.stop();
  const fleetOf = etcdOf(outside);
  await imported(fleetOf, text);
  const inEtcd = await fleetOf.open();
  t.notOk([first, second, third].includes(inEtcd.documents.about('p')?.etag ?? second));
  await inEtcd.stop();
});

t.test('a damaged store is no backup', async (t) => {
  for (const name of ['documents/on.json', 'keys.json', 'presence.json']) {
    const source = filesOf();
    await populate(source);
    const damage = async (path: string) => {
      const file = await source.disk.open(`${DIRECTORY}/${path}`, 'update');
      await file.write(Buffer.from('x'), 20);
      await file.close();
    };
    await damage(name);
    if (name === 'keys.json') {
      await exported(source);
      // There are two of them.
      await damage('keys.json.1');
    }
    await t.rejects(exported(source), { code: 'storage-damaged', message: new RegExp(name) });
    t.ok(await source.disk.look(`${DIRECTORY}/${name}`), 'the file stays');
  }
  for (const key of ['doc/on', 'keys/on', 'at/on', 'news/x']) {
    const { server, state, ...source } = etcdOf();
    await populate({ state, ...source });
    server.txn([], [{ put: key, value: '{}' }]);
    await t.rejects(exported({ state }), { code: 'storage-damaged', message: new RegExp(key) });
  }
  const { server, state } = etcdOf();
  server.txn([], [{ put: 'layout', value: '99' }]);
  await t.rejects(exported({ state }), code('unavailable'));
  await t.rejects(imported({ state }, await exportOf([])), code('unavailable'));
});

t.test('a large export goes to etcd in transactions that it takes', async (t) => {
  const place = etcdOf();
  const records = Array.from({ length: 300 }, (_, n) =>
    documentOf(`p${100 + n}`, n > 200 && n % 10 === 0 ? 900_000 : 10),
  );
  const text = await exportOf(records);
  t.same(await imported(place, text), { document: 300, keys: 0, presence: 0 });
  t.strictSame(recordsOf(await exported(place)), records);
});

t.test('an export by a user who may not read the files of another says whose they are', async (t) => {
  const files = filesOf();
  await populate(files);
  const { disk, outside } = files;
  const exportedBy = (statOf: StatOf) =>
    exported({
      state: () =>
        new FileState({ disk, clock: outside.clock, takeLock: freeLock, statOf, directory: DIRECTORY }),
    });
  const uidsOf = (own: number) => (path: string) =>
    ({ uid: path === '/proc/self' ? own : 7 }) as ReturnType<StatOf>;
  t.match(await exportedBy(uidsOf(0)), '"kind":"end"', 'root may read them');
  const denied = Object.assign(new Error('EACCES: permission denied'), { code: 'EACCES' });
  const list = t.capture(disk, 'list', () => Promise.reject(denied));
  const message = '/var/lib belongs to user 7, and this is user 8';
  const foreign = {
    code: 'forbidden',
    message,
    hint: "run it as that user: sudo -u '#7' fieldpost-cloud export",
  };
  await t.rejects(exportedBy(uidsOf(8)), foreign, 'the directory is closed');
  await t.rejects(
    exportedBy(uidsOf(7)),
    { code: 'storage-failed', message: /EACCES/ },
    'no matter of the user',
  );
  list.restore();
  disk.onRead = (path) => (path.endsWith('/keys.json') || path.endsWith('/keys.json.1') ? 'EACCES' : null);
  await t.rejects(exportedBy(uidsOf(8)), foreign, 'a file is closed');
  disk.onRead = (path) => (path.endsWith('/presence.json') ? 'EIO' : null);
  await t.rejects(exportedBy(uidsOf(8)), { code: 'storage-failed', message: /EIO/ });
});
