/** The calls of local-api §1, and those of §3 that tell how the daemon is doing. */
import { once } from 'node:events';
import { test } from 'tap';
import { type ErrorCode, FieldpostError } from '../../src/base/errors.js';
import { DAY_MS, LIST_LIMIT_MAX, MIB } from '../../src/base/limits.js';
import { LIST_LIMIT_DEFAULT } from '../../src/device/api/messages.js';
import type { Address } from '../../src/mail/message/address.js';
import type { Attachment } from '../../src/mail/message/message.js';
import { BATCH_MESSAGES } from '../../src/mail/store/failed.js';
import { SPACE_FRESH_MS } from '../../src/mail/store/free-space.js';
import type { Store } from '../../src/mail/store/store.js';
import { type Answer, EMAIL, isProblem, MESSAGES, startApi, type TestApi } from '../support/api.js';
import { settled } from '../support/clock.js';
import { addFile } from '../support/spool.js';
import { stall } from '../support/stall.js';
import { newDisk, passThrough, watch } from '../support/store.js';
import { systemError } from '../support/system-error.js';

/** Posts `count` emails in one request and gives their ids. */
async function postSome(api: TestApi, count: number): Promise<string[]> {
  const answer = await api.post(Array.from({ length: count }, () => EMAIL));
  return answer.json.map((entry: { id: string }) => entry.id);
}

/** Records the outcome of an attempt. */
async function settle(api: TestApi, id: string, outcome: Parameters<Store['settle']>[1]): Promise<void> {
  api.store.claim(id);
  await api.store.settle(id, outcome);
}

/** The view of a message. */
const viewOf = async (api: TestApi, id: string) => (await api.call('GET', `${MESSAGES}/${id}`)).json;

test('accepting', async (t) => {
  await using api = await startApi();
  const answer = await api.post([
    EMAIL,
    { ...EMAIL, destination: 'b@example.com', sound: 'x', plain: 'a\nb' },
  ]);
  t.equal(answer.status, 202);
  t.equal(answer.headers['content-type'], 'application/json');
  const [first, second] = answer.json.map(({ id }: { id: string }) => id);
  t.same(answer.json, [
    { id: first, type: 1, destination: 'john@example.com', status: 'queued' },
    { id: second, type: 1, destination: 'b@example.com', status: 'queued', ignored: ['sound'] },
  ]);
  t.equal(api.nudges, 1);
  const message = api.store.get(second);
  t.same(message && (await api.store.content(message)), { subject: 'Hi', plain: 'a\r\nb', html: '' });
  const logged = api.lines.filter((line) => line.includes('fields ignored'));
  t.same(logged, [`<6>fields ignored id=${second} fields=sound\n`]);
});

test('the answer comes after the commit, not before', async (t) => {
  await using api = await startApi();
  const { arrived, release } = stall(api.disk);
  let answered = false;
  const posted = api.post([EMAIL]).finally(() => {
    answered = true;
  });
  await arrived;
  t.equal((await api.call('GET', '/healthz')).status, 200, 'a whole other request goes through meanwhile');
  t.notOk(answered);
  t.equal(api.nudges, 0);
  release();
  t.equal((await posted).status, 202);
});

test('a single message is taken like an array of one', async (t) => {
  await using api = await startApi();
  const one = await api.post(EMAIL);
  t.equal(one.status, 202);
  t.match(one.json, [{ type: 1, destination: EMAIL.destination, status: 'queued' }]);
  t.equal(one.json.length, 1);
  const bad = await api.post({ ...EMAIL, destination: 'x' });
  isProblem(t, bad, 422, 'invalid');
  t.match(bad.json.errors, [{ pointer: '/destination' }]);
  t.equal(api.size, 1);
});

test('the newest message of a key replaces those that wait', async (t) => {
  await using api = await startApi({ budget: { maxQueue: 3 } });
  const mail = { ...EMAIL, collapse_key: 'pump-3', collapse_count: true };
  const { json } = await api.post([mail, mail]);
  t.match(json, [{ status: 'queued' }, { status: 'queued' }], 'each has an id');
  const [first, second] = json.map(({ id }: { id: string }) => id);
  t.match(await viewOf(api, first), { status: 'replaced', final: true, replacedBy: second });
  const waiting = api.call('GET', `${MESSAGES}/${second}?wait=60`);
  await settled();
  for (let i = 0; i < 20; i++) t.equal((await api.post(mail)).status, 202, 'also in a small queue');
  t.match((await waiting).json, { status: 'replaced', replacedBy: /^[0-9A-Z]{15}$/ }, 'a wait ends');
  const listed = (await api.call('GET', `${MESSAGES}?status=replaced`)).json.messages;
  t.equal(listed.length, 21);
  const { json: left } = await api.call('GET', `${MESSAGES}?status=queued`);
  t.equal(left.messages.length, 1);
  t.match(api.store.get(left.messages[0].id)?.extras, { collapse: 'pump-3', counts: true, replaced: 21 });
  isProblem(t, await api.call('DELETE', `${MESSAGES}/${second}`), 409, 'conflict');
  isProblem(t, await api.call('POST', `${MESSAGES}/${second}/retry`), 409, 'conflict');
  const again = await api.post(mail, { 'Idempotency-Key': 'a' });
  const replay = await api.post(mail, { 'Idempotency-Key': 'a' });
  t.same(replay.json, again.json);
  t.equal((await viewOf(api, again.json[0].id)).status, 'queued', 'a repeated request replaces nothing');
  const other = await api.post({ ...mail, collapse_key: 'x' }, { 'Idempotency-Key': 'a' });
  isProblem(t, other, 422, 'invalid', 'the key belongs to the content');
});

test('all or nothing: one fault refuses the array and names every fault', async (t) => {
  await using api = await startApi({ settings: { maxBatch: 3 } });
  const answer = await api.post([EMAIL, { ...EMAIL, destination: 'x', subject: 'a\n' }, 7]);
  isProblem(t, answer, 422, 'invalid');
  t.same(
    answer.json.errors.map((fault: { pointer: string }) => fault.pointer),
    ['/1/destination', '/1/subject', '/2'],
  );
  isProblem(t, await api.post([]), 400, 'malformed-request');
  isProblem(t, await api.post('mail'), 400, 'malformed-request');
  const cloudless = await api.post([{ type: 2, destination: '+316', message: 'x' }]);
  isProblem(t, cloudless, 422, 'invalid');
  t.match(cloudless.json.errors, [{ pointer: '/0/type', detail: /FIELDPOST_CLOUD/ }]);
  t.equal((await api.post([EMAIL, EMAIL, EMAIL])).status, 202, 'exactly the limit');
  const large = await api.post([EMAIL, EMAIL, EMAIL, EMAIL]);
  isProblem(t, large, 413, 'too-large');
  t.match(large.json.detail, /limit of 3/);
  t.equal(api.size, 3);
});

test('bodies that are no JSON in UTF-8', async (t) => {
  await using api = await startApi();
  const post = (body: string | Buffer, headers: Record<string, string>) =>
    api.call('POST', MESSAGES, { body, headers });
  const good = JSON.stringify([EMAIL]);
  const json = { 'Content-Type': 'application/json' };
  for (const type of [
    'application/json; charset=utf-8',
    'Application/JSON;charset="UTF-8"',
    'application/json ; x=y',
  ]) {
    t.equal((await post(good, { 'Content-Type': type })).status, 202, type);
  }
  t.equal((await post(`\ufeff${good}`, json)).status, 202, 'a byte order mark');
  t.equal((await post(good, { ...json, 'Content-Encoding': 'identity' })).status, 202);
  const accepted = api.size;

  for (const body of ['{', '', '[1,]', `${good}x`, 'nul', '\0', '['.repeat(100_000)]) {
    isProblem(t, await post(body, json), 400, 'malformed-json');
  }
  for (const bytes of [[0xff], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xe2, 0x82]]) {
    const text = Buffer.concat([Buffer.from('["'), Buffer.from(bytes), Buffer.from('"]')]);
    isProblem(t, await post(text, json), 400, 'malformed-json');
  }
  for (const type of [
    'text/plain',
    'application/x-www-form-urlencoded',
    'application/jsonx',
    'application/json; charset=latin1',
    'message/http',
    '',
  ]) {
    isProblem(t, await post(good, { 'Content-Type': type }), 415, 'unsupported-media-type');
  }
  isProblem(t, await post(good, {}), 415, 'unsupported-media-type');
  isProblem(t, await post(good, { ...json, 'Content-Encoding': 'gzip' }), 415, 'unsupported-media-type');
  t.equal(api.size, accepted);
});

test('faults of the store', async (t) => {
  const cases: [ErrorCode, number, string, (api: TestApi) => unknown][] = [
    ['queue-full', 429, '60', () => undefined],
    ['storage-full', 507, '60', (api) => api.fillDisk()],
    ['storage-failed', 503, '30', (api) => api.breakDisk()],
    ['stopping', 503, '5', (api) => api.store.close()],
  ];
  for (const [code, status, retryAfter, begin] of cases) {
    await using api = await startApi({ budget: { maxQueue: code === 'queue-full' ? 0 : 1 } });
    await begin(api);
    const answer = await api.post([EMAIL]);
    isProblem(t, answer, status, code);
    t.equal(answer.headers['retry-after'], retryAfter, code);
    if (code === 'stopping') t.equal(answer.json.detail, 'the daemon is stopping; try again in a moment');
    t.equal(api.nudges, 0);
  }
});

test('a bug in the daemon', async (t) => {
  await using api = await startApi();
  api.store.accept = async () => {
    throw new TypeError('secret detail');
  };
  const answer = await api.post([EMAIL]);
  isProblem(t, answer, 500, 'internal');
  t.notOk('retry-after' in answer.headers);
  t.notMatch(answer.body, /secret|TypeError|\.ts/, 'no words of a bug in the answer');
  t.equal(api.lines.filter((line) => line.startsWith('<3>request failed')).length, 1, 'logged once');
  t.match(api.lines.join(''), /secret detail/);
  t.equal(api.nudges, 0);
});

test('an Idempotency-Key', async (t) => {
  await using api = await startApi();
  const key = { 'Idempotency-Key': 'k-1' };
  const first = await api.post([EMAIL], key);
  t.equal(first.status, 202);
  t.notOk('idempotency-replayed' in first.headers);
  const body = ` [ {"subject":"Hi", "sound":"me","destination":"john@example.com","type":1,"plain":null} ]`;
  const again = await api.call('POST', MESSAGES, {
    headers: { ...key, 'Content-Type': 'application/json' },
    body,
  });
  t.equal(again.status, 202);
  t.equal(again.headers['idempotency-replayed'], 'true');
  t.same(again.json, [{ ...first.json[0], ignored: ['sound'] }], 'the same content, however it is written');
  t.equal(api.size, 1);
  t.equal(api.nudges, 1, 'a replay queues nothing');

  const others = [
    { ...EMAIL, destination: 'b@example.com' },
    { ...EMAIL, subject: 'Ho' },
    { ...EMAIL, plain: 'x' },
    { ...EMAIL, html: 'x' },
    { type: 1, destination: 'john@example.com', plain: 'Hi' },
  ];
  for (const other of others) isProblem(t, await api.post([other], key), 422, 'invalid');
  isProblem(t, await api.post([EMAIL, EMAIL], key), 422, 'invalid');

  const { arrived, release } = stall(api.disk);
  const slow = api.post([EMAIL], { 'Idempotency-Key': 'k-2' });
  await arrived;
  isProblem(t, await api.post([EMAIL], { 'Idempotency-Key': 'k-2' }), 409, 'conflict');
  release();
  t.equal((await slow).status, 202);

  for (const good of ['!', '~'.repeat(255), '"quoted"']) {
    t.equal((await api.post([EMAIL], { 'Idempotency-Key': good })).status, 202, good.slice(0, 9));
  }
  for (const bad of ['', 'x'.repeat(256), 'a b', 'a\tb', 'k\u00e9']) {
    isProblem(t, await api.post([EMAIL], { 'Idempotency-Key': bad }), 400, 'malformed-request');
  }
  const twice = { 'Idempotency-Key': 'a', 'idempotency-key': 'b' };
  isProblem(t, await api.post([EMAIL], twice), 400, 'malformed-request');
});

test('the outcome of a message', async (t) => {
  await using api = await startApi();
  const [first = '', second = ''] = await postSome(api, 2);
  const one = await api.call('GET', `${MESSAGES}/${first}`);
  t.equal(one.status, 200);
  t.same(one.json, {
    id: first,
    type: 1,
    destination: 'john@example.com',
    from: 'device@example.com',
    subject: 'Hi',
    messageId: `${first}.${api.store.storeId}@example.com`,
    size: '{"subject":"Hi"}'.length,
    priority: 'normal',
    status: 'queued',
    final: false,
    replacedBy: null,
    acceptedAt: '2026-11-20T09:00:00.000Z',
    sentAt: null,
    attempts: 0,
    lastReply: null,
    nextAttemptAt: null,
    attachments: [],
  });
  await settle(api, first, { kind: 'deferred', reply: '450 later', delayMs: 90_000 });
  await api.clock.advance(30_000);
  // The wall leaps a year ahead: the attempt is still a minute away.
  api.clock.leap(365 * 24 * 3600 * 1000);
  const deferred = { status: 'deferred', final: false, attempts: 1, lastReply: '450 later' };
  t.match(await viewOf(api, first), { ...deferred, nextAttemptAt: '2027-11-20T09:01:30.000Z' });
  await api.clock.advance(90_000);
  t.equal((await viewOf(api, first)).nextAttemptAt, '2027-11-20T09:02:00.000Z', 'overdue is now');
  await settle(api, second, { kind: 'sent', reply: '250 ok' });
  const sent = { status: 'sent', final: true, sentAt: '2027-11-20T09:02:00.000Z', subject: 'Hi', size: 16 };
  t.match(await viewOf(api, second), { ...sent, nextAttemptAt: null });
  isProblem(t, await api.call('GET', `${MESSAGES}/nope`), 404, 'not-found');
  await settle(api, first, { kind: 'deferred', reply: '450 later', delayMs: 90_000 });
  await using rebooted = await startApi({ disk: api.disk.afterKill(), clock: api.clock.reboot() });
  const now = { status: 'deferred', nextAttemptAt: '2027-11-20T09:03:00.000Z' };
  t.match(await viewOf(rebooted, first), now, 'of another boot: now');
});

test('cancel and retry', async (t) => {
  await using api = await startApi();
  const [queued = '', sending = '', failed = ''] = await postSome(api, 3);
  api.store.claim(sending);
  await settle(api, failed, { kind: 'failed', reply: '550 no' });
  api.nudges = 0;
  const cancelled = await api.call('DELETE', `${MESSAGES}/${queued}`);
  t.equal(cancelled.status, 204);
  t.equal(api.nudges, 1, 'delivery has passed it over, and looks again');
  t.equal(cancelled.body, '');
  t.notOk('content-length' in cancelled.headers, 'RFC 9110 §8.6');
  t.equal(api.store.get(queued)?.status, 'cancelled');
  for (const id of [queued, sending]) {
    isProblem(t, await api.call('DELETE', `${MESSAGES}/${id}`), 409, 'conflict');
  }
  const retried = await api.call('POST', `${MESSAGES}/${failed}/retry`);
  t.equal(retried.status, 202);
  t.match(retried.json, { id: failed, status: 'queued', final: false });
  t.equal(api.wakes, 1);
  isProblem(t, await api.call('POST', `${MESSAGES}/${queued}/retry`), 409, 'conflict');
  isProblem(t, await api.call('POST', `${MESSAGES}/nope/retry`), 404, 'not-found');
  isProblem(t, await api.call('DELETE', `${MESSAGES}/nope`), 404, 'not-found');
});

test('the content of a failed message can be deleted', async (t) => {
  await using api = await startApi();
  const [id = ''] = await postSome(api, 1);
  await settle(api, id, { kind: 'failed', reply: '550 no' });
  t.equal((await api.call('DELETE', `${MESSAGES}/${id}`)).status, 204);
  t.match(await viewOf(api, id), { status: 'failed', lastReply: '550 no' });
  isProblem(t, await api.call('DELETE', `${MESSAGES}/${id}`), 409, 'conflict');
  isProblem(t, await api.call('POST', `${MESSAGES}/${id}/retry`), 409, 'conflict');
});

test('hold, release, flush', async (t) => {
  await using api = await startApi();
  const [id = ''] = await postSome(api, 1);
  await settle(api, id, { kind: 'deferred', reply: '450', delayMs: 90_000 });
  const held = await api.call('POST', '/api/internal/queue/hold');
  t.equal(held.status, 202);
  t.match(held.json, { deferred: 1, held: true });
  t.equal(api.wakes, 0, 'a hold wakes nobody');
  t.match((await api.call('POST', '/api/internal/queue/release')).json, { held: false });
  t.equal(api.wakes, 1);
  t.equal((await api.call('POST', '/api/internal/queue/flush')).status, 202);
  t.equal(api.wakes, 2);
  t.equal(api.store.get(id)?.due, null);
  await settle(api, id, { kind: 'deferred', reply: '450', delayMs: 90_000 });
  for (const call of ['hold', 'release', 'flush']) {
    if (call === 'release') await api.store.hold();
    api.breakDisk();
    isProblem(t, await api.call('POST', `/api/internal/queue/${call}`), 503, 'storage-failed');
    await api.mendDisk();
  }
  t.equal(api.wakes, 2);
});

test('all failed messages are retried, or lose their content, at once', async (t) => {
  await using api = await startApi();
  const ids = await postSome(api, 7);
  for (const id of ids.slice(0, 5)) await settle(api, id, { kind: 'failed', reply: '550 no' });
  const [gone = '', ...kept] = ids.slice(0, 5);
  await api.call('DELETE', `${MESSAGES}/${gone}`);
  for (const query of ['', '?status=', '?status=sent', '?status=failed&status=sent', '?status=Failed'])
    for (const [method, path] of [
      ['POST', '/api/internal/queue/retry'],
      ['DELETE', MESSAGES],
    ] as const) {
      const refused = await api.call(method, `${path}${query}`);
      isProblem(t, refused, 422, 'invalid', `${method} ${query}`);
      t.match(refused.json.errors, [{ pointer: 'status' }]);
    }
  t.equal(api.store.counts().failed, 5, 'a wrong query changes nothing');
  const retried = await api.call('POST', '/api/internal/queue/retry?status=failed');
  t.match([retried.status, retried.json], [202, { count: 4 }], 'the one without content is not counted');
  t.match([api.nudges > 0, api.wakes], [true, 1]);
  for (const id of kept) t.equal((await viewOf(api, id)).status, 'queued');
  t.equal((await viewOf(api, gone)).status, 'failed');
  t.same((await api.call('POST', '/api/internal/queue/retry?status=failed')).json, { count: 0 });
  for (const id of kept) await settle(api, id, { kind: 'failed', reply: '550 no' });
  t.equal((await api.call('DELETE', `${MESSAGES}?status=failed`)).status, 204);
  for (const id of kept) {
    t.equal((await viewOf(api, id)).status, 'failed', 'they stay failed');
    t.equal((await api.call('POST', `${MESSAGES}/${id}/retry`)).status, 409);
  }
  t.equal(api.store.counts().queued, 2, 'others stay as they are');
  const told = api.lines.filter((line) => /status=failed/.test(line));
  t.match(told, [/retried.*count=4/, /retried.*count=0/, /cancelled.*count=4/]);
  t.equal(told.length, 3);
});

test('many failed messages are retried in records of 100, and what a full disk leaves can be retried', async (t) => {
  await using api = await startApi();
  const ids: string[] = [];
  while (ids.length < 3 * BATCH_MESSAGES) ids.push(...(await postSome(api, 100)));
  for (const id of ids) await settle(api, id, { kind: 'failed', reply: '550 no' });
  let syncs = 0;
  api.disk.onOperation = (_, { kind }) => (kind === 'sync' && ++syncs > 1 ? 'error:EIO' : 'ok');
  isProblem(t, await api.call('POST', '/api/internal/queue/retry?status=failed'), 503, 'storage-failed');
  t.equal(api.wakes, 1, 'the first ones are due');
  await api.mendDisk();
  const { failed } = api.store.counts();
  t.ok(failed > 0 && failed % BATCH_MESSAGES === 0, `${failed} have failed still`);
  t.same((await api.call('POST', '/api/internal/queue/retry?status=failed')).json, { count: failed });
  t.equal(api.store.counts().failed, 0);
});

test('purge', async (t) => {
  await using api = await startApi();
  const purge = '/api/internal/queue/purge';
  const asked: boolean[] = [];
  const purgeStore = api.store.purge.bind(api.store);
  api.store.purge = (withDamaged) => {
    asked.push(withDamaged);
    return purgeStore(withDamaged);
  };
  t.equal((await api.call('POST', purge)).status, 200);
  const answer = await api.call('POST', `${purge}?damaged=true`);
  t.match(answer.json, { queued: 0, held: false });
  t.same(asked, [false, true]);
  isProblem(t, await api.call('POST', `${purge}?damaged=all`), 422, 'invalid');
  await postSome(api, 1);
  api.breakDisk();
  isProblem(t, await api.call('POST', purge), 503, 'storage-failed');
});

test('a page is bounded by bytes as well', async (t) => {
  await using api = await startApi();
  const content = { subject: 'Hi', plain: '', html: '' };
  const destination = 'john@example.com' as Address;
  // Not in UTF-16: what counts is what is sent.
  const file = { name: 'ł'.repeat(255), type: `text/${'x'.repeat(250)}` };
  const ids: string[] = [];
  while (ids.length < 300) {
    const upload = await api.store.upload(0);
    const attachments: Attachment[] = [];
    while (attachments.length < 10) attachments.push(await addFile(upload, [Buffer.from('x')], file));
    ids.push(
      ...(await api.store.accept([{ type: 1, destination, content, attachments, ignored: [] }], null)).ids,
    );
    await upload.discard();
  }
  await postSome(api, 1);
  const found: string[] = [];
  for (let after = ''; ; ) {
    const page = await api.call('GET', `${MESSAGES}?limit=1000&after=${after || '~'}`);
    t.ok(Buffer.byteLength(page.body) <= MIB, `${page.body.length} characters`);
    found.push(...page.json.messages.map(({ id }: { id: string }) => id));
    after = page.json.next;
    if (after === null) break;
    t.ok(Buffer.byteLength(page.body) > MIB / 2, 'and not needlessly small');
  }
  t.same(found.slice(1), [...ids].reverse(), 'all of them, each once, in order');
});

test('listing', async (t) => {
  await using api = await startApi();
  const ids = (await Promise.all([postSome(api, 100), postSome(api, 5)])).flat().sort().reverse();
  const list = (query: string) => api.call('GET', `${MESSAGES}${query}`);
  const idsOf = (answer: Answer) => answer.json.messages.map((message: { id: string }) => message.id);
  const page = await list('');
  t.equal(page.status, 200);
  t.same(idsOf(page), ids.slice(0, LIST_LIMIT_DEFAULT), 'newest first');
  t.equal(page.json.next, ids[LIST_LIMIT_DEFAULT - 1]);
  t.same(Object.keys(page.json.messages[0]), Object.keys((await list(`/${ids[0]}`)).json));
  const rest = await list(`?after=${page.json.next}`);
  t.same(idsOf(rest), ids.slice(LIST_LIMIT_DEFAULT));
  t.equal(rest.json.next, null);
  t.same(idsOf(await list('?limit=1')), ids.slice(0, 1));
  t.equal((await list(`?limit=${LIST_LIMIT_MAX}`)).status, 200);
  await api.store.cancel(ids[3] ?? '');
  t.same(idsOf(await list('?status=cancelled&foo=bar')), [ids[3]]);
  t.same(idsOf(await list('?status=sent')), []);
  t.same(idsOf(await list('?status=%63ancelled')), [ids[3]]);
  const bad: [string, string][] = [
    ['limit=0', 'limit'],
    [`limit=${LIST_LIMIT_MAX + 1}`, 'limit'],
    ['limit=-1', 'limit'],
    ['limit=1.5', 'limit'],
    ['limit=1e2', 'limit'],
    ['limit=', 'limit'],
    ['status=', 'status'],
    ['status=Queued', 'status'],
    ['status=lost', 'status'],
  ];
  for (const [query, pointer] of bad) {
    const refused = await list(`?${query}`);
    isProblem(t, refused, 422, 'invalid');
    t.match(refused.json.errors, [{ pointer }], query);
  }
  t.equal((await list('?limit=0&status=x')).json.errors.length, 2);
  isProblem(t, await list('?after=%'), 400, 'malformed-request');
  isProblem(t, await list('?after=%ff'), 400, 'malformed-request');
});

test('the state', async (t) => {
  await using api = await startApi({
    memoryBytesMax: 2 ** 23,
    clockTrusted: () => false,
    relayState: () => ({
      state: 'failing',
      sinceMs: Date.UTC(2026, 0, 1),
      reason: 'refused',
      nextTryMs: Date.UTC(2026, 0, 2),
      name: 'mail.example.com:587',
      rate: { used: [{ limit: 50, windowMs: DAY_MS, sent: 47 }], nextMs: Date.UTC(2026, 0, 3) },
    }),
  });
  await postSome(api, 1);
  await api.clock.advance(12_345);
  const { bytes } = api.store.counts();
  const { freeBytes } = await api.disk.space('/');
  const { used, limits } = api.store.room();
  t.match([used.messages, limits], [1, { messages: 10_000, bytes: 2 ** 28, memoryBytes: 2 ** 23 }]);
  const counts = { queued: 1, sending: 0, deferred: 0, failed: 0, forCloud: 0 };
  const queue = { ...counts, oldestAgeMs: 12_345, bytes, held: false };
  const { json, status } = await api.call('GET', '/api/internal/state');
  t.equal(status, 200);
  const noCloud = 'No cloud is configured (FIELDPOST_CLOUD)';
  const alone = `${noCloud}: the address book is kept on this device alone`;
  t.same(json, {
    quiet: { until: null, why: null, by: null, known_to_cloud: true },
    alive: { count: 0, late: [] },
    device: { hostname: 'pump-3', id: null },
    link: {
      state: 'disabled',
      since: '2026-11-20T09:00:00.000Z',
      lastHeartbeat: null,
      reason: noCloud,
      history: [],
    },
    relay: {
      state: 'failing',
      since: '2026-01-01T00:00:00.000Z',
      reason: 'refused',
      nextTryAt: '2026-01-02T00:00:00.000Z',
      name: 'mail.example.com:587',
      lastSentAt: null,
      rate: { used: [{ limit: 50, windowMs: DAY_MS, sent: 47 }], nextAt: '2026-01-03T00:00:00.000Z' },
    },
    queue: { ...queue, used, limits, full: false, reason: null },
    destinations: { count: 0, hidden: 0, synced: false, lastSync: null, reason: alone },
    storage: { state: 'ok', reason: null, freeBytes, damaged: 0, newer: [], unusable: [] },
    clock: { trusted: false, now: '2026-11-20T09:00:12.345Z' },
    settings: { state: 'ok', since: '2026-11-20T09:00:00.000Z', reason: null },
    version: '1.2.3',
    uptimeMs: 12_345,
  });
});

test('the state tells when a relay took the last mail, also after a restart, or without a history', async (t) => {
  const lastOf = async (api: TestApi) => (await api.call('GET', '/api/internal/state')).json.relay.lastSentAt;
  for (const historyMax of [1000, 0]) {
    await using api = await startApi({ historyMax, settings: { cloud: {} as never } });
    const [first = '', second = '', third = ''] = await postSome(api, 3);
    await settle(api, third, { kind: 'failed', reply: '550 no' });
    t.equal(await lastOf(api), null, 'a refusal is no delivery');
    await api.clock.advance(1000);
    await settle(api, first, { kind: 'sent', reply: '250 OK' });
    await api.clock.advance(1000);
    await settle(api, second, { kind: 'sent', reply: '250 OK' });
    await api.clock.advance(1000);
    const [sms] = (await api.post([{ type: 2, destination: '+32470123456', title: '', message: 'x' }])).json;
    await settle(api, sms.id, { kind: 'sent', reply: '' });
    t.equal(await lastOf(api), '2026-11-20T09:00:02.000Z', 'an SMS is no mail');
    await api.store.close();
    await using again = await startApi({ historyMax, disk: api.disk, clock: api.clock });
    t.equal(await lastOf(again), historyMax === 0 ? null : '2026-11-20T09:00:02.000Z');
  }
});

test('a trial of the relays: its steps, and what waits gets another try if one is good', async (t) => {
  const good = { relay: 'smtp://a.example', steps: [{ step: 'address', words: 'a.example' }], fault: null };
  const fault = { step: 'login', words: 'refused: 535', blame: 'login', hint: 'see' } as const;
  const bad = { ...good, fault };
  for (const relays of [[bad], [bad, good], []]) {
    await using api = await startApi({ tryRelays: async () => relays });
    const { status, json } = await api.call('POST', '/api/internal/relay/trial');
    t.same([status, json], [200, { relays }]);
    t.equal(api.wakes, relays.length === 2 ? 1 : 0);
  }
  const busy = () => Promise.reject(new FieldpostError('busy', 'The relay is being tried already'));
  await using api = await startApi({
    tryRelays: busy,
    settings: { sendToken: 'for-sending-only', apiToken: 'a-long-token' },
  });
  const call = (token: string) =>
    api.call('POST', '/api/internal/relay/trial', { headers: { Authorization: `Bearer ${token}` } });
  isProblem(t, await call('for-sending-only'), 403, 'forbidden');
  isProblem(t, await call('a-long-token'), 503, 'busy');
});

test('a trial of the relays ends after a minute, or when the client leaves', async (t) => {
  const fault = { step: 'time', words: 'the trial took too long', blame: 'relay', hint: '' } as const;
  const signals: AbortSignal[] = [];
  await using api = await startApi({
    async tryRelays(signal) {
      signals.push(signal);
      if (!signal.aborted) await once(signal, 'abort');
      return [{ relay: 'smtp://a.example', steps: [], fault }];
    },
  });
  const answer = api.call('POST', '/api/internal/relay/trial');
  while (signals.length === 0) await settled();
  await api.clock.advance(60_000);
  t.match(await answer, { status: 200, json: { relays: [{ fault }] } });
  const client = await api.connect();
  client.write('POST /api/internal/relay/trial HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n');
  while (signals.length === 1) await settled();
  client.socket.destroy();
  await once(signals[1] as AbortSignal, 'abort');
});

test('the state tells how the link is and was', async (t) => {
  const sinceMs = Date.UTC(2026, 10, 20, 8);
  const reason = 'the name cloud.example cannot be resolved';
  await using api = await startApi({
    linkState: () => ({
      state: 'offline',
      sinceMs,
      lastHeartbeatMs: sinceMs - 4000,
      reason,
      history: [{ state: 'unsteady', sinceMs: sinceMs - 4000, durationMs: 4000, reason }],
    }),
  });
  const { json } = await api.call('GET', '/api/internal/state');
  t.same(json.link, {
    state: 'offline',
    since: '2026-11-20T08:00:00.000Z',
    lastHeartbeat: '2026-11-20T07:59:56.000Z',
    reason,
    history: [{ state: 'unsteady', since: '2026-11-20T07:59:56.000Z', durationMs: 4000, reason }],
  });
  const { body } = await api.call('GET', '/metrics');
  t.match(body, 'fieldpost_link_state{state="offline"} 1');
  t.match(body, 'fieldpost_link_state{state="online"} 0');
});

test('the health check knows the storage and nothing else', async (t) => {
  await using api = await startApi({
    relayState: () => ({ state: 'failing', sinceMs: 0, reason: 'no network', nextTryMs: null, rate: null }),
  });
  const healthy = await api.call('GET', '/healthz');
  t.equal(healthy.status, 200);
  t.equal(healthy.body, 'ok');
  await api.fillDisk();
  const full = await api.call('GET', '/healthz');
  isProblem(t, full, 503, 'unavailable');
  t.match(full.json.detail, /free/);
  await api.emptyDisk();
  t.equal((await api.call('GET', '/healthz')).status, 200);
  api.breakDisk();
  await api.post([EMAIL]);
  const failed = await api.call('GET', '/healthz');
  isProblem(t, failed, 503, 'unavailable');
  t.match(failed.json.detail, /EIO/);
});

test('a full queue fails the health check, and the state says how full it is', async (t) => {
  await using api = await startApi({ budget: { maxQueue: 2 } });
  await postSome(api, 1);
  const before = await api.call('GET', '/api/internal/state');
  t.match(before.json.queue, { queued: 1, full: false, reason: null });
  t.match([before.json.queue.used.messages, before.json.queue.limits.messages], [1, 2]);
  await postSome(api, 1);
  isProblem(t, await api.call('GET', '/healthz'), 503, 'unavailable');
  const { json } = await api.call('GET', '/api/internal/state');
  t.match(json.queue, { full: true, reason: /2 messages/ });
  const { body } = await api.call('GET', '/metrics');
  t.match(body, /^fieldpost_queue_full 1$/m);
  t.notMatch(body, /^fieldpost_queue_limit_memory_bytes /m, 'memory is not limited');
});

test('health, state and metrics tell of the disk as it is when they are asked', async (t) => {
  const budget = { maxQueue: 10, maxSpoolBytes: 2 ** 28, minFreeBytes: 2 ** 20 };
  const start = () => {
    const disk = newDisk();
    disk.capacityBytes = 2 ** 30;
    return startApi({ disk, budget });
  };
  const freeOf = (answer: Answer) =>
    Number(/^fieldpost_storage_free_bytes (.*)$/m.exec(answer.body)?.[1] ?? 'NaN');
  for (const first of ['/api/internal/state', '/metrics']) {
    // Of a store that nobody has asked before.
    await using api = await start();
    const answer = await api.call('GET', first);
    const free = answer.json === undefined ? freeOf(answer) : answer.json.storage.freeBytes;
    t.ok(free > 2 ** 29 && free <= 2 ** 30, `${first} begins with ${free} bytes free`);
  }
  // The clock stands still all the time.
  await using api = await start();
  const { disk } = api;
  t.equal((await api.call('GET', '/healthz')).status, 200);
  disk.capacityBytes = 2 ** 19;
  isProblem(t, await api.call('GET', '/healthz'), 503, 'unavailable');
  t.match((await api.call('GET', '/api/internal/state')).json.storage, { state: 'full', freeBytes: Number });
  t.match((await api.call('GET', '/metrics')).body, /^fieldpost_storage_state\{state="full"\} 1$/m);
  disk.capacityBytes = 2 ** 30;
  t.equal((await api.call('GET', '/healthz')).status, 200);
});

test('free space that cannot be read is unknown', async (t) => {
  await using api = await startApi();
  api.disk.space = async () => {
    throw systemError('EIO', 'EIO: statfs');
  };
  t.equal((await api.call('GET', '/api/internal/state')).json.storage.freeBytes, null);
  t.notMatch((await api.call('GET', '/metrics')).body, /Infinity/);
});

test('refused requests are counted by their problem', async (t) => {
  await using api = await startApi({ budget: { maxQueue: 1 } });
  const posted = { 'Content-Type': 'application/json' };
  const [kept] = await postSome(api, 1);
  for (let count = 0; count < 2; count++) await api.post([EMAIL]);
  await api.call('DELETE', `${MESSAGES}/${kept}`);
  await api.fillDisk();
  await api.post([EMAIL]);
  await api.post([{}]);
  await api.call('POST', MESSAGES, { headers: posted, body: '{' });
  await api.call('POST', MESSAGES, { headers: { ...posted, Host: 'evil.example' }, body: '[]' });
  // Nobody wanted to post a message.
  await api.call('POST', `${MESSAGES}/nope/retry`);
  await api.call('PUT', MESSAGES);
  const { body } = await api.call('GET', '/metrics');
  const counted = [...body.matchAll(/^fieldpost_refused_total\{code="(.+)"\} ([1-9].*)$/gm)];
  t.same(Object.fromEntries(counted.map(([, code, count]) => [code, Number(count)])), {
    'queue-full': 2,
    'storage-full': 1,
    invalid: 1,
    'malformed-json': 1,
    'not-local': 1,
  });
  t.match(body, /^fieldpost_refused_total\{code="stopping"\} 0$/m, 'and begin with 0');
});

test('the metrics', async (t) => {
  await using api = await startApi({
    memoryBytesMax: 2 ** 23,
    relayState: () => ({
      ...{ state: 'ok', sinceMs: 0, reason: null, nextTryMs: null },
      rate: { used: [{ limit: 50, windowMs: DAY_MS, sent: 47 }], nextMs: null },
    }),
  });
  await postSome(api, 2);
  await api.store.hold();
  await api.clock.advance(1500);
  const { used } = api.store.room();
  const { freeBytes } = await api.disk.space('/');
  const answer = await api.call('GET', '/metrics');
  t.equal(answer.headers['content-type'], 'text/plain; version=0.0.4; charset=utf-8');
  for (const line of [
    'fieldpost_build_info{version="1.2.3"} 1',
    'fieldpost_uptime_seconds 1.5',
    'fieldpost_queue_messages{status="queued"} 2',
    'fieldpost_queue_messages{status="failed"} 0',
    'fieldpost_queue_oldest_age_seconds 1.5',
    'fieldpost_queue_held 1',
    'fieldpost_queue_full 0',
    'fieldpost_queue_used_messages 2',
    'fieldpost_queue_limit_messages 10000',
    `fieldpost_queue_used_bytes ${used.bytes}`,
    'fieldpost_queue_limit_bytes 268435456',
    `fieldpost_queue_used_memory_bytes ${used.memoryBytes}`,
    'fieldpost_queue_limit_memory_bytes 8388608',
    'fieldpost_accepted_total 2',
    'fieldpost_refused_total{code="queue-full"} 0',
    'fieldpost_outcomes_total{outcome="sent"} 3',
    'fieldpost_relay_rate_used{window="86400"} 47',
    'fieldpost_relay_rate_limit{window="86400"} 50',
    'fieldpost_relay_state{state="ok"} 1',
    'fieldpost_relay_state{state="failing"} 0',
    'fieldpost_destinations 0',
    'fieldpost_destinations_synced 0',
    'fieldpost_storage_state{state="ok"} 1',
    `fieldpost_storage_free_bytes ${freeBytes}`,
    'fieldpost_storage_min_free_bytes 16777216',
    'fieldpost_clock_trusted 1',
  ]) {
    t.ok(answer.body.includes(`\n${line}\n`), line);
  }
  const lines = answer.body.split('\n').slice(0, -1);
  const form = /^(?:# (?:HELP|TYPE) fieldpost_[a-z_]+ .+|fieldpost_[a-z_]+(?:\{[a-z]+="[^"\\]*"\})? [\d.]+)$/;
  t.same(
    lines.filter((line) => !form.test(line)),
    [],
    'every line has the form of the format',
  );
});

test('what only reads writes nothing and starts no compaction, on a full disk either', async (t) => {
  const disk = newDisk();
  await using api = await startApi({ disk });
  const paths = ['/healthz', '/metrics', '/', '/openapi.json', '/api/internal/state'];
  const lists = [MESSAGES, `${MESSAGES}?status=queued`, '/api/internal/offline_notification_destinations'];
  const { json } = await api.post([EMAIL]);
  // Content that a compaction would remove.
  await passThrough(api.store, 12);
  for (const isFull of [false, true]) {
    if (isFull) await api.fillDisk();
    // The free space is looked at anew, and the clock has a leap to record.
    await api.clock.advance(2 * SPACE_FRESH_MS);
    api.clock.leap(DAY_MS);
    const seen = watch(disk);
    for (const path of [...paths, ...lists, `${MESSAGES}/${json[0].id}`]) {
      const { status } = await api.call('GET', path);
      t.equal(status, isFull && path === '/healthz' ? 503 : 200, path);
      await settled();
    }
    t.same(seen, [], isFull ? 'full' : 'not full');
  }
});
