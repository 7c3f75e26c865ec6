/** The client against members that answer as a test says: what a real etcd does rarely, or never. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import { setImmediate as nextTurn } from 'node:timers/promises';
import t from 'tap';
import { createConnect } from '../../src/base/system/connect.js';
import { openHttps } from '../../src/base/system/https.js';
import type { EtcdUser } from '../../src/cloud/etcd/client.js';
import { createEtcd } from '../../src/cloud/etcd/client.js';
import type { Etcd } from '../../src/cloud/etcd/etcd.js';
import { ETCD_ANSWER_BYTES_MAX, ETCD_TIMEOUT_MS } from '../../src/cloud/etcd/etcd.js';
import { FakeClock } from '../support/clock.js';
import { serve } from '../support/serve.js';
import { failureOf, listed } from './behaviour.js';

interface Call {
  readonly path: string;
  readonly body: {
    readonly limit?: string;
    readonly revision?: string;
    readonly key?: string;
  };
  readonly token: string | undefined;
}

type Answer = (call: Call, res: ServerResponse) => unknown;

/** A member that answers so; `calls` has what it was asked. */
async function member(answer: Answer) {
  const calls: Call[] = [];
  const server = await serve(async (req: IncomingMessage, res) => {
    const call = {
      path: req.url ?? '',
      body: JSON.parse(await text(req)),
      token: req.headers.authorization,
    };
    calls.push(call);
    answer(call, res);
  });
  return { calls, url: server.url, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
}

function open(endpoints: readonly { readonly url: string }[], user: EtcdUser | null = null) {
  const clock = new FakeClock();
  const https = openHttps({ ca: null, clientCertificate: null, clock, connect: createConnect({ clock }) });
  const etcd = createEtcd({
    endpoints: endpoints.map(({ url }) => url),
    https,
    user,
    prefix: 'part/',
    clock,
  });
  return { etcd, clock, [Symbol.dispose]: () => etcd.close() };
}

const base64 = (words: string) => Buffer.from(words).toString('base64');
const wire = (key: string, revision: number) => ({
  ...{ key: base64(`part/${key}`), value: base64(`value of ${key}`) },
  ...{ mod_revision: String(revision), create_revision: String(revision) },
});
const header = (revision: number) => ({ header: { revision: String(revision) } });
const range = (revision: number, keys: readonly string[], more = false) =>
  JSON.stringify({ ...header(revision), kvs: keys.map((key) => wire(key, 1)), ...(more && { more }) });
const DONE = JSON.stringify({ ...header(5), succeeded: true });
const refusal = (code: number, message: string) => JSON.stringify({ error: message, message, code });
const says =
  (status: number, body: string): Answer =>
  (_, res) =>
    res.writeHead(status).end(body);
const breaks: Answer = (_, res) => res.destroy();
const noLeader = says(503, refusal(14, 'etcdserver: no leader'));
const put = (etcd: Etcd) => etcd.txn([], [{ put: 'k', value: 'v' }]);
const LOGIN = '/v3/auth/authenticate';
const pathsOf = ({ calls }: { readonly calls: readonly Call[] }) => calls.map(({ path }) => path);

t.test("an answer that is not etcd's is unavailable", async (t) => {
  for (const [status, body] of [
    [200, 'hello'],
    [200, ''],
    [200, '[]'],
    [200, '{}'],
    [502, '<html>bad gateway\n</html>'],
    [503, range(1, [])],
    [502, '{"code":502,"message":"bad gateway"}'],
    [200, '{"header":{"revision":"x"}}'],
    [200, '{"header":{"revision":null}}'],
    [200, '{"header":[]}'],
  ] as const) {
    await using one = await member(says(status, body));
    using made = open([one]);
    const read = await failureOf(made.etcd.get('k'));
    t.match(read, { kind: 'unavailable', message: /not etcd's/ }, body);
    t.notMatch(read.message, /\n/);
    t.match(await failureOf(put(made.etcd)), { kind: 'unavailable', message: /not etcd's/ }, body);
    t.equal(one.calls.length, 2);
  }
  for (const kvs of ['{}', '[1]', '[{"mod_revision":"1.5"}]']) {
    await using one = await member(says(200, `{"header":{"revision":"1"},"kvs":${kvs}}`));
    using made = open([one]);
    t.match(await failureOf(made.etcd.get('k')), { kind: 'unavailable' }, kvs);
  }
});

t.test('an answer that is too long fails a read, and makes the pages of a list smaller', async (t) => {
  const long = ' '.repeat(ETCD_ANSWER_BYTES_MAX + 1);
  await using one = await member(({ body }, res) => {
    if (body.limit === undefined || Number(body.limit) > 2) res.end(long);
    else res.end(range(7, ['p/a', 'p/b']));
  });
  using made = open([one, one]);
  t.match(await failureOf(made.etcd.get('k')), { kind: 'unavailable', message: /larger than/ });
  t.equal(one.calls.length, 1, 'another member would say as much');
  t.match(await listed(made.etcd, 'p/'), { revision: 7, pages: [2] });
  t.strictSame(
    one.calls.slice(1).map(({ body }) => body.limit),
    ['16', '2'],
  );
});

t.test('all keys begin with the prefix', async (t) => {
  await using one = await member(({ path }, res) => res.end(path === '/v3/kv/txn' ? DONE : range(7, ['a'])));
  using made = open([one]);
  t.match(await listed(made.etcd, ''), { keys: [{ key: 'a', value: 'value of a' }] });
  await made.etcd.txn([{ key: 'k', modRevision: 0 }], [{ put: 'k', value: 'v' }, { delete: 'l' }]);
  const [k, l] = [base64('part/k'), base64('part/l')];
  t.match(one.calls, [
    { body: { key: base64('part/'), range_end: base64('part0') } },
    {
      body: {
        compare: [{ key: k }],
        success: [{ request_put: { key: k } }, { request_delete_range: { key: l } }],
        failure: [{ request_range: { key: k } }],
      },
    },
  ]);
});

t.test('a list reads each page at the revision of the first, from the last key on', async (t) => {
  let revision = 6;
  await using one = await member(({ body }, res) => {
    // The store goes on meanwhile.
    revision++;
    res.end(
      body.key === base64('part/p/') ? range(revision, ['p/a', 'p/b'], true) : range(revision, ['p/c']),
    );
  });
  using made = open([one]);
  t.match(await listed(made.etcd, 'p/'), { revision: 7, pages: [2, 1] });
  t.match(one.calls, [
    { body: { revision: '0', key: base64('part/p/') } },
    { body: { revision: '7', key: base64('part/p/b\0') } },
  ]);
});

t.test('a list whose revision is compacted says so', async (t) => {
  const compacted = refusal(11, 'etcdserver: mvcc: required revision has been compacted');
  await using one = await member(({ body }, res) => {
    if (body.key === base64('part/p/')) res.end(range(7, ['p/a'], true));
    else res.writeHead(400).end(compacted);
  });
  using made = open([one]);
  t.match(await failureOf(made.etcd.list('p/', () => undefined)), {
    kind: 'compacted',
    message: /has been compacted/,
  });
});

t.test('what is compacted already is no error', async (t) => {
  let message = 'etcdserver: mvcc: required revision has been compacted';
  await using one = await member((_, res) => res.writeHead(400).end(refusal(11, message)));
  using made = open([one]);
  await made.etcd.compact(5);
  message = 'etcdserver: mvcc: required revision is a future revision';
  t.match(await failureOf(made.etcd.compact(5)), { kind: 'refused', message: /future revision/ });
});

t.test('a read goes on to the next member, and stays there', async (t) => {
  for (const first of [breaks, noLeader, says(502, 'bad gateway'), says(200, 'hello'), says(200, '{}')]) {
    await using one = await member(first);
    await using two = await member(says(200, range(3, ['k'])));
    using made = open([one, two]);
    t.match(await made.etcd.get('k'), { key: 'k', value: 'value of k' });
    await made.etcd.get('k');
    t.strictSame([one.calls.length, two.calls.length], [1, 2]);
  }
  await using one = await member(noLeader);
  await using two = await member(breaks);
  using made = open([one, two]);
  t.match(await failureOf(made.etcd.get('k')), { message: /no leader/ }, 'what a member says tells more');
  t.strictSame([one.calls.length, two.calls.length], [1, 1]);
});

t.test('a member that says nothing is left at the deadline, but not by a write', async (t) => {
  for (const isWrite of [false, true]) {
    let asked = () => {};
    const isAsked = new Promise<void>((resolve) => {
      asked = resolve;
    });
    await using one = await member(() => asked());
    await using two = await member(says(200, range(3, ['k'])));
    using made = open([one, two]);
    const request = isWrite ? failureOf(put(made.etcd)) : made.etcd.get('k');
    await isAsked;
    await made.clock.advance(ETCD_TIMEOUT_MS);
    t.match(await request, isWrite ? { kind: 'unavailable', message: /no answer within 3 s/ } : { key: 'k' });
    t.equal(two.calls.length, isWrite ? 0 : 1);
  }
});

t.test('a write that may have been done is not sent again', async (t) => {
  await using two = await member(says(200, DONE));
  for (const first of [
    breaks,
    says(200, 'hello'),
    says(200, '{}'),
    says(504, refusal(14, 'etcdserver: request timed out')),
    says(503, refusal(14, 'etcdserver: leader changed')),
  ]) {
    await using one = await member(first);
    using made = open([one, two]);
    t.match(await failureOf(put(made.etcd)), { kind: 'unavailable' });
    t.strictSame([one.calls.length, two.calls.length], [1, 0]);
  }
  // On a kept connection, which other requests try once more.
  await using one = await member(({ path }, res) =>
    path === '/v3/kv/txn' ? res.destroy() : res.end(range(1, [])),
  );
  using made = open([one, two]);
  await made.etcd.get('k');
  const lost = { kind: 'unavailable', message: /connection was lost/ } as const;
  t.match(await failureOf(put(made.etcd)), lost);
  t.strictSame(pathsOf(one), ['/v3/kv/range', '/v3/kv/txn']);
  t.equal(two.calls.length, 0);
});

t.test('a write that was not begun is sent to the next member', async (t) => {
  const busy = says(429, refusal(8, 'etcdserver: too many requests'));
  for (const first of [noLeader, busy]) {
    await using one = await member(first);
    await using two = await member(says(200, DONE));
    using made = open([one, two]);
    t.match(await put(made.etcd), { succeeded: true, revision: 5 });
    t.strictSame([one.calls.length, two.calls.length], [1, 1]);
  }
  const gone = await member(breaks);
  await gone[Symbol.asyncDispose]();
  await using two = await member(says(200, DONE));
  using made = open([gone, two]);
  t.match(await put(made.etcd), { succeeded: true }, 'nothing listens there');
});

t.test('a lease may be granted twice', async (t) => {
  await using one = await member(breaks);
  await using two = await member(noLeader);
  using made = open([one, two]);
  t.match(await failureOf(made.etcd.grant(5)), { message: /no leader/ });
  t.strictSame([one.calls.length, two.calls.length], [1, 1]);
});

t.test('a refusal is not tried elsewhere', async (t) => {
  await using one = await member(says(403, refusal(7, 'etcdserver: permission denied')));
  using made = open([one, one]);
  t.match(await failureOf(put(made.etcd)), { kind: 'refused' });
  t.equal(one.calls.length, 1);
});

t.test('a refusal of etcd 3.6 has no member "error"', async (t) => {
  const of36 = (status: number, code: number, message: string) =>
    says(status, JSON.stringify({ code, message }));
  await using one = await member(of36(403, 7, 'etcdserver: permission denied'));
  using made = open([one, one]);
  t.match(await failureOf(put(made.etcd)), { kind: 'refused', message: /permission denied/ });
  await using two = await member(of36(503, 14, 'etcdserver: no leader'));
  await using three = await member(says(200, DONE));
  using other = open([two, three]);
  t.match(await put(other.etcd), { succeeded: true });
});

t.test('a token that is refused is renewed once', async (t) => {
  const user = { name: 'fleet', password: 'secret' };
  for (const valid of ['t1', 't2', 'none']) {
    let tokens = 0;
    await using one = await member(({ path, token }, res) => {
      if (path === LOGIN) res.end(JSON.stringify({ ...header(1), token: `t${++tokens}` }));
      else if (token === valid) res.end(DONE);
      else res.writeHead(401).end(refusal(16, 'etcdserver: invalid auth token'));
    });
    using made = open([one, one], user);
    if (valid === 'none')
      t.match(await failureOf(put(made.etcd)), { kind: 'refused', message: /invalid auth token/ });
    else t.match(await put(made.etcd), { succeeded: true });
    const round = [LOGIN, '/v3/kv/txn'];
    t.strictSame(pathsOf(one), valid === 't1' ? round : [...round, ...round]);
    t.match(one.calls[0], { body: user, token: undefined });
  }
});

t.test('requests share a log-in, and one without a token fails them', async (t) => {
  const user = { name: 'fleet', password: 'secret' };
  let token: object = { token: 't' };
  const answer: Answer = ({ path }, res) => res.end(path === LOGIN ? JSON.stringify(token) : range(1, []));
  await using one = await member(answer);
  using made = open([one], user);
  await Promise.all([made.etcd.get('a'), made.etcd.get('b')]);
  t.equal(pathsOf(one).filter((path) => path === LOGIN).length, 1);
  token = {};
  using other = open([one], user);
  t.match(await failureOf(put(other.etcd)), { kind: 'unavailable' });
  token = { token: 't' };
  await other.etcd.get('a');
});

t.test('requests whose token is refused share a log-in, however late they hear of it', async (t) => {
  let logins = 0;
  let refuseLate = () => {};
  const REFUSAL = refusal(16, 'etcdserver: invalid auth token');
  await using one = await member(async ({ path, body, token }, res) => {
    if (path === LOGIN) {
      if (++logins === 2) {
        refuseLate();
        for (let turn = 0; turn < 20; turn++) await nextTurn();
      }
      res.end(JSON.stringify({ ...header(1), token: `t${logins}` }));
    } else if (token === 't2' || body.key === base64('part/first')) res.end(range(1, []));
    else if (body.key === base64('part/late')) refuseLate = () => res.writeHead(401).end(REFUSAL);
    else res.writeHead(401).end(REFUSAL);
  });
  using made = open([one], { name: 'fleet', password: 'secret' });
  await made.etcd.get('first');
  const late = made.etcd.get('late');
  await Promise.all([late, made.etcd.get('soon')]);
  t.equal(logins, 2);
});

t.test('close rejects what is under way', async (t) => {
  let asked = () => {};
  const isAsked = new Promise<void>((resolve) => {
    asked = resolve;
  });
  await using one = await member(() => asked());
  using made = open([one, one]);
  const failure = failureOf(put(made.etcd));
  await isAsked;
  made.etcd.close();
  t.match(await failure, { kind: 'unavailable', message: /given up/ });
  t.match(await failureOf(made.etcd.get('k')), { kind: 'unavailable', message: /given up/ });
  await nextTurn();
  t.equal(one.calls.length, 1);
});
