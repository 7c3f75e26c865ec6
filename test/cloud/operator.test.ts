/** The calls of the operator: keys, lists of devices as JSON and CSV, metrics, the description. */
import { connect } from 'node:net';
import { text as textOf } from 'node:stream/consumers';
import t from 'tap';
import { SECOND_MS } from '../../src/base/limits.js';
import type { SettingsFault } from '../../src/base/views.js';
import { FAULTS_MAX } from '../../src/cloud/cloud.js';
import { fleetMetrics } from '../../src/cloud/operator.js';
import { CLOUD_ROUTES } from '../../src/cloud/routes.js';
import { FakeClock } from '../support/clock.js';
import { described } from '../support/described.js';
import { FaultyDisk } from '../support/faulty-disk.js';
import { EWA, JAN, startCloud, type TestCloud } from '../support/reference-cloud.js';

const KEYS = '* boss\npump-3 three\n';
const QUEUE = { queued: 1, deferred: 2, failed: 0 };

t.test('a key made by a call opens its device, for the device and for the operator', async (t) => {
  await using cloud = await startCloud({ keys: KEYS });
  const made = await cloud.boss('POST', '/devices/pump-4/key');
  t.match(made, { status: 201, json: { id: 'pump-4', key: /^[\w-]{43}$/ } });
  t.equal(made.headers.get('cache-control'), 'no-store');
  const { key } = made.json;
  t.match((await cloud.boss('GET', '/devices/pump-4')).json, { id: 'pump-4', state: 'unheard' });
  t.equal((await cloud.beat('pump-4', key)).status, 200);
  t.equal((await cloud.beat('pump-3', key)).status, 401, 'no other device');
  t.equal((await cloud.beat('pump-4', 'three')).status, 401);
  t.equal((await cloud.call('GET', '/devices', { key })).status, 401, 'nor the calls of the operator');
  t.equal((await cloud.boss('GET', '/devices/pump-4/destinations')).status, 404);
  t.match((await cloud.boss('GET', '/devices/pump-4')).json, { state: 'online' });
  t.notMatch(cloud.lines.join(''), key, 'the log never has it');

  const second = (await cloud.boss('POST', '/devices/pump-4/key')).json.key;
  t.equal((await cloud.beat('pump-4', key)).status, 200);
  t.equal((await cloud.beat('pump-4', second)).status, 200);
  t.equal((await cloud.beat('pump-4', key)).status, 401, 'the new one was used');
});

t.test('a key made by a call stands beside that of the file, also after a reload of the file', async (t) => {
  await using cloud = await startCloud({ keys: KEYS });
  const { key } = (await cloud.boss('POST', '/devices/pump-3/key')).json;
  for (const one of [key, 'three']) t.equal((await cloud.beat('pump-3', one)).status, 200);
  await cloud.reload({ keys: '* boss\n' });
  t.equal((await cloud.beat('pump-3', 'three')).status, 401);
  t.equal((await cloud.beat('pump-3', key)).status, 200);
});

t.test('without a keys file no request that a proxy passes on is taken', async (t) => {
  await using open = await startCloud();
  await using guarded = await startCloud({ keys: '* any\npump-3 any\n' });
  const forwarded = [
    { Forwarded: 'for=203.0.113.7' },
    { Via: '1.1 proxy' },
    { 'X-Forwarded-For': '203.0.113.7' },
    { 'X-Forwarded-Proto': 'https' },
    { 'X-Real-IP': '203.0.113.7' },
  ];
  for (const headers of forwarded) {
    for (const path of ['/devices', '/devices/pump-3/destinations', '/metrics'])
      t.match(await open.call('GET', path, { headers }), { status: 403, json: { type: /not-local$/ } }, path);
    t.equal((await guarded.call('GET', '/devices', { headers })).status, 200, 'with keys it may be a proxy');
  }
  const request = 'GET /devices HTTP/1.0\r\nHost: 127.0.0.1\r\nAuthorization: Bearer any\r\n\r\n';
  const plain = connect(Number(new URL(open.url).port), '127.0.0.1').end(request);
  t.match(await textOf(plain), /^HTTP\/1\.1 403 /, 'nginx adds nothing by default');
  t.equal((await open.call('GET', '/devices')).status, 200);
});

t.test('only the operator makes keys, and only where keys are checked', async (t) => {
  await using cloud = await startCloud({ keys: KEYS });
  for (const key of ['three', 'x', null]) {
    t.equal((await cloud.call('POST', '/devices/pump-3/key', { key })).status, 401);
  }
  for (const id of ['*', '.x', 'a%20b', 'x'.repeat(129), '..%2Fkeys']) {
    t.match(await cloud.boss('POST', `/devices/${id}/key`), {
      status: 422,
      json: { errors: [{ pointer: 'id' }] },
    });
  }
  await using open = await startCloud();
  const refused = await open.call('POST', '/devices/pump-3/key');
  t.match(refused, { status: 409, json: { detail: /FIELDPOST_CLOUD_SERVER_KEYS_FILE/ } });
});

t.test('a key that only reads opens what the operator may read, and nothing else', async (t) => {
  const keys = `${KEYS}*:read eye\n`;
  await using cloud = await startCloud({ keys });
  await cloud.putFirst({ destinations: [JAN] }, 'pump-3', 'three');
  const status = async (method: string, path: string, body?: object) =>
    (await cloud.call(method, path, { key: 'eye', ...(body && { body }) })).status;
  const reads = CLOUD_ROUTES.filter((route) => route.method === 'GET' && route.for !== 'anyone');
  t.ok(reads.length > 5);
  for (const { path } of reads) {
    t.equal(await status('GET', path.replace('{id}', 'pump-3')), 200, path);
    t.equal(await status('HEAD', path.replace('{id}', 'pump-3')), 200, `HEAD ${path}`);
  }
  const changes = CLOUD_ROUTES.filter((route) => route.method !== 'GET' && route.for !== 'anyone');
  for (const { method, path } of changes)
    t.equal(await status(method, path.replace('{id}', 'pump-3'), {}), 403);
  t.match((await cloud.call('DELETE', '/devices/pump-3', { key: 'eye' })).json, {
    type: /forbidden$/,
    detail: /only reads/,
  });
  t.equal((await cloud.boss('GET', '/devices/pump-3')).json.destinations, 1, 'nothing has changed');
  t.equal(await status('GET', '/devices/pump-4/destinations'), 401, 'a device without a key of its own');
  for (const name of ['*', '*:read'])
    t.equal((await cloud.call('GET', `/devices/${name}/destinations`, { key: 'eye' })).status, 401, name);
  const { devices } = (await cloud.boss('GET', '/devices')).json;
  t.strictSame(
    devices.map(({ id }: { id: string }) => id),
    ['pump-3'],
    'it is no device',
  );
});

t.test('a refusal says what is missing: a key, that of the operator, or that of the device', async (t) => {
  await using cloud = await startCloud({ keys: KEYS });
  const words = async (key: string | null, method = 'GET', path = '/devices') => {
    const { status, json } = await cloud.call(method, path, { key });
    return `${status} ${json.detail}`;
  };
  t.match(await words(null), /^401 This call needs a key/);
  t.match(await words('three'), /^401 This call is for the operator/);
  t.match(
    await words('four', 'GET', '/devices/pump-3/destinations'),
    /^401 This device is not known, or its key/,
  );
  t.equal(await words('boss', 'DELETE', '/devices/pump-9'), '404 There is no device pump-9');
  t.match(
    await words('boss', 'DELETE', '/devices/pump-3'),
    /^404 .*line in FIELDPOST_CLOUD_SERVER_KEYS_FILE/,
  );
  await using open = await startCloud();
  t.match((await open.call('GET', '/devices', { key: null })).json.detail, /^This call needs a key/);
});

t.test('a device shows what it last reported; nothing of it makes a heartbeat invalid', async (t) => {
  await using cloud = await startCloud({ keys: KEYS });
  const reported = { version: '1.2.3', queue: QUEUE, relay: 'failing', link: 'offline' };
  await cloud.beat('pump-3', 'three', reported);
  t.match((await cloud.boss('GET', '/devices/pump-3')).json, { ...reported, late: [] });
  const strange = { version: {}, queue: [], relay: 7, link: 'x'.repeat(1000) };
  t.equal((await cloud.beat('pump-3', 'three', strange)).status, 200);
  const nothing = { version: null, queue: null, relay: null, link: null };
  t.match((await cloud.boss('GET', '/devices/pump-3')).json, nothing);
  t.equal((await cloud.call('GET', '/devices/pump-3', { key: 'three' })).status, 401);
});

t.test('the list takes filters and pages, and names each parameter that is wrong', async (t) => {
  await using cloud = await startCloud({ keys: KEYS });
  for (const n of [4, 5, 6]) await cloud.boss('POST', `/devices/pump-${n}/key`);
  await cloud.beat('pump-3', 'three', { version: '1.2.3', relay: 'failing' });
  const ids = async (query: string) =>
    (await cloud.boss('GET', `/devices?${query}`)).json.devices.map(({ id }: { id: string }) => id);
  t.strictSame(await ids(''), ['pump-3', 'pump-4', 'pump-5', 'pump-6']);
  t.strictSame(await ids('limit=2&after=pump-3'), ['pump-4', 'pump-5']);
  t.strictSame(await ids('state=online'), ['pump-3']);
  t.strictSame(await ids('q=MP-5'), ['pump-5']);
  t.strictSame(await ids('version=1.2.3'), ['pump-3']);
  t.strictSame(await ids('attention=true'), ['pump-3']);
  await cloud.boss('POST', '/devices/pump-20/key');
  t.equal((await cloud.putFirst({ name: 'Sluis', destinations: [] }, 'pump-20', 'boss')).status, 204);
  t.strictSame(await ids('q=slu'), ['pump-20'], 'by name');
  t.equal((await cloud.boss('GET', '/devices/pump-20')).json.name, 'Sluis');
  t.strictSame(await ids('order=id'), ['pump-3', 'pump-4', 'pump-5', 'pump-6', 'pump-20']);
  t.equal((await cloud.boss('DELETE', '/devices/pump-20')).status, 204);
  await cloud.boss('POST', '/devices/a/key');
  t.strictSame(await ids('order=attention&limit=2'), ['pump-3', 'a']);
  t.equal((await cloud.boss('DELETE', '/devices/a')).status, 204);
  t.strictSame(await ids('attention=false&other=1'), ['pump-3', 'pump-4', 'pump-5', 'pump-6']);
  const { json } = await cloud.boss('GET', '/devices?limit=1&state=unheard');
  t.match(json, { next: 'pump-4', total: 3, counts: { online: 1, unheard: 3, attention: 1 }, refused: 0 });
  const wrong = await cloud.boss('GET', '/devices?state=x&attention=1&limit=0&format=xml&order=x');
  t.equal(wrong.status, 422);
  t.strictSame(wrong.json.errors.map(({ pointer }: { pointer: string }) => pointer).sort(), [
    'attention',
    'format',
    'limit',
    'order',
    'state',
  ]);
  for (const limit of ['10001', '-1', '1.5', 'x', '']) {
    t.equal((await cloud.boss('GET', `/devices?limit=${limit}`)).status, 422, limit);
  }
});

t.test('CSV: quotes, no formulas, ISO times, and a link to the next page', async (t) => {
  await using cloud = await startCloud({ keys: KEYS });
  await cloud.boss('POST', '/devices/pump-4/key');
  const reported = { version: '=1+1,"x"', queue: QUEUE, relay: '@ok', link: 'online' };
  await cloud.beat('pump-3', 'three', reported);
  const now = new Date(cloud.clock.wallMs()).toISOString();
  const head =
    'id,state,since,lastHeartbeat,version,queued,deferred,failed,relay,link,destinations,name,site,tags,quiet,why,late';
  const { text, headers } = await cloud.boss('GET', '/devices?format=csv');
  t.strictSame(text.split('\r\n'), [
    head,
    `pump-3,online,${now},${now},"'=1+1,""x""",1,2,0,'@ok,online,,,,,,,`,
    'pump-4,unheard,,,,,,,,,,,,,,,',
    '',
  ]);
  t.equal(headers.get('content-type'), 'text/csv; charset=utf-8; header=present');
  t.match(headers.get('content-disposition'), /attachment; filename="devices.csv"/);
  t.equal(headers.get('link'), null);

  const page = await cloud.boss('GET', '/devices?format=csv&limit=1&q=pump');
  t.equal(page.headers.get('link'), '<?format=csv&limit=1&q=pump&after=pump-3>; rel="next"');
  const next = await cloud.boss('GET', '/devices?format=csv&limit=1&q=pump&after=pump-3');
  t.strictSame([next.text.split('\r\n')[1]?.slice(0, 6), next.headers.get('link')], ['pump-4', null]);
});

t.test('Accept chooses CSV if it names it first; format stands above it', async (t) => {
  await using cloud = await startCloud({ keys: KEYS });
  const typeFor = async (Accept: string, query = '') =>
    (await cloud.boss('GET', `/devices${query}`, { headers: { Accept } })).headers
      .get('content-type')
      ?.split(';')[0];
  t.equal(await typeFor('text/csv'), 'text/csv');
  t.equal(await typeFor('Text/CSV;q=0.9, */*;q=0.1'), 'text/csv');
  t.equal(await typeFor('application/json, text/csv'), 'application/json');
  t.equal(await typeFor('*/*'), 'application/json');
  t.equal(await typeFor('text/html'), 'application/json');
  t.equal(await typeFor('text/csv', '?format=json'), 'application/json');
});

/** The samples of the metrics, by name and labels. */
async function metricsOf(cloud: TestCloud): Promise<Record<string, number>> {
  const { text } = await cloud.call('GET', '/metrics', { key: 'boss' });
  const lines = [...text.matchAll(/^fieldpost_cloud_(\S+) (\S+)$/gm)];
  return Object.fromEntries(lines.map(([, name, value]) => [name, Number(value)]));
}

t.test('the metrics count devices, heartbeats, refusals, documents and messages to people', async (t) => {
  const clock = new FakeClock();
  await using cloud = await startCloud({
    keys: KEYS,
    clock,
    send: async () => ({ kind: 'taken', reply: '200' }),
  });
  t.equal((await cloud.call('GET', '/metrics', { key: 'three' })).status, 401);
  await cloud.boss('POST', '/devices/pump-4/key');
  const destinations = [{ ...JAN, type: 2, destination: '+31612345678' }];
  await cloud.putFirst({ destinations }, 'pump-3', 'boss');
  for (let n = 0; n < 2; n++) await cloud.beat('pump-3', 'three', { relay: 'failing' });
  t.match(await metricsOf(cloud), {
    'devices{state="online"}': 1,
    'devices{state="unheard"}': 1,
    'devices{state="offline"}': 0,
    devices_attention: 1,
    devices_quiet: 0,
    documents: 1,
    heartbeats_total: 2,
    'refused_total{code="unauthorized"}': 1,
    devices_refused_total: 0,
    leader: 1,
    store_available: 1,
    untold_devices: 0,
    'accepted_total{kind="notification"}': 0,
    'storage_state{state="ok"}': 1,
    'queue_messages{status="queued"}': 0,
  });
  for (let seconds = 0; seconds < 200; seconds += 10) await clock.advance(10 * SECOND_MS);
  const message = { id: 'm-1', type: 2, destination: '+31612345678', message: 'Hi' };
  const headers = { 'Idempotency-Key': 'm-1' };
  for (let n = 0; n < 2; n++) {
    const sent = await cloud.call('POST', '/devices/pump-3/messages', {
      key: 'three',
      headers,
      body: message,
    });
    t.equal(sent.status, 202);
  }
  await clock.advance(SECOND_MS);
  t.match(await metricsOf(cloud), {
    'devices{state="offline"}': 1,
    'accepted_total{kind="notification"}': 1,
    'accepted_total{kind="message"}': 1,
    'outcomes_total{outcome="sent"}': 2,
  });
});

t.test('the metrics of an instance say whether it tells people, and whether its store answers', async (t) => {
  const valuesOf = (isLeader: boolean, mayDecide: boolean) =>
    [
      ...fleetMetrics({ isLeader, mayDecide })
        .join('')
        .matchAll(/^(\w+ \d)$/gm),
    ].map(([line]) => line);
  const [leader, available] = ['fieldpost_cloud_leader', 'fieldpost_cloud_store_available'];
  t.same(valuesOf(true, true), [`${leader} 1`, `${available} 1`]);
  t.same(valuesOf(false, false), [`${leader} 0`, `${available} 0`]);
});

t.test('the status line counts devices, and tells of a fault', async (t) => {
  const clock = new FakeClock();
  const disk = new FaultyDisk({ directories: ['/var/lib'] });
  let fault: SettingsFault | null = null;
  await using cloud = await startCloud({ keys: KEYS, clock, disk, system: { settingsFault: () => fault } });
  t.equal(await cloud.status(), '0 devices online, 0 offline', 'a line of the keys file is neither');
  const { key } = (await cloud.boss('POST', '/devices/pump-4/key')).json;
  await cloud.beat('pump-3', 'three');
  await cloud.beat('pump-4', key);
  t.equal(await cloud.status(), '2 devices online, 0 offline');
  for (let seconds = 0; seconds < 200; seconds += 10) {
    await cloud.beat('pump-3', 'three');
    await clock.advance(10 * SECOND_MS);
  }
  t.equal(await cloud.status(), '1 device online, 1 offline');
  fault = { reason: 'FIELDPOST_LOG=loud: no', sinceMs: 0 };
  t.equal(await cloud.status(), 'settings refused (FIELDPOST_LOG=loud: no), 1 device online, 1 offline');
  t.match(await metricsOf(cloud), { settings_refused: 1 });
  fault = null;
  const { capacityBytes } = disk;
  disk.capacityBytes = 0;
  t.equal((await cloud.boss('GET', '/metrics')).status, 200);
  const { detail } = (await cloud.call('GET', '/healthz')).json;
  t.equal(await cloud.status(), `1 device online, 1 offline, ${detail}`);
  t.match(detail, /space|free/);
  // The stop writes, too.
  disk.capacityBytes = capacityBytes;
});

t.test('status: the state of the cloud, whom it could tell, and its last faults', async (t) => {
  await using cloud = await startCloud({ keys: KEYS });
  t.equal((await cloud.call('GET', '/status', { key: 'three' })).status, 401);
  const calm = (await cloud.boss('GET', '/status')).json;
  t.match(calm, { fault: null, store: 'files', settings: null, people: { named: 0, untold: 0 } });
  await cloud.putFirst({ destinations: [JAN, EWA] }, 'pump-3', 'boss');
  await cloud.beat('pump-3', 'three', { relay: 'failing' });
  for (let seconds = 0; seconds < 100; seconds += 10) await cloud.clock.advance(10 * SECOND_MS);
  t.match((await cloud.boss('GET', '/status')).json, {
    uptimeMs: 100_000,
    devices: { online: 0, offline: 1, attention: 1, refused: 0 },
    people: { named: 2 },
    relay: { state: 'none', name: null },
    storage: { state: 'ok' },
  });
});

t.test('status: the last faults of the log, and why the cloud cannot do its work', async (t) => {
  const ids = Array.from({ length: FAULTS_MAX + 2 }, (_, n) => `pump-${n}`);
  const keys = `* boss\n${ids.map((id) => `${id} key\n`).join('')}`;
  const env = { FIELDPOST_CLOUD_SERVER_HOURLY_LIMIT: '1' };
  await using cloud = await startCloud({ keys, env, send: async () => ({ kind: 'taken', reply: '200' }) });
  for (const device of ids) {
    for (const id of ['a', 'b']) {
      const body = { id, type: 2, destination: '+31612345678', message: 'Hi' };
      const headers = { 'Idempotency-Key': id };
      await cloud.call('POST', `/devices/${device}/messages`, { key: 'key', headers, body });
    }
  }
  const { faults } = (await cloud.boss('GET', '/status')).json;
  const now = new Date(cloud.clock.wallMs()).toISOString();
  t.equal(faults.length, FAULTS_MAX);
  t.match(faults[0], `${now} warn device limited device=${ids[2]} reason=`, 'the oldest make way');
  t.match(faults.at(-1), `device=${ids.at(-1)}`);
  t.match(cloud.lines.join(''), 'device limited device=pump-0', 'the log has all');

  const { disk } = cloud;
  const { capacityBytes } = disk;
  disk.capacityBytes = 0;
  const { fault, storage } = (await cloud.boss('GET', '/status')).json;
  t.match(storage.reason, /free/);
  t.equal(fault, storage.reason);
  // The stop writes, too.
  disk.capacityBytes = capacityBytes;
});

t.test('the description is for anyone, and sets the contract apart', async (t) => {
  await using cloud = await startCloud({ keys: KEYS });
  const { status, json, text, headers } = await cloud.call('GET', '/openapi.json', { key: null });
  t.equal(status, 200);
  t.equal(headers.get('content-type'), 'application/json');
  t.equal(text, JSON.stringify(described('fieldpost-cloud')), 'the document of the repository');
  // biome-ignore lint/suspicious/noExplicitAny: a JSON document
  const operations = Object.entries<any>(json.paths).flatMap(([path, item]) =>
    // biome-ignore lint/suspicious/noExplicitAny: a JSON document
    Object.entries<any>(item).map(([method, { tags, security }]) => ({ path, method, tags, security })),
  );
  const contract = operations.filter(({ tags }) => tags?.[0] === 'contract');
  t.strictSame(contract.map(({ path, method }) => `${method} ${path}`).sort(), [
    'get /devices/{id}/destinations',
    'post /devices/{id}/drill',
    'post /devices/{id}/mails',
    'post /devices/{id}/messages',
    'put /devices/{id}/destinations',
    'put /devices/{id}/heartbeat',
    'put /devices/{id}/quiet',
  ]);
  t.ok(contract.every(({ security }) => security[0].device !== undefined));
  t.strictSame(json.paths['/healthz'].get.security, []);
});

t.test('the requests of the examples in the description are accepted', async (t) => {
  await using cloud = await startCloud({ send: async () => ({ kind: 'taken', reply: '200' }) });
  const { paths } = described('fieldpost-cloud');
  const call = async (method: string, path: string, body: object, headers = {}) =>
    (await cloud.call(method, path.replace('{id}', 'pump-3'), { body, headers })).status;
  // biome-ignore lint/suspicious/noExplicitAny: a JSON document
  const contentOf = (operation: any) => operation.requestBody.content['application/json'];
  const beats = '/devices/{id}/heartbeat';
  t.equal(await call('PUT', beats, contentOf(paths[beats].put).example), 200);
  const documents = '/devices/{id}/destinations';
  t.equal(
    await call('PUT', documents, contentOf(paths[documents].put).example, { 'If-None-Match': '*' }),
    204,
  );
  const messages = '/devices/{id}/messages';
  // biome-ignore lint/suspicious/noExplicitAny: a JSON document
  for (const { value } of Object.values<any>(contentOf(paths[messages].post).examples))
    t.equal(await call('POST', messages, value, { 'Idempotency-Key': value.id }), 202);
});
