/** The calls of local-api §2, over HTTP. */
import { test } from 'tap';
import { MIB } from '../../src/base/limits.js';
import { type Answer, isProblem, startApi, type TestApi } from '../support/api.js';

const LIST = '/api/internal/offline_notification_destinations';
const JOHN = { type: 1, destination: 'john@example.com', lang: 'en', name: 'John Doe' };
const JANE = { type: 2, destination: '+4915112345678', lang: 'de', name: 'Jane Doe' };

function call(api: TestApi, method: string, path: string, value?: unknown, headers = {}): Promise<Answer> {
  if (value === undefined) return api.call(method, path, { headers });
  return api.call(method, path, {
    headers: { 'Content-Type': 'application/json', ...headers },
    body: typeof value === 'string' ? value : JSON.stringify(value),
  });
}

test('a destination from its addition to its removal', async (t) => {
  await using api = await startApi();
  t.same((await call(api, 'GET', LIST)).json, []);
  const added = await call(api, 'POST', LIST, JOHN);
  t.equal(added.status, 201);
  t.same(added.json, { id: 1, plan: 'told at once', ...JOHN });
  t.equal(added.headers.location, `${LIST}/1`);
  t.same((await call(api, 'GET', added.headers.location ?? '')).json, added.json);
  t.same((await call(api, 'POST', LIST, JANE)).json, { id: 2, plan: 'told at once', ...JANE });
  t.same((await call(api, 'GET', LIST)).json, [
    { id: 1, plan: 'told at once', ...JOHN },
    { id: 2, plan: 'told at once', ...JANE },
  ]);
  const replaced = await call(api, 'PUT', `${LIST}/1`, { ...JOHN, lang: 'nl' });
  t.equal(replaced.status, 200);
  t.same(replaced.json, { id: 1, plan: 'told at once', ...JOHN, lang: 'nl' });
  t.equal(
    (await call(api, 'PUT', `${LIST}/1`, replaced.json)).status,
    200,
    'what was read can be written back',
  );
  const removed = await call(api, 'DELETE', `${LIST}/1`);
  t.same([removed.status, removed.body], [204, '']);
  for (const method of ['GET', 'DELETE']) {
    isProblem(t, await call(api, method, `${LIST}/1`), 404, 'not-found');
  }
  isProblem(t, await call(api, 'PUT', `${LIST}/1`, JOHN), 404, 'not-found');
  t.equal((await call(api, 'POST', LIST, JOHN)).json.id, 3, 'an id is never given again');
  t.equal(api.edits, 6, 'the sync hears of every edit');
  t.equal((await call(api, 'GET', '/api/internal/state')).json.destinations.count, 2);
});

test('entries of the cloud that are not understood are listed and removed', async (t) => {
  await using api = await startApi();
  const { book } = api;
  const uid = '00000000-0000-4000-9000-000000000001';
  const jane = { ...JANE, uid };
  const strange = [
    { uid: 'u' },
    'x',
    { ...JOHN, uid: uid.replace(/1$/, '2'), lang: 'sv' },
    { ...jane, name: 'Again' },
  ];
  await book.pull({ etag: '"1"', document: [jane, ...strange] });
  await book.stored('"2"');
  t.match((await call(api, 'GET', `${LIST}?hidden=false`)).json, [JANE]);
  const listed = await call(api, 'GET', `${LIST}?hidden=true`);
  t.match(listed.json, [
    { id: /^hidden-[0-9a-f]{16}$/, reason: /uid/, entry: { uid: 'u' } },
    { reason: /object/, entry: 'x' },
    { reason: /^lang must be/, entry: strange[2] },
    { reason: /another entry/, entry: strange[3] },
  ]);
  const again = await call(api, 'GET', `${LIST}?hidden=true`, undefined, {
    'If-None-Match': listed.headers.etag,
  });
  t.equal(again.status, 304);
  const at = (index: number) => `${LIST}/${listed.json[index].id}`;
  t.same((await call(api, 'GET', at(2))).json, listed.json[2]);
  isProblem(t, await call(api, 'PUT', at(2), JOHN), 404, 'not-found');
  for (const index of [1, 2]) t.equal((await call(api, 'DELETE', at(index))).status, 204);
  for (const method of ['GET', 'DELETE']) isProblem(t, await call(api, method, at(1)), 404, 'not-found');
  t.same(book.hidden, [strange[0], strange[3]]);
  t.same(
    (await book.pull('unchanged')).push?.document,
    [jane, strange[0], strange[3]],
    'the cloud hears of it',
  );
  t.equal(api.edits, 2, 'and the sync');
  isProblem(t, await call(api, 'GET', `${LIST}?hidden=yes`), 422, 'invalid');
});

test('a document full of unknown entries is answered in part', async (t) => {
  await using api = await startApi();
  const document = Array.from({ length: 30_000 }, (_, n) => n);
  await api.book.pull({ etag: '"1"', document });
  const listed = await call(api, 'GET', `${LIST}?hidden=true`);
  t.ok(listed.body.length <= MIB, `${listed.body.length} octets`);
  t.ok(listed.json.length > 10_000);
  t.match(listed.json.at(-1), { entry: listed.json.length - 1 }, 'the first of them');
});

test('a refused edit changes nothing', async (t) => {
  await using api = await startApi();
  await call(api, 'POST', LIST, JOHN);
  await call(api, 'POST', LIST, JANE);
  const before = await call(api, 'GET', LIST);

  const twice = { ...JANE, type: 1, destination: 'john@EXAMPLE.com' };
  for (const answer of [await call(api, 'POST', LIST, twice), await call(api, 'PUT', `${LIST}/2`, twice)]) {
    isProblem(t, answer, 409, 'conflict');
    t.match(answer.json.detail, /\b1\b/, 'it names the id');
  }
  const faulty = await call(api, 'POST', LIST, { type: 1, destination: 'nobody', lang: 'sv' });
  isProblem(t, faulty, 422, 'invalid');
  t.match(faulty.json.errors, [{ pointer: '/destination' }, { pointer: '/lang' }, { pointer: '/name' }]);
  t.match((await call(api, 'PUT', `${LIST}/1`, { ...JOHN, id: 2 })).json, {
    status: 422,
    errors: [{ pointer: '/id' }],
  });
  isProblem(t, await call(api, 'POST', LIST, [JOHN]), 400, 'malformed-request');
  isProblem(t, await call(api, 'POST', LIST, '{'), 400, 'malformed-json');
  isProblem(t, await call(api, 'POST', LIST), 415, 'unsupported-media-type');
  for (const id of ['0', '01', '-1', '1.0', 'x', '%31%30', '9007199254740993', '1%2F2']) {
    isProblem(t, await call(api, 'GET', `${LIST}/${id}`), 404, 'not-found');
  }
  const patch = await call(api, 'PATCH', `${LIST}/1`, JOHN);
  isProblem(t, patch, 405, 'method-not-allowed');
  t.equal(patch.headers.allow, 'GET, HEAD, PUT, DELETE');
  api.breakDisk();
  for (const method of ['PUT', 'DELETE']) {
    isProblem(t, await call(api, method, `${LIST}/1`, { ...JOHN, name: 'x' }), 503, 'storage-failed');
  }
  await api.mendDisk();
  t.equal((await call(api, 'GET', LIST)).body, before.body);
  t.equal(api.edits, 2);
});

test('an edit of an entry that has changed or is gone is refused', async (t) => {
  await using api = await startApi();
  const added = await call(api, 'POST', LIST, JOHN);
  const one = `${LIST}/1`;
  const etag = added.headers.etag as string;
  t.match(etag, /^"[^"]+"$/);
  t.equal((await call(api, 'GET', one)).headers.etag, etag, 'a single destination has an ETag');
  t.equal((await call(api, 'GET', one, undefined, { 'If-None-Match': etag })).status, 304);
  const changed = await call(api, 'PUT', one, { ...JOHN, name: 'J' }, { 'If-Match': etag });
  t.equal(changed.status, 200);
  const now = changed.headers.etag as string;
  t.not(now, etag);
  const list = (await call(api, 'GET', LIST)).headers.etag as string;
  const old = { 'If-Match': etag };
  isProblem(t, await call(api, 'PUT', one, JOHN, old), 412, 'precondition-failed');
  isProblem(t, await call(api, 'DELETE', one, undefined, old), 412, 'precondition-failed');
  const unquoted = await call(api, 'PUT', one, JOHN, { 'If-Match': now.slice(1, -1) });
  isProblem(t, unquoted, 400, 'malformed-request');
  const other = { ...JOHN, destination: 'other@example.com' };
  isProblem(t, await call(api, 'POST', LIST, other, old), 412, 'precondition-failed');
  t.equal((await call(api, 'GET', LIST)).headers.etag, list, 'nothing has changed');
  // Of two who have read the same, one comes first.
  const both = await Promise.all(
    ['a', 'b'].map((name) => call(api, 'PUT', one, { ...JOHN, name }, { 'If-Match': now })),
  );
  t.same(both.map(({ status }) => status).sort(), [200, 412]);
  t.equal((await call(api, 'POST', LIST, other, { 'If-Match': '*' })).status, 201);
  const { etag: last } = both.find(({ status }) => status === 200)?.headers ?? {};
  t.equal((await call(api, 'DELETE', one, undefined, { 'If-Match': String(last) })).status, 204);
  isProblem(t, await call(api, 'DELETE', one, undefined, { 'If-Match': '*' }), 404, 'not-found');
});

test('unknown fields are named in the answer', async (t) => {
  await using api = await startApi();
  const added = await call(api, 'POST', LIST, { id: 7, ...JOHN, phone: '1', uid: 'x' });
  t.same(added.json, { id: 1, plan: 'told at once', ...JOHN, ignored: ['id', 'phone', 'uid'] });
  t.ok(api.lines.some((line) => /fields ignored .*destination=1 fields=id,phone,uid/.test(line)));
  t.same((await call(api, 'PUT', `${LIST}/1`, { id: 1, ...JOHN, x: 1 })).json.ignored, ['x']);
  t.same((await call(api, 'GET', `${LIST}/1`)).json, { id: 1, plan: 'told at once', ...JOHN });
});

test('when a person is told', async (t) => {
  await using api = await startApi();
  const rules = { after_min: 60, hours: 'Mo-Fr 07:00-18:00', zone: 'Europe/Amsterdam' };
  const plan = 'told after 60 minutes of being offline, Monday to Friday 07:00-18:00 (Europe/Amsterdam)';
  const added = await call(api, 'POST', LIST, { ...JOHN, ...rules, night: null, confirmedAt: '2026' });
  t.same(added.json, { id: 1, ...JOHN, ...rules, plan, ignored: ['confirmedAt'] });
  const one = `${LIST}/1`;
  t.same((await call(api, 'GET', one)).json, { id: 1, ...JOHN, ...rules, plan });
  const old = await call(api, 'PUT', one, { ...JOHN, name: 'J' });
  t.same(old.json, { id: 1, ...JOHN, name: 'J', ...rules, plan }, 'a program that knows no rules keeps them');
  t.same((await call(api, 'PUT', one, old.json)).json, old.json, 'what was read can be written back');
  const weekly = await call(api, 'PUT', one, {
    ...JOHN,
    hours: null,
    after_min: 0,
    weekly: true,
    night: 'drop',
  });
  const week = 'told at once; a report each Monday at 07:00 (Europe/Amsterdam)';
  t.match(weekly.json, { after_min: 0, zone: rules.zone, weekly: true, night: 'drop', plan: week });
  t.notOk('hours' in weekly.json);

  const before = (await call(api, 'GET', one)).body;
  const bad = { after_min: 20_000, hours: 'Mo 07:00', zone: 'Mars', night: 'line', weekly: 'yes' };
  for (const [method, path] of [
    ['POST', LIST],
    ['PUT', one],
  ] as const) {
    const answer = await call(api, method, path, { ...JANE, ...bad });
    isProblem(t, answer, 422, 'invalid');
    t.match(answer.json.errors, [
      { pointer: '/after_min', detail: /from 0 to 10080, such as 60$/ },
      { pointer: '/hours', detail: /"Mo-Fr 07:00-18:00, Sa 09:00-12:00"/ },
      { pointer: '/zone', detail: /"Europe\/Amsterdam"/ },
      { pointer: '/night', detail: /"drop"/ },
      { pointer: '/weekly', detail: /true or false/ },
    ]);
  }
  t.equal((await call(api, 'GET', one)).body, before);
});

test('a list that is known is not sent again', async (t) => {
  await using api = await startApi();
  const { etag = '' } = (await call(api, 'GET', LIST)).headers;
  t.match(etag, /^"[^"]+"$/);
  const ask = (named: string) => call(api, 'GET', LIST, undefined, { 'If-None-Match': named });
  for (const named of [etag, `W/${etag}`, `"x", ${etag}`, '*']) {
    const { status, body, headers } = await ask(named);
    t.same([status, body, headers.etag], [304, '', etag], named);
  }
  t.equal((await ask('"x"')).status, 200);
  await call(api, 'POST', LIST, JOHN);
  const changed = await ask(etag);
  t.equal(changed.status, 200);
  t.not(changed.headers.etag, etag);
  t.equal((await call(api, 'HEAD', LIST)).headers.etag, changed.headers.etag);
});
