/** The OpenAPI document is held against the routes, and against what they really answer. */
import { test } from 'tap';
import type { ApiContext } from '../../src/device/api/context.js';
import { DESTINATIONS } from '../../src/device/api/destinations.js';
import type { DrillAnswer } from '../../src/device/link/client.js';
import { TEXT_FIELDS } from '../../src/mail/message/fields.js';
import { type Answer, EMAIL, MESSAGES, startApi, type TestApi } from '../support/api.js';
import { checkAgainst, described, type Exchanged, operationsOf } from '../support/described.js';
import { BOUNDARY, bodyOf, NEEDED } from '../support/form.js';
import { stall } from '../support/stall.js';

// biome-ignore lint/suspicious/noExplicitAny: a JSON document that is looked at where it is expected to be
type Json = any;

/** Statuses that any call may answer. */
const EVERYWHERE = ['400', '401', '403', '408', '431', '500', '503'];

const PROBLEM_ANSWER = {
  answerHeaders: { 'content-type': 'application/problem+json' },
  answerBody: JSON.stringify({
    type: 'urn:fieldpost:problem:not-found',
    title: 't',
    status: 404,
    detail: 'd',
  }),
};

async function documentOf(api: TestApi): Promise<Json> {
  return (await api.call('GET', '/openapi.json')).json;
}

function exchangedBy(
  method: string,
  path: string,
  headers: Readonly<Record<string, string>>,
  body: string,
  { status, headers: answerHeaders, body: answerBody }: Answer,
): Exchanged {
  const lower = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]);
  return { method, path, headers: Object.fromEntries(lower), body, status, answerHeaders, answerBody };
}

test('the document that is served is the one of the repository', async (t) => {
  await using api = await startApi();
  const answer = await api.call('GET', '/openapi.json');
  t.equal(answer.body, JSON.stringify(described('fieldpost')));
  t.match(answer.headers, { 'content-type': 'application/json', 'x-content-type-options': 'nosniff' });
});

/** A cloud that answers each kind of drill in turn, and hears every other word. */
function fakeTelling(): NonNullable<ApiContext['telling']> {
  const calm = { untilMs: null, why: null, by: null, isKnown: true, reason: null };
  const answers = [
    { kind: 'begun', people: 1 },
    { kind: 'unknown' },
    { kind: 'refused', reply: 'no' },
  ] as const;
  let words = 0;
  let drills = 0;
  return {
    quiet: { view: () => calm, begin: async () => calm, end: async () => calm },
    sayNow: async () => (words++ === 0 ? null : 'no route'),
    drill: async () => answers[drills++ % answers.length] as DrillAnswer,
  };
}

/** Calls that a device without a cloud refuses. */
const NEED_CLOUD = [
  ['PUT', '/api/internal/quiet', '{"for_s":1}'],
  ['DELETE', '/api/internal/quiet', ''],
  ['PUT', '/api/internal/lastword', '{"text":"x"}'],
] as const;

/** All answers of the calls by which the device speaks to people. */
async function callTelling(call: (method: string, path: string, more?: object) => Promise<unknown>) {
  const type = { 'Content-Type': 'application/json' };
  const [quiet, word] = ['/api/internal/quiet', '/api/internal/lastword'];
  const huge = `{"text":"${'x'.repeat(2 ** 20)}"}`;
  for (const path of [quiet, word])
    for (const body of ['{"for_s":1,"text":"x"}', '{"for_s":0}', '[]', '{', huge])
      await call('PUT', path, { headers: type, body });
  for (const path of [quiet, word])
    await call('PUT', path, { headers: { 'Content-Type': 'text/plain' }, body: '{}' });
  await call('GET', quiet);
  await call('DELETE', quiet);
  for (let kind = 0; kind < 3; kind++) await call('POST', '/api/internal/drill');
}

/** All answers of the calls of programs that give signs. */
async function callAlive(
  api: TestApi,
  call: (method: string, path: string, more?: object) => Promise<unknown>,
) {
  const [all, one] = ['/api/internal/alive', '/api/internal/alive/{id}'];
  const sign = (id: string, query = '?within=10m') => call('PUT', one, { id, query });
  for (const query of ['?within=10m&to=ops@example.com', '?within=10m&to=ops@example.com', '?within=5'])
    await sign('plc', query);
  await call('GET', all);
  await api.fillDisk();
  await sign('other');
  await api.emptyDisk();
  api.disk.onOperation = () => 'error:ENOSPC';
  await call('DELETE', one, { id: 'plc' });
  api.disk.onOperation = () => 'ok';
  for (let index = 0; index < 100; index++) await sign(`p${index}`);
  await call('DELETE', one, { id: 'plc' });
  await call('DELETE', one, { id: 'plc' });
}

test('the answers are those that the document describes', async (t) => {
  await using api = await startApi({
    settings: { maxBatch: 2, maxMessageBytes: 1000, apiToken: 's3cret' },
    budget: { maxQueue: 10 },
    telling: fakeTelling(),
  });
  const token = { Authorization: 'Bearer s3cret' };
  const document = JSON.parse((await api.call('GET', '/openapi.json', { headers: token })).body);
  const seen = new Set<string>();

  const faultsOf = checkAgainst(document);
  const call = async (
    method: string,
    path: string,
    { id = '', query = '', headers = {}, body = '' } = {},
  ) => {
    const target = path.replace('{id}', id) + query;
    const answer = await api.call(method, target, { headers: { ...token, ...headers }, body });
    seen.add(`${method === 'HEAD' ? 'GET' : method} ${path} ${answer.status}`);
    t.same(faultsOf(exchangedBy(method, target, headers, body, answer)), [], `${method} ${target}`);
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
  for (const path of ['/api/internal/state', '/healthz', '/metrics', '/openapi.json', '/', MESSAGES])
    await call('GET', path);
  for (const query of ['', '?step=1h', '?step=1d']) await call('GET', '/api/internal/history', { query });
  await call('HEAD', '/api/internal/events');
  await call('GET', MESSAGES, { query: '?limit=1&status=queued' });
  await call('GET', MESSAGES, { query: '?limit=0' });
  await call('GET', MESSAGES, { query: '?after=%' });
  await call('GET', `${MESSAGES}/{id}`, { id: first, query: '?wait=long' });
  for (const id of [first, second, 'nope']) await call('GET', `${MESSAGES}/{id}`, { id });
  for (const id of [second, second, 'nope']) await call('DELETE', `${MESSAGES}/{id}`, { id });
  for (const id of [first, second, 'nope']) await call('POST', `${MESSAGES}/{id}/retry`, { id });
  for (const what of ['flush', 'hold', 'release', 'purge']) await call('POST', `/api/internal/queue/${what}`);
  await call('POST', '/api/internal/queue/purge', { query: '?damaged=perhaps' });
  await call('POST', '/api/internal/relay/trial');
  await callTelling(call);
  await callAlive(api, call);
  await using alone = await startApi();
  for (const [method, path, body] of NEED_CLOUD) {
    const { status } = await alone.call(method, path, {
      headers: { 'Content-Type': 'application/json' },
      body,
    });
    seen.add(`${method} ${path} ${status}`);
  }
  const [list, one, trial] = [DESTINATIONS, `${DESTINATIONS}/{id}`, `${DESTINATIONS}/{id}/test`];
  await call('GET', list, { query: '?hidden=perhaps' });
  const edit = (method: string, path: string, id: string, value: unknown, type = 'application/json') =>
    call(method, path, { id, headers: { 'Content-Type': type }, body: JSON.stringify(value) });
  const john = { type: 1, destination: 'john@example.com', lang: 'en', name: 'John' };
  const huge = { ...john, name: 'x'.repeat(2 ** 20) };
  for (const value of [john, john, { ...john, cc: 1, destination: 'x@example.com' }, {}, [], huge]) {
    await edit('POST', list, '', value);
    await edit('PUT', one, '1', value);
  }
  for (const id of ['1', '1', '1', '9']) await call('POST', trial, { id });
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
  const [retried = '', cancelled = '', failed = ''] = [...api.store.queued()].map(({ id }) => id);
  api.store.claim(retried);
  await api.store.settle(retried, { kind: 'deferred', reply: '450', delayMs: 90_000 });
  await api.emptyDisk();
  api.store.claim(failed);
  await api.store.settle(failed, { kind: 'failed', reply: '550' });
  const allFailed = async (query: string) => {
    await call('POST', '/api/internal/queue/retry', { query });
    await call('DELETE', MESSAGES, { query });
  };
  await allFailed('');
  for (const what of ['hold', 'release']) {
    // A thin volume: behind it nothing is free, not even for what lies in the journal already.
    api.disk.capacityBytes = 0;
    await api.book.remove(1).catch(() => undefined);
    await call('POST', `/api/internal/queue/${what}`);
    await call('DELETE', one, { id: '1' });
    await allFailed('?status=failed');
    await call('DELETE', `${MESSAGES}/{id}`, { id: cancelled });
    await call('POST', `${MESSAGES}/{id}/retry`, { id: retried });
    for (const other of ['flush', 'purge']) await call('POST', `/api/internal/queue/${other}`);
    await api.emptyDisk();
    await api.mendDisk();
    if (what === 'hold') await api.store.hold();
  }
  await allFailed('?status=failed');
  api.breakDisk();
  await call('POST', '/api/internal/queue/hold');
  for (const path of ['/api/internal/state', '/healthz', '/metrics', '/']) await call('GET', path);

  for (const { name, operation } of operationsOf(document)) {
    for (const status of Object.keys(operation.responses).filter((one) => !EVERYWHERE.includes(one)))
      t.ok(seen.has(`${name} ${status}`), `${name} has been seen to answer ${status}`);
  }
});

test('programs made from the document have names, kinds and a server', async (t) => {
  await using api = await startApi();
  const document = await documentOf(api);
  const { servers, info, components } = document;
  t.same(servers[0].url, 'http://127.0.0.1:43770');
  t.match(info.license, { name: 'MIT' });
  const names = operationsOf(document).map(({ operation }) => operation.operationId);
  // Programs use them: a change breaks those.
  t.same(names, [
    ...['postMessages', 'listMessages', 'dropFailed', 'getMessage', 'cancelMessage', 'retryMessage'],
    ...['retryFailed', 'flushQueue', 'holdQueue', 'releaseQueue', 'purgeQueue', 'tryRelays'],
    ...['listDestinations', 'addDestination', 'getDestination', 'replaceDestination', 'removeDestination'],
    ...['testDestination', 'beginDrill', 'getQuiet', 'beginQuiet', 'endQuiet', 'sayLastWord'],
    ...['listPrograms', 'giveSign', 'endWatch'],
    ...['getHistory', 'getState', 'getHealth', 'getEvents', 'getMetrics', 'getStatusPage', 'getDescription'],
  ]);
  const { oneOf, discriminator } = components.schemas.Draft;
  t.same(
    Object.values(discriminator.mapping),
    oneOf.map(({ $ref }: Json) => $ref),
  );
  for (const [type, path] of Object.entries<string>(discriminator.mapping)) {
    const kind = components.schemas[path.replace('#/components/schemas/', '')];
    t.equal(String(kind.properties[discriminator.propertyName].const), type, path);
    t.ok(kind.required.includes(discriminator.propertyName));
  }
});

/** Bodies that the API takes or refuses, and the description does, too. */
const HEADS: readonly (readonly [isGood: boolean, fields: Json])[] = [
  [true, { to: ['Ann <ann@example.com>', 'bob@example.com'], cc: null, reply_to: 'desk@example.com' }],
  [true, { bcc: ['ann@example.com'], reply_to: ['desk@example.com'], priority: 'high', expires_in_s: 1 }],
  [true, { destination: 'ann@example.com', headers: { 'X-Site': 'north' }, priority: null }],
  [false, { to: 'ann@example.com' }],
  [false, { destination: 'ann@example.com', cc: 'bob@example.com' }],
  [false, { destination: 'ann@example.com', headers: { 'X-Site': '' } }],
  [false, { destination: 'ann@example.com', headers: { 'X-Site': 1 } }],
  [false, { destination: 'ann@example.com', headers: ['X-Site: north'] }],
  [false, { destination: 'ann@example.com', from: ['ann@example.com'] }],
  [false, { destination: 'ann@example.com', priority: 'urgent' }],
  [false, { destination: 'ann@example.com', expires_in_s: 0 }],
  [false, { destination: 'ann@example.com', expires_in_s: 2_592_001 }],
  [false, { destination: 'ann@example.com', expires_in_s: '60' }],
  [true, { destination: 'ann@example.com', collapse_key: '!~', collapse_count: true }],
  [true, { destination: 'ann@example.com', collapse_key: null, collapse_count: null }],
  [false, { destination: 'ann@example.com', collapse_key: 'a b' }],
  [false, { destination: 'ann@example.com', collapse_key: '' }],
  [false, { destination: 'ann@example.com', collapse_key: 'a', collapse_count: 'true' }],
  [false, {}],
];

test('the description takes and refuses the fields of a mail that the API does', async (t) => {
  await using api = await startApi();
  const document = await documentOf(api);
  const faultsOf = checkAgainst(document);
  const json = { 'content-type': 'application/json' };
  for (const [isGood, fields] of HEADS) {
    const drafts = [{ type: 1, subject: 'x', ...fields }];
    const body = JSON.stringify(drafts);
    t.equal((await api.post(drafts)).status, isGood ? 202 : 422, body);
    const answer = await api.post([EMAIL]);
    t.equal(faultsOf(exchangedBy('POST', MESSAGES, json, body, answer)).length === 0, isGood, body);
  }
  const { Form, Email } = document.components.schemas;
  for (const name of TEXT_FIELDS) {
    t.ok(name in Form.properties, `a form has ${name}`);
    t.ok(name in Email.properties, `an email has ${name}`);
  }
});

test('the requests of the examples are accepted', async (t) => {
  await using api = await startApi({ settings: { cloud: {} as never } });
  const { paths } = described('fieldpost');
  const json = { 'Content-Type': 'application/json' };
  const bodyOf = (operation: Json) => operation.requestBody.content['application/json'];
  const { examples } = bodyOf(paths[MESSAGES].post);
  for (const [name, { value }] of Object.entries<Json>(examples))
    t.equal((await api.post(value)).status, 202, name);
  const add = JSON.stringify(bodyOf(paths[DESTINATIONS].post).example);
  t.equal((await api.call('POST', DESTINATIONS, { headers: json, body: add })).status, 201);
  const replace = JSON.stringify(bodyOf(paths[`${DESTINATIONS}/{id}`].put).example);
  t.equal((await api.call('PUT', `${DESTINATIONS}/1`, { headers: json, body: replace })).status, 200);
});

test('the check of the suites finds what is not as described', async (t) => {
  await using api = await startApi();
  const document = await documentOf(api);
  const faultsOf = checkAgainst(document);
  const json = { 'content-type': 'application/json' };
  const answer = await api.post([EMAIL]);
  const good = exchangedBy('POST', MESSAGES, json, JSON.stringify([EMAIL]), answer);
  t.same(faultsOf(good), []);
  const [entry] = answer.json;
  const got = await api.call('GET', `${MESSAGES}/${entry.id}`);
  const one = exchangedBy('GET', `${MESSAGES}/${entry.id}?wait=0`, {}, '', got);
  t.same(faultsOf(one), []);
  const bad: Record<string, Exchanged> = {
    'a status': { ...good, status: 200 },
    'a call': { ...one, path: '/api/internal/secret' },
    'a method': { ...one, method: 'PUT' },
    'a content type': { ...good, answerHeaders: { 'content-type': 'text/plain' } },
    'no body': { ...good, answerHeaders: {} },
    'a member too many': { ...one, answerBody: JSON.stringify({ ...got.json, secret: 1 }) },
    'a member too few': { ...one, answerBody: JSON.stringify({ ...got.json, final: undefined }) },
    'a member of another type': { ...one, answerBody: JSON.stringify({ ...got.json, attempts: '1' }) },
    'no instant': { ...one, answerBody: JSON.stringify({ ...got.json, acceptedAt: 'today' }) },
    'a body where none is described': { ...one, method: 'DELETE', status: 204 },
    'a parameter that is not described': { ...one, path: `${one.path}&repair=yes` },
    'a header that is not described': { ...good, answerHeaders: { ...good.answerHeaders, location: '/x' } },
    'a parameter': { ...one, path: `${one.path.slice(0, -1)}301` },
    'a header': { ...good, headers: { ...json, 'idempotency-key': 'a b' } },
    'a body of another type': { ...good, headers: { 'content-type': 'text/html' } },
    'a message without a recipient': { ...good, body: JSON.stringify([{ type: 1, subject: 'x' }]) },
    'a message of no kind': { ...good, body: JSON.stringify([{ ...EMAIL, type: 5 }]) },
    'a problem without Retry-After': {
      ...good,
      status: 503,
      answerHeaders: { 'content-type': 'application/problem+json' },
    },
  };
  for (const [name, exchanged] of Object.entries(bad)) t.not(faultsOf(exchanged).length, 0, name);
  t.same(faultsOf({ ...one, path: '/api/internal/secret', status: 404, ...PROBLEM_ANSWER }), []);
});
