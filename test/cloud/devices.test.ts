/** The limit on devices, and lists of them: filters, pages, counts. */
import t from 'tap';
import { SECOND_MS } from '../../src/base/limits.js';
import { CLOUD_DEVICES_MAX, compareIds, type DeviceQuery, Devices } from '../../src/cloud/devices.js';
import type { AboutDocument } from '../../src/cloud/document.js';
import { NO_MARKS } from '../../src/cloud/marks.js';
import { NO_STATUS } from '../../src/cloud/presence.js';
import type { Sighting } from '../../src/cloud/sighting.js';
import { FakeClock } from '../support/clock.js';
import { keptLog } from '../support/system.js';

const ALL: DeviceQuery = {
  ...{ state: null, part: '', site: null, tag: null, version: null, attention: false },
  ...{ order: 'id', after: null, limit: CLOUD_DEVICES_MAX },
};

const ONLINE = {
  ...({ state: 'online', heardMs: null, sinceMs: null } as const),
  ...{ status: NO_STATUS, marks: NO_MARKS },
};

const ABOUT: AboutDocument = {
  ...{ etag: '"1"', destinations: 2, name: null, site: null, tags: [] },
  ...{ delayMs: null, hasWeekly: false },
};

type Seen = Partial<Sighting> & Pick<Sighting, 'id'>;

/** The devices of a fleet whose store is a stub. */
function fleet({
  seen = [] as readonly Seen[],
  documents = [] as string[],
  about = {} as Readonly<Record<string, Partial<AboutDocument>>>,
  keys = [] as string[],
  inFile = [] as string[],
  clock = new FakeClock(),
}) {
  const watched = new Map(seen.map((one): [string, Sighting] => [one.id, { ...ONLINE, ...one }]));
  let counted = 0;
  const { log, lines } = keptLog();
  const devices = new Devices({
    devicesMax: CLOUD_DEVICES_MAX,
    watch: {
      get ids() {
        counted++;
        return watched.keys();
      },
      has: (id) => watched.has(id),
      sighting: (id) => watched.get(id) ?? null,
      forget: async (id) => void watched.delete(id),
    },
    documents: {
      ids: documents,
      about: (id) => (documents.includes(id) ? { ...ABOUT, ...about[id] } : null),
      remove: async (id) =>
        void documents.splice(0, documents.length, ...documents.filter((one) => one !== id)),
    },
    keys: {
      ids: keys,
      has: (id) => keys.includes(id),
      make: async (id) => {
        keys.push(id);
        return `key of ${id}`;
      },
      remove: async (id) => void keys.splice(0, keys.length, ...keys.filter((key) => key !== id)),
    },
    keysFile: () => new Map(inFile.map((id) => [id, ['key']])),
    clock,
    log,
  });
  /** The ids on a page. */
  const ids = async (query: Partial<DeviceQuery> = {}) =>
    (await devices.list({ ...ALL, ...query })).devices.map(({ id }) => id);
  /** The ids on each page. */
  const pages = async (query: Partial<DeviceQuery>) => {
    const all: string[][] = [];
    let after: string | null = null;
    do {
      const page: Awaited<ReturnType<Devices['list']>> = await devices.list({ ...ALL, ...query, after });
      all.push(page.devices.map(({ id }) => id));
      after = page.next;
    } while (after !== null);
    return all;
  };
  return { devices, lines, clock, ids, pages, watched, counts: () => counted };
}

t.test('one device too many is refused, logged once and counted, until one is removed', async (t) => {
  const others = Array.from({ length: CLOUD_DEVICES_MAX - 4 }, (_, n) => `other-${n}`);
  const { devices, lines } = fleet({
    seen: [{ id: 'a' }],
    documents: ['a', 'b', ...others],
    keys: ['b', 'k'],
  });
  for (const id of ['a', 'b', 'k', 'last']) devices.admit(id);
  for (const id of ['c', 'd', 'c']) t.throws(() => devices.admit(id), { code: 'unavailable' });
  await t.rejects(devices.makeKey('e'), { code: 'unavailable' }, 'a new device with a key is one, too');
  t.equal(await devices.makeKey('a'), 'key of a');
  t.equal(devices.refused, 4);
  t.equal(lines.filter((line) => line.includes('device refused')).length, 1);
  await devices.remove('k');
  t.equal(await devices.makeKey('e'), 'key of e');
  t.throws(() => devices.admit('f'), { code: 'unavailable' });
  t.equal(lines.filter((line) => line.includes('device refused')).length, 2, 'said anew');
});

t.test(
  'a device is known by a heartbeat, a document, a key or its line in the keys file, once',
  async (t) => {
    const status = { ...NO_STATUS, version: '1.2.3' };
    const { devices, ids, lines } = fleet({
      seen: [{ id: 'both', status }, { id: 'seen' }],
      documents: ['both', 'doc', 'kept'],
      keys: ['both', 'kept', 'new'],
      inFile: ['*', 'both', 'doc', 'line', 'new'],
    });
    t.strictSame(await ids(), ['both', 'doc', 'kept', 'line', 'new', 'seen']);
    t.strictSame(await ids({ state: 'unheard' }), ['doc', 'kept', 'line', 'new']);
    t.match(devices.get('both'), { id: 'both', state: 'online', destinations: 2, status });
    for (const id of ['new', 'line'])
      t.strictSame(devices.get(id), {
        ...{ id, state: 'unheard', heardMs: null, sinceMs: null, destinations: null },
        ...{ name: null, site: null, tags: [], status: NO_STATUS, quiet: null },
      });
    for (const id of ['none', '*']) t.throws(() => devices.get(id), { code: 'not-found' }, id);
    for (const id of ['none', 'line']) await t.rejects(devices.remove(id), { code: 'not-found' }, id);
    await devices.remove('kept');
    t.throws(() => devices.get('kept'), { code: 'not-found' });
    t.match(lines.join(''), /device removed device=kept/);
    await devices.remove('new');
    t.equal(devices.get('new').state, 'unheard', 'its line stays');
  },
);

t.test('a filter goes by state, part of the id, version, and who needs a person', async (t) => {
  const failing = { ...NO_STATUS, version: '2.0', relay: 'failing' };
  const failed = { ...NO_STATUS, version: '2.0', queue: { queued: 0, deferred: 0, failed: 1 } };
  const { devices, ids } = fleet({
    seen: [
      { id: 'Pump-1', status: failing },
      { id: 'pump-2', state: 'offline', status: failed },
      { id: 'fan-3', state: 'moved', status: { ...NO_STATUS, version: '2.0.1' } },
    ],
    keys: ['pump-4'],
  });
  t.strictSame(await ids({ state: 'offline' }), ['pump-2']);
  t.strictSame(await ids({ state: 'unheard' }), ['pump-4']);
  t.strictSame(await ids({ part: 'pump' }), ['Pump-1', 'pump-2', 'pump-4']);
  t.strictSame(await ids({ version: '2.0' }), ['Pump-1', 'pump-2'], 'the whole version');
  t.strictSame(await ids({ attention: true }), ['Pump-1', 'pump-2']);
  t.strictSame(await ids({ attention: true, state: 'online', part: 'p' }), ['Pump-1']);
  const { total, counts, next } = await devices.list({ ...ALL, attention: true, limit: 1 });
  t.strictSame([total, next], [2, 'Pump-1'], 'the total of all pages');
  t.strictSame(
    counts,
    { offline: 1, online: 1, moved: 1, unheard: 1, attention: 2, quiet: 0 },
    'of all devices',
  );
  t.strictSame(await devices.count(), counts);
});

t.test('a filter goes by site and tag, and a part may stand in them', async (t) => {
  const { devices, ids } = fleet({
    documents: ['a', 'b', 'c', 'd'],
    about: {
      a: { site: 'North', tags: ['pump', 'Key Account'] },
      b: { site: 'North 2', tags: ['pump'] },
      c: { name: 'North pump', tags: ['fan'] },
    },
  });
  t.strictSame(await ids({ site: 'north' }), ['a'], 'the whole site');
  t.strictSame(await ids({ tag: 'pump' }), ['a', 'b']);
  t.strictSame(await ids({ tag: 'key account' }), ['a']);
  t.strictSame(await ids({ tag: 'key' }), [], 'a whole tag');
  t.strictSame(await ids({ site: 'north 2', tag: 'pump' }), ['b']);
  t.strictSame(await ids({ part: 'north' }), ['a', 'b', 'c']);
  t.strictSame(await ids({ part: 'fan' }), ['c']);
  t.match(devices.get('a'), { site: 'North', tags: ['pump', 'Key Account'] });
  t.match(devices.get('d'), { site: null, tags: [] });
});

t.test('a device is quiet until its time is over', async (t) => {
  const clock = new FakeClock();
  const quiet = { untilMs: clock.wallMs() + 2 * SECOND_MS, why: 'battery swap' };
  const late = { ...NO_STATUS, late: ['plc-reader'] };
  const { devices, ids } = fleet({
    clock,
    seen: [
      { id: 'a', state: 'offline' },
      { id: 'b', status: late },
      { id: 'c', marks: { ...NO_MARKS, quiet } },
      { id: 'd' },
    ],
  });
  t.strictSame(await ids({ order: 'attention' }), ['c', 'a', 'b', 'd']);
  t.match(devices.get('c').quiet, quiet);
  t.match(await devices.count(), { quiet: 1, attention: 1 });
  await clock.advance(2 * SECOND_MS);
  t.strictSame(await ids({ order: 'attention' }), ['a', 'b', 'c', 'd']);
  t.equal(devices.get('c').quiet, null);
  t.match(await devices.count(), { quiet: 0 });
});

t.test('what needs attention comes first, in pages, too', async (t) => {
  const failing = { ...NO_STATUS, relay: 'failing' };
  const failed = { ...NO_STATUS, queue: { queued: 0, deferred: 0, failed: 12 } };
  const { ids, pages } = fleet({
    seen: [
      { id: 'a-1' },
      { id: 'a-10', status: failed },
      { id: 'a-9', state: 'moved', status: failing },
      { id: 'b-2', state: 'offline' },
      { id: 'b-1', state: 'offline', status: failing },
      { id: 'a-0', state: 'moved' },
    ],
    keys: ['a-00'],
  });
  const order = ['b-1', 'b-2', 'a-9', 'a-10', 'a-1', 'a-0', 'a-00'];
  t.strictSame(await ids({ order: 'attention' }), order);
  t.strictSame((await pages({ order: 'attention', limit: 2 })).flat(), order);
});

t.test('ids have the order in which people sort and count, which is one order', async (t) => {
  const sorted = [
    '',
    '01',
    '1',
    '2',
    '10',
    '100',
    'a',
    'a-',
    'a-1',
    'a-1-2',
    'a-1-10',
    'a-01x',
    'a-2',
    'a-10',
    'a1',
    'a1b',
    'a001bb',
    'a9',
    'A9',
    `a${'9'.repeat(60)}`,
    `a1${'0'.repeat(60)}`,
    'b',
    'p1',
    'P2',
    'p10',
    'P10',
  ];
  const signs = (ids: readonly string[]) =>
    ids.flatMap((one) => ids.map((other) => Math.sign(compareIds(one, other))));
  t.strictSame([...sorted].reverse().sort(compareIds), sorted);
  t.strictSame(
    signs(sorted),
    sorted.flatMap((_, i) => sorted.map((_, j) => Math.sign(i - j))),
    'each pair, from both sides',
  );
});

t.test('pages are by id, and together have each device once', async (t) => {
  // In an order that is far from sorted.
  const all = Array.from({ length: 100 }, (_, n) => `pump-${(n * 37) % 100}`);
  const { ids, pages } = fleet({ seen: all.map((id) => ({ id })) });
  for (const limit of [1, 7, 50, 99, 100, 101]) {
    const found = await pages({ limit });
    t.strictSame(
      found.flat(),
      Array.from({ length: 100 }, (_, n) => `pump-${n}`),
      `${limit}`,
    );
    t.equal(found.length, Math.ceil(100 / limit), 'no empty page at the end');
  }
  t.strictSame(await ids({ after: 'zzz' }), []);
});

t.test('a list of very many devices lets other work run in between', async (t) => {
  const some = (count: number) => Array.from({ length: count }, (_, n) => `pump-${n}`);
  // Those of the documents count as work, though each is in the list already.
  for (const [count, documents] of [
    [5000, []],
    [1500, some(1500)],
  ] as const) {
    const { devices, clock } = fleet({ seen: some(count).map((id) => ({ id })), documents: [...documents] });
    let isDone = false;
    const listed = devices.list({ ...ALL, limit: 1 }).then((list) => {
      isDone = true;
      return list;
    });
    await new Promise((resolve) => setImmediate(resolve));
    t.notOk(isDone, 'it waits for its turn');
    await clock.advance(0);
    await clock.advance(0);
    t.equal((await listed).total, count);
  }
});

t.test('ten thousand devices are admitted, and not all counted for each of them', async (t) => {
  const { devices, watched, counts, clock } = fleet({});
  const admit = (id: string) => {
    devices.admit(id);
    watched.set(id, { id, ...ONLINE });
  };
  for (let n = 0; n < CLOUD_DEVICES_MAX; n++) admit(`device-${n}`);
  for (const id of ['another', 'one more', 'another']) t.throws(() => admit(id), { code: 'unavailable' });
  t.equal(counts(), 1, 'nor for each that is refused');
  await devices.remove('device-7');
  admit('another');
  t.throws(() => admit('one more'), { code: 'unavailable' });
  // A device that was admitted, but never kept, takes no place for good.
  await devices.remove('device-8');
  devices.admit('fleeting');
  t.throws(() => admit('one more'), { code: 'unavailable' });
  await clock.advance(10 * SECOND_MS);
  admit('one more');
  t.equal(watched.size, CLOUD_DEVICES_MAX);
  // Another instance has removed one.
  watched.delete('device-9');
  await clock.advance(10 * SECOND_MS);
  admit('the last');
  t.equal(counts(), 3);
});
