/** The reference cloud over HTTP, beyond the contract (conformance.test.ts): documents, keys, heartbeats, power cuts. */
import t from 'tap';
import { CLOUD_ANSWER_BYTES_MAX, MIB, SECOND_MS } from '../../src/base/limits.js';
import { CLOUD_BODY_BYTES_MAX } from '../../src/cloud/calls.js';
import { aboutOf } from '../../src/cloud/document.js';
import { durable } from '../support/durable.js';
import { FaultyDisk } from '../support/faulty-disk.js';
import { DESTINATIONS, DEVICE, EWA, JAN, startCloud, type TestCloud } from '../support/reference-cloud.js';

const FIRST = { 'If-None-Match': '*' };

async function put(cloud: TestCloud, destinations: unknown, headers: Record<string, string> = FIRST) {
  const answer = await cloud.call('PUT', DESTINATIONS, { headers, body: { destinations } });
  return { ...answer, etag: answer.headers.get('etag') ?? '' };
}

t.test(
  'conditions name several ETags, and must be there for a PUT; of many first PUTs one wins',
  async (t) => {
    await using cloud = await startCloud();
    t.equal((await put(cloud, [], {})).status, 428, 'a PUT must say what it replaces');
    const firsts = await Promise.all([1, 2, 3].map((n) => put(cloud, [{ ...JAN, n }])));
    t.same(firsts.map(({ status }) => status).sort(), [204, 412, 412]);
    const { etag } = firsts.find(({ status }) => status === 204) ?? { etag: '' };

    const ask = (known: string) => cloud.call('GET', DESTINATIONS, { headers: { 'If-None-Match': known } });
    const same = await ask(`"x", W/${etag}`);
    t.same([same.status, same.headers.get('etag')], [304, etag]);
    t.equal((await ask('unquoted')).status, 200);

    t.equal((await put(cloud, [], { 'If-Match': 'unquoted' })).status, 400);
    const second = await put(cloud, [JAN, EWA], { 'If-Match': `"x", ${etag}` });
    t.equal(second.status, 204);
    t.same((await cloud.beat()).json, {
      destinations: second.etag,
      heartbeatMs: 30_000,
      serverTime: '2026-11-20T09:00:00.000Z',
    });
  },
);

t.test('only the first of very many unknown entries are named', async (t) => {
  await using cloud = await startCloud();
  const taken = await put(
    cloud,
    Array.from({ length: 5000 }, () => ({})),
  );
  t.equal(taken.status, 200);
  const bytes = JSON.stringify(taken.json).length;
  t.ok(bytes < CLOUD_ANSWER_BYTES_MAX + 100, `${bytes} octets`);
  t.match(taken.json.misunderstood[0], { pointer: '/destinations/0/uid' });
});

t.test('a body that is not a document is refused; unknown entries are kept', async (t) => {
  await using cloud = await startCloud();
  const { etag } = await put(cloud, [JAN]);
  const strange = [
    { ...JAN, type: 9 },
    'x',
    { ...EWA, uid: JAN.uid, lang: 'xx' },
    { ...EWA, uid: 'u' },
    EWA,
    EWA,
  ];
  const taken = await put(cloud, strange, { 'If-Match': etag });
  t.equal(taken.status, 200);
  t.same(
    taken.json.misunderstood.map(({ pointer }: { pointer: string }) => pointer),
    [
      '/destinations/0/type',
      '/destinations/1',
      '/destinations/2/uid',
      '/destinations/2/lang',
      '/destinations/3/uid',
      '/destinations/5/uid',
    ],
    'the answer names them',
  );
  t.same((await cloud.call('GET', DESTINATIONS)).json.destinations, strange);
  const change = { 'If-Match': taken.etag };
  t.equal((await put(cloud, [JAN], change)).status, 204);
  for (const body of ['[]', 'null', '1', '{}', '{"destinations":{}}', '{', '']) {
    t.equal((await cloud.call('PUT', DESTINATIONS, { headers: change, body })).status, 400, body);
  }
  const text = { ...change, 'Content-Type': 'text/plain' };
  t.equal((await cloud.call('PUT', DESTINATIONS, { headers: text, body: '{}' })).status, 415);
  t.same((await cloud.call('GET', DESTINATIONS)).json, { destinations: [JAN] });
  const beat = (body: unknown) => cloud.call('PUT', `${DEVICE}/heartbeat`, { body });
  t.equal((await beat({})).status, 422);
  t.equal((await beat(null)).status, 422);
  const long = await beat({ state: 'x'.repeat(CLOUD_BODY_BYTES_MAX) });
  const detail = `The body is larger than ${CLOUD_BODY_BYTES_MAX} bytes`;
  t.same([long.status, long.json.detail], [413, detail], 'no setting changes this limit');
  t.match(await cloud.call('POST', DESTINATIONS, { body: {} }), { status: 405 });
  t.equal((await cloud.call('GET', '/devices/pump-3/x')).status, 404);
  t.match(cloud.lines.join(''), /request refused .*code=invalid/);
  t.notMatch(cloud.lines.join(''), /request failed/);
});

t.test('the memory of requests is freed', async (t) => {
  let droppedBytes = 0;
  await using cloud = await startCloud({
    system: {
      dropped(bytes) {
        droppedBytes += bytes;
      },
    },
  });
  const bytes = MIB / 2;
  t.equal((await put(cloud, [{ ...JAN, more: 'x'.repeat(bytes) }])).status, 204);
  t.ok(droppedBytes > bytes, `${droppedBytes} bytes`);
});

t.test('a device has its own key, and so has the operator', async (t) => {
  await using cloud = await startCloud({ keys: 'pump-3 old\npump-3 new\npump-4 four\n* boss\n' });
  t.match(cloud.lines.join(''), /cloud ready .*devices=2\b/, 'the operator is no device');
  const statusOf = async (id: string, key: string | null) => (await cloud.beat(id, key)).status;
  t.equal(await statusOf('pump-3', 'old'), 200);
  t.equal(await statusOf('pump-3', 'new'), 200);
  t.equal(await statusOf('pump-3', 'boss'), 200);
  for (const key of [null, 'four', 'x', '*']) t.equal(await statusOf('pump-3', key), 401, String(key));
  for (const id of ['pump-9', '*', '..%2F..%2Fx', '__proto__']) t.equal(await statusOf(id, 'boss'), 401, id);
  t.equal((await cloud.call('GET', '/devices', { key: 'four' })).status, 401);
  const listed = await cloud.boss('GET', '/devices');
  const since = '2026-11-20T09:00:00.000Z';
  t.same(listed.json, {
    devices: [
      {
        ...{ id: 'pump-3', name: null, state: 'online', since, lastHeartbeat: since, destinations: null },
        ...{ version: null, queue: null, relay: null, link: null },
        ...{ site: null, tags: [], late: [], quiet: null },
      },
      {
        ...{
          id: 'pump-4',
          name: null,
          state: 'unheard',
          since: null,
          lastHeartbeat: null,
          destinations: null,
        },
        ...{ version: null, queue: null, relay: null, link: null },
        ...{ site: null, tags: [], late: [], quiet: null },
      },
    ],
    next: null,
    total: 2,
    counts: { offline: 0, online: 1, moved: 0, unheard: 1, attention: 0, quiet: 0 },
    refused: 0,
  });
  t.equal((await cloud.call('GET', '/healthz', { key: null })).text, 'ok');
});

t.test('without keys any device is accepted, but only from this machine', async (t) => {
  await using cloud = await startCloud();
  t.equal((await cloud.beat()).status, 200);
  t.equal((await cloud.beat('pump-3', null)).status, 401);
  t.equal((await cloud.beat('..%2Fx')).status, 401, 'the id would name another file');
  const body = { state: 'running' };
  const Origin = 'http://evil.example';
  t.equal((await cloud.call('PUT', `${DEVICE}/heartbeat`, { body, headers: { Origin } })).status, 403);
});

t.test('an acknowledged document survives a power cut; a damaged file is put aside', async (t) => {
  const disk = new FaultyDisk({ directories: ['/var/lib'] });
  const cloud = await startCloud({ disk });
  const first = await put(cloud, [JAN]);
  const second = await put(cloud, [JAN, EWA], { 'If-Match': first.etag });
  const next = disk.afterPowerCut('nothing');
  disk.onOperation = () => 'error:EIO';
  const failed = await put(cloud, [], { 'If-Match': second.etag });
  t.match(failed, { status: 503, json: { type: 'urn:fieldpost:problem:storage-failed' } });
  t.same((await cloud.call('GET', DESTINATIONS)).json, { destinations: [JAN, EWA] });
  disk.onOperation = () => 'ok';
  await cloud.stop();

  const again = await startCloud({ disk: next });
  const got = await again.call('GET', DESTINATIONS);
  t.same([got.json, got.headers.get('etag')], [{ destinations: [JAN, EWA] }, second.etag]);
  await again.stop();
  const path = '/var/lib/fieldpost/cloud/documents/pump-3.json';
  const file = await next.open(path, 'update');
  await file.write(Buffer.from('X'), 20);
  await file.close();
  await using damaged = await startCloud({ disk: next });
  t.equal((await damaged.call('GET', DESTINATIONS)).status, 404);
  t.match(damaged.lines.join(''), /cloud file damaged/);
  t.not(await next.readWhole(`${path}.damaged`), null);
  t.equal((await put(damaged, [EWA])).status, 204);
});

t.test(
  'a file with a right checksum and another shape is damaged: kept aside, told, and the cloud starts',
  async (t) => {
    const directory = '/var/lib/fieldpost/cloud';
    const heard = { boot: 'a', bootMs: 1, wallMs: null, confirmed: false };
    const device = { state: 'online', said: 'running', everyMs: 0, heard, news: [] };
    const shapes: [name: string, value: unknown][] = [
      ...[null, [], 'a'].flatMap((value): [string, unknown][] => [
        ['documents/pump-3.json', value],
        ['presence.json', value],
      ]),
      ['documents/pump-3.json', { revision: 1 }],
      ['documents/pump-3.json', { revision: 1, document: { destinations: {} } }],
      ['documents/pump-3.json', { document: { destinations: [] } }],
      ['presence.json', { 'pump-3': { a: 1 } }],
      ['presence.json', { 'pump-3': { ...device, news: null } }],
      ['presence.json', { 'pump-3': { ...device, news: [{ id: 'a', kind: 'back', sinceMs: 1 }] } }],
      ['presence.json', { 'pump-3': { ...device, news: [{ kind: 'silent', sinceMs: 1 }] } }],
      ['presence.json', { 'pump-3': { ...device, heard: { ...heard, bootMs: 'a' } } }],
      ['presence.json', { 'pump-3': { ...device, said: 'dancing' } }],
    ];
    for (const [name, value] of shapes) {
      const disk = new FaultyDisk({
        directories: ['/var/lib', '/var/lib/fieldpost', directory, `${directory}/documents`],
      });
      const path = `${directory}/${name}`;
      await durable(disk, path).write(value);
      await using cloud = await startCloud({ disk });
      const what = `${name} ${JSON.stringify(value)}`;
      t.match(cloud.lines.join('\n'), `path=${path}`, what);
      t.not(await disk.readWhole(`${path}.damaged`), null, what);
      t.equal((await cloud.call('GET', DESTINATIONS)).status, 404, what);
    }
  },
);

t.test(
  'a device that the operator removes is forgotten, also after a restart, with its document and key',
  async (t) => {
    const disk = new FaultyDisk({ directories: ['/var/lib'] });
    const keys = 'pump-3 three\npump-4 four\n* boss\n';
    const cloud = await startCloud({ disk, keys });
    const { key } = (await cloud.boss('POST', `${DEVICE}/key`)).json;
    t.equal((await cloud.beat('pump-3', key)).status, 200);
    await cloud.beat('pump-4', 'four');
    t.equal((await cloud.putFirst({ destinations: [JAN] }, 'pump-3', 'three')).status, 204);
    t.equal((await cloud.call('DELETE', DEVICE, { key: 'three' })).status, 401, 'not for devices');
    await cloud.clock.advance(SECOND_MS);
    const removed = cloud.boss('DELETE', DEVICE);
    for (let s = 0; s < 10; s++) await cloud.clock.advance(SECOND_MS);
    t.equal((await removed).status, 204);
    const next = disk.afterPowerCut('nothing');
    t.equal((await cloud.beat('pump-3', key)).status, 401);
    t.equal((await cloud.boss('DELETE', DEVICE)).status, 404);
    t.equal((await cloud.call('GET', DESTINATIONS, { key: 'three' })).status, 404);
    await cloud.stop();
    await using again = await startCloud({ disk: next, keys });
    const { json } = await again.boss('GET', '/devices');
    t.match(json.devices, [
      { id: 'pump-3', state: 'unheard', destinations: null },
      { id: 'pump-4', state: 'online' },
    ]);
    t.equal((await again.call('GET', DESTINATIONS, { key: 'three' })).status, 404);
  },
);

t.test('the name of a device does no harm in a subject', async (t) => {
  const names = [
    'Pump\u0000 3',
    'Pump\u001b[31m 3',
    '\u202eevil\u202c',
    'a\u2028b',
    '\ud800',
    '\u001b',
    '\u200b',
    'ok 3',
  ];
  const said = names.map((name) => aboutOf({ name, destinations: [] }, 'pump-3').device);
  t.same(said, ['Pump 3', 'Pump [31m 3', 'evil', 'a b', 'pump-3', 'pump-3', 'pump-3', 'ok 3']);
  const { site, contact } = aboutOf({ destinations: [], site: ' Sluis\nnoord ', contact: 7 }, 'pump-3');
  t.same([site, contact], ['Sluis noord', null]);
});

t.test(
  'a reload changes the keys; a device without a key is still listed, one with a key at once',
  async (t) => {
    const keys = 'pump-3 three\n* boss\n';
    const env = { FIELDPOST_CLOUD_SERVER_KEYS_FILE: '/etc/keys' };
    await using cloud = await startCloud({ keys });
    const statusOf = async (id: string, key: string) => (await cloud.beat(id, key)).status;
    t.same([await statusOf('pump-3', 'three'), await statusOf('pump-4', 'four')], [200, 401]);
    t.same(await cloud.reload({ keys: 'pump-4 four\npump-8 eight\n* boss\n', env }), {
      taken: ['FIELDPOST_CLOUD_SERVER_KEYS_FILE'],
      waiting: [],
    });
    t.same([await statusOf('pump-3', 'three'), await statusOf('pump-4', 'four')], [401, 200]);
    const { json } = await cloud.boss('GET', '/devices');
    t.match(json.devices, [{ id: 'pump-3' }, { id: 'pump-4' }, { id: 'pump-8', state: 'unheard' }]);
    const others = { ...env, FIELDPOST_LOG: 'warn', FIELDPOST_CLOUD_SERVER_DELAY: '2m' };
    t.same(await cloud.reload({ keys, env: others }), {
      taken: ['FIELDPOST_CLOUD_SERVER_KEYS_FILE', 'FIELDPOST_LOG'],
      waiting: ['FIELDPOST_CLOUD_SERVER_DELAY'],
    });
    t.same(
      await cloud.reload({}),
      { taken: ['FIELDPOST_LOG'], waiting: ['FIELDPOST_CLOUD_SERVER_KEYS_FILE'] },
      'the cloud stays closed',
    );
    t.equal(await statusOf('pump-4', 'four'), 401);
  },
);

t.test('a heartbeat may report an interval and a move; a wrong one is refused', async (t) => {
  await using cloud = await startCloud();
  const beat = (body: object) => cloud.call('PUT', `${DEVICE}/heartbeat`, { body });
  t.equal((await beat({ state: 'running', intervalMs: 30_000 })).status, 200);
  t.equal((await beat({ state: 'moved', intervalMs: null })).status, 200);
  t.equal((await beat({ state: 'moved', bootId: 'b1', sequence: 1, uptimeMs: 3000 })).status, 200);
  t.equal((await beat({ state: 'running', bootId: 'b1', sequence: 9, uptimeMs: 2000 })).status, 200);
  t.match(
    (await cloud.call('GET', '/devices')).json.devices,
    [{ state: 'moved' }],
    'the second heartbeat was sent before the first',
  );
  for (const intervalMs of ['30s', -1, 1.5, 1e9]) {
    t.match(await beat({ state: 'running', intervalMs }), {
      status: 422,
      json: { errors: [{ pointer: '/intervalMs' }] },
    });
  }
  t.equal((await cloud.call('GET', '/devices/%ff/destinations')).status, 400);
  t.equal((await cloud.call('GET', '/devices/pump-3/%')).status, 400);
});
