/** The OpenAPI document is held against the routes, and against what they really answer. */
import { type Test, test } from 'tap';
import { DESTINATIONS } from '../../src/api/destinations.js';
import { ROUTES } from '../../src/api/routes.js';
import { PROBLEMS } from '../../src/http/problem.js';
import { type Answer, EMAIL, MESSAGES, startApi, type TestApi } from '../support/api.js';
import { BOUNDARY, bodyOf, NEEDED } from '../support/form.js';
import { stall } from '../support/stall.js';

// biome-ignore lint/suspicious/noExplicitAny: a JSON document that is looked at where it is expected to be
type Json = any;

async function documentOf(api: TestApi): Promise<Json> {
  return (await api.call('GET', '/openapi.json')).json;
}

/** What in `value` is not as `schema` says; as much of JSON Schema as the document uses. */
function faultsOf(value: Json, schema: Json, document: Json, at = ''): string[] {
  if (schema.$ref !== undefined) {
    const name = /^#\/components\/schemas\/(\w+)$/.exec(schema.$ref)?.[1] ?? '';
    return faultsOf(value, document.components.schemas[name], document, at);
  }
  const kind = value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value;
  const kinds = kind === 'number' && Number.isInteger(value) ? ['integer', 'number'] : [kind];
  const faults: string[] = [];
  const types = schema.type === undefined ? kinds : [schema.type].flat();
  if (!kinds.some((one) => types.includes(one))) return [`${at}: ${kind} is not ${types}`];
  if (schema.enum !== undefined && !schema.enum.includes(value)) faults.push(`${at}: ${value} is no choice`);
  if ('const' in schema && schema.const !== value) faults.push(`${at}: ${value} is not ${schema.const}`);
  if (schema.minimum > value) faults.push(`${at}: ${value} is too small`);
  if (schema.format === 'date-time' && value !== null && new Date(value).toISOString() !== value) {
    faults.push(`${at}: ${value} is no instant`);
  }
  if (kind === 'array') {
    if (schema.minItems > value.length) faults.push(`${at}: is too short`);
    for (const [i, item] of value.entries())
      faults.push(...faultsOf(item, schema.items ?? {}, document, `${at}/${i}`));
  }
  if (kind === 'object') {
    for (const name of schema.required ?? []) if (!(name in value)) faults.push(`${at}/${name}: is missing`);
    for (const [name, member] of Object.entries(value)) {
      const of = schema.properties?.[name];
      if (of !== undefined) faults.push(...faultsOf(member, of, document, `${at}/${name}`));
      else if (schema.additionalProperties === false) faults.push(`${at}/${name}: is unknown`);
    }
  }
  return faults;
}

test('the document has the routes, all of them and no others', async (t) => {
  await using api = await startApi();
  const document = await documentOf(api);
  t.equal(document.openapi, '3.1.0');
  t.equal(document.info.version, '1.2.3');
  const described = Object.entries(document.paths).flatMap(([path, item]) =>
    Object.keys(item as object)
      .filter((key) => key !== 'parameters')
      .map((method) => `${method.toUpperCase()} ${path}`),
  );
  t.same(described.sort(), ROUTES.map(({ method, path }) => `${method} ${path}`).sort());
  for (const [path, item] of Object.entries<Json>(document.paths)) {
    if (path.includes('{id}')) t.match(item.parameters, [{ name: 'id', in: 'path', required: true }], path);
  }
  const refs = JSON.stringify(document).matchAll(/"\$ref":"#\/components\/schemas\/(\w+)"/g);
  for (const [, name = ''] of refs) t.ok(name in document.components.schemas, name);
  t.same(
    document.components.schemas.Problem.properties.type.enum.length,
    Object.keys(PROBLEMS).length,
    'every code is named',
  );
});

test('the answers are those that the document describes', async (t) => {
  await using api = await startApi({
    settings: { maxBatch: 2, maxMessageBytes: 1000, apiToken: 's3cret' },
    budget: { maxQueue: 10 },
  });
  const token = { Authorization: 'Bearer s3cret' };
  const document = JSON.parse((await api.call('GET', '/openapi.json', { headers: token })).body);
  const seen = new Set<string>();

  const check = (method: string, path: string, answer: Answer, name: string) => {
    const operation = document.paths[path][method.toLowerCase()];
    const response = operation.responses[answer.status];
    if (response === undefined) return t.fail(`${method} ${path} answered ${answer.status}: ${name}`);
    seen.add(`${method} ${path} ${answer.status}`);
    const type = answer.headers['content-type']?.split(';')[0];
    if (response.content === undefined) return t.equal(type, undefined, name);
    const schema = response.content[type ?? '']?.schema;
    if (schema === undefined) return t.fail(`${method} ${path} answered ${answer.status} as ${type}`);
    return t.same(faultsOf(answer.json ?? answer.body, schema, document), [], `${method} ${path} ${name}`);
  };
  const call = async (
    method: string,
    path: string,
    { id = '', query = '', headers = {}, body = '' } = {},
  ) => {
    const answer = await api.call(method, path.replace('{id}', id) + query, {
      headers: { ...token, ...headers },
      body,
    });
    check(method, path, answer, `${id}${query} ${body.slice(0, 40)}`);
    return answer;
  };
  const post = (value: unknown, headers = {}) =>
    call('POST', MESSAGES, {
      headers: { 'Content-Type': 'application/json', ...headers },
      body: JSON.stringify(value),
    });

  await call('GET', '/healthz');
  const accepted = await post([EMAIL, { ...EMAIL, sound: 'x' }]);
  const [first, second] = accepted.json.map((entry: { id: string }) => entry.id);
  await post([EMAIL], { 'Idempotency-Key': 'k' });
  await post([{ ...EMAIL, subject: 'no' }], { 'Idempotency-Key': 'k' });
  await post([EMAIL], { 'Content-Type': 'text/plain' });
  await post([EMAIL, EMAIL, EMAIL]);
  await post([{}]);
  await post({});
  const form = (body: Buffer, type = `multipart/form-data; boundary=${BOUNDARY}`) =>
    call('POST', MESSAGES, { headers: { 'Content-Type': type }, body: body.toString() });
  await form(
    bodyOf([...NEEDED, { name: 'sound', content: 'x' }, { name: 'f', filename: 'a', content: 'b' }]),
  );
  await form(bodyOf([]));
  await form(bodyOf(NEEDED).subarray(9));
  await form(bodyOf(NEEDED), 'multipart/form-data');
  await form(bodyOf([{ name: 'f', filename: 'a', content: 'x'.repeat(2000) }]));
  await post([EMAIL], { Authorization: '' });
  await post([EMAIL], { Host: 'evil.example' });
  await api.fillDisk();
  await post([EMAIL]);
  await api.emptyDisk();
  api.breakDisk();
  await post([EMAIL]);
  await api.mendDisk();
  while (api.store.room().reason === null) await api.post([EMAIL], token);
  await post([EMAIL]);
  await api.store.cancel(api.store.list({ status: 'queued', limit: 1, after: null }).messages[0]?.id ?? '');
  const key = { 'Idempotency-Key': 'other' };
  const stalled = stall(api.disk);
  const slow = post([EMAIL], key);
  await stalled.arrived;
  await post([EMAIL], key);
  stalled.release();
  await slow;
  const { accept } = api.store;
  api.store.accept = async () => {
    throw new TypeError('bug');
  };
  await post([EMAIL]);
  api.store.accept = accept.bind(api.store);
  api.store.claim(first);
  await api.store.settle(first, { kind: 'deferred', reply: '450', delayMs: 1000 });
  for (const path of ['/api/internal/state', '/healthz', '/metrics', '/openapi.json', MESSAGES])
    await call('GET', path);
  await call('GET', MESSAGES, { query: '?limit=1&status=queued' });
  await call('GET', MESSAGES, { query: '?limit=0' });
  await call('GET', MESSAGES, { query: '?after=%' });
  for (const id of [first, second, 'nope']) await call('GET', `${MESSAGES}/{id}`, { id });
  for (const id of [second, second, 'nope']) await call('DELETE', `${MESSAGES}/{id}`, { id });
  for (const id of [first, second, 'nope']) await call('POST', `${MESSAGES}/{id}/retry`, { id });
  for (const what of ['flush', 'hold', 'release', 'purge']) await call('POST', `/api/internal/queue/${what}`);
  await call('POST', '/api/internal/queue/purge', { query: '?damaged=perhaps' });
  const [list, one] = [DESTINATIONS, `${DESTINATIONS}/{id}`];
  await call('GET', list, { query: '?hidden=perhaps' });
  const edit = (method: string, path: string, id: string, value: unknown, type = 'application/json') =>
    call(method, path, { id, headers: { 'Content-Type': type }, body: JSON.stringify(value) });
  const john = { type: 1, destination: 'john@example.com', lang: 'en', name: 'John' };
  const huge = { ...john, name: 'x'.repeat(2 ** 20) };
  for (const value of [john, john, { ...john, cc: 1, destination: 'x@example.com' }, {}, [], huge]) {
    await edit('POST', list, '', value);
    await edit('PUT', one, '1', value);
  }
  await edit('POST', list, '', john, 'text/plain');
  await edit('PUT', one, '1', john, 'text/plain');
  await edit('PUT', one, '9', john);
  const { etag = '' } = (await call('GET', list)).headers;
  await call('GET', list, { headers: { 'If-None-Match': etag } });
  for (const id of ['1', '9']) await call('GET', one, { id });
  await call('GET', one, { id: '1', headers: { 'If-None-Match': '*' } });
  const stale = { 'Content-Type': 'application/json', 'If-Match': '"stale"' };
  await call('POST', list, {
    headers: stale,
    body: JSON.stringify({ ...john, destination: 'q@example.com' }),
  });
  await call('PUT', one, { id: '1', headers: stale, body: JSON.stringify(john) });
  await call('DELETE', one, { id: '1', headers: stale });
  for (const id of ['2', '9']) await call('DELETE', one, { id });
  await edit('POST', list, '', { ...john, destination: 'y@example.com' });
  await edit('PUT', one, '3', john);

  await api.fillDisk();
  await edit('POST', list, '', { ...john, destination: 'z@example.com' });
  await edit('PUT', one, '1', { ...john, name: 'z' });
  const [retried = '', cancelled = ''] = [...api.store.queued()].map(({ id }) => id);
  api.store.claim(retried);
  await api.store.settle(retried, { kind: 'deferred', reply: '450', delayMs: 90_000 });
  for (const what of ['hold', 'release']) {
    // A thin volume: behind it nothing is free, not even for what lies in the journal already.
    api.disk.capacityBytes = 0;
    await api.store.book.remove(1).catch(() => undefined);
    await call('POST', `/api/internal/queue/${what}`);
    await call('DELETE', one, { id: '1' });
    await call('DELETE', `${MESSAGES}/{id}`, { id: cancelled });
    await call('POST', `${MESSAGES}/{id}/retry`, { id: retried });
    for (const other of ['flush', 'purge']) await call('POST', `/api/internal/queue/${other}`);
    await api.emptyDisk();
    await api.mendDisk();
    if (what === 'hold') await api.store.hold();
  }
  api.breakDisk();
  await call('POST', '/api/internal/queue/hold');
  for (const path of ['/api/internal/state', '/healthz', '/metrics']) await call('GET', path);

  for (const { method, path, status: done, cacheable, problems = [] } of ROUTES) {
    for (const status of [done, ...(cacheable ? [304] : []), ...problems]) {
      t.ok(seen.has(`${method} ${path} ${status}`), `${method} ${path} has been seen to answer ${status}`);
    }
  }
  await t.test('the check itself can fail', async (t: Test) => {
    const schema = document.components.schemas.Queue;
    const good = api.store.counts();
    t.same(faultsOf(good, schema, document), []);
    for (const bad of [null, [], {}, { ...good, queued: -1 }, { ...good, held: 1 }, { ...good, more: 1 }]) {
      t.not(faultsOf(bad, schema, document).length, 0, JSON.stringify(bad));
    }
  });
});
