/** A watch of the client against members that answer as a test says: lines, fragments, errors in the stream. */
import type { ServerResponse } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import t from 'tap';
import { createConnect } from '../../src/base/system/connect.js';
import { openHttps } from '../../src/base/system/https.js';
import { createEtcd } from '../../src/cloud/etcd/client.js';
import { ETCD_ANSWER_BYTES_MAX } from '../../src/cloud/etcd/etcd.js';
import { FakeClock } from '../support/clock.js';
import { serve } from '../support/serve.js';
import { hear } from './behaviour.js';

/** A client of members that each stream an answer. */
async function open(...streams: readonly ((res: ServerResponse) => unknown)[]) {
  let calls = 0;
  const servers = await Promise.all(
    streams.map((stream) =>
      serve((req, res) => {
        calls++;
        req.resume().on('end', () => stream(res));
      }),
    ),
  );
  const clock = new FakeClock();
  const https = openHttps({ ca: null, clientCertificate: null, clock, connect: createConnect({ clock }) });
  const etcd = createEtcd({
    endpoints: servers.map(({ url }) => url),
    https,
    user: null,
    prefix: 'part/',
    clock,
  });
  return {
    etcd,
    calls: () => calls,
    async [Symbol.asyncDispose]() {
      etcd.close();
      for (const server of servers) await server[Symbol.asyncDispose]();
    },
  };
}

const line = (value: object) => `${JSON.stringify(value)}\n`;
const result = (more: object) => line({ result: { header: { revision: '9' }, ...more } });
const CREATED = result({ created: true });
const event = (key: string, revision: number) => ({
  kv: { key: Buffer.from(`part/${key}`).toString('base64'), mod_revision: String(revision) },
});
const LAST = result({ events: [event('p/z', 99)] });
const NO_LEADER = { grpc_code: 14, http_code: 503, message: 'etcdserver: no leader' };

const CANCELED = result({
  canceled: true,
  cancel_reason: 'rpc error: code = Unavailable desc = etcdserver: no leader',
});

/** The keys of each revision that is heard until the key p/z or the end. */
async function heardOf(world: Awaited<ReturnType<typeof open>>) {
  const heard = hear(world.etcd, 'p/', 1);
  await heard.until(({ revisions, ended }) => ended.length > 0 || revisions.at(-1)?.revision === 99);
  const { revisions, ended } = heard;
  heard.close();
  return { keys: revisions.map(({ changes }) => changes.map(({ key }) => key)), ended };
}

t.test('each revision is handed over whole, wherever chunks, lines and fragments end', async (t) => {
  const text = [
    CREATED,
    '\n',
    // Two revisions in one answer; the second goes on in the next fragments.
    result({ events: [event('p/a', 2), event('p/b', 2), event('p/c', 3)], fragment: true }),
    result({ events: [event('p/d', 3)], fragment: true }),
    result({ events: [event('p/e', 3), event('p/f', 4)] }),
    LAST,
  ].join('');
  const whole = [['p/a', 'p/b'], ['p/c', 'p/d', 'p/e'], ['p/f'], ['p/z']];
  for (const size of [text.length, 100, 1]) {
    await using world = await open(async (res) => {
      for (let at = 0; at < text.length; at += size) {
        res.write(text.slice(at, at + size));
        await nextTurn();
      }
    });
    t.strictSame(await heardOf(world), { keys: whole, ended: [] }, `${size} bytes`);
  }
});

t.test('a fragment is not handed over before the rest of its revision', async (t) => {
  await using world = await open((res) => {
    res.write(CREATED + result({ events: [event('p/a', 2), event('p/b', 3)], fragment: true }));
    res.end();
  });
  const { keys, ended } = await heardOf(world);
  t.strictSame(keys, [['p/a']]);
  t.match(ended, [{ kind: 'unavailable', message: /the watch has ended/ }]);
});

t.test('until it has begun, a watch goes on to the next member', async (t) => {
  for (const first of [
    line({ error: NO_LEADER }),
    // etcd 3.6.
    line({ error: { code: 14, message: 'etcdserver: no leader' } }),
    JSON.stringify({ error: NO_LEADER }),
    'hello\n',
    '',
    CANCELED,
    '{"result":',
  ]) {
    await using world = await open(
      (res) => (first.endsWith(':') ? res.write(first, () => res.destroy()) : res.end(first)),
      (res) => res.write(CREATED + LAST),
    );
    t.strictSame(await heardOf(world), { keys: [['p/z']], ended: [] }, first);
    t.equal(world.calls(), 2);
  }
});

t.test('once it has begun, a failure ends it', async (t) => {
  for (const [rest, message] of [
    [line({ error: NO_LEADER }), /no leader/],
    [JSON.stringify({ error: NO_LEADER }), /no leader/],
    [CANCELED, /no leader/],
    ['hello\n', /not etcd's/],
    ['[]\n', /not etcd's/],
    ['{"result":{"events":{}}}\n', /not etcd's/],
    ['{"result":{"events":[{}]}}\n', /not etcd's/],
    [' '.repeat(ETCD_ANSWER_BYTES_MAX + 1), /too long/],
    ['', /the watch has ended/],
  ] as const) {
    // One that is too long is told while it goes on.
    const isWhole = rest.endsWith('\n') || rest.length > ETCD_ANSWER_BYTES_MAX;
    await using world = await open(
      (res) => {
        res.write(CREATED + rest);
        if (!isWhole) res.end();
      },
      (res) => res.write(CREATED),
    );
    const { ended } = await heardOf(world);
    t.match(ended, [{ kind: 'unavailable', message }]);
    t.equal(world.calls(), 1);
  }
  await using world = await open((res) => res.write(CREATED, () => res.destroy()));
  t.match((await heardOf(world)).ended, [{ kind: 'unavailable' }]);
});

t.test('a watch of what is compacted says so', async (t) => {
  const compacted = result({ canceled: true, compact_revision: '7' });
  await using world = await open((res) => res.write(CREATED + compacted));
  const { ended } = await heardOf(world);
  t.match(ended, [{ kind: 'compacted', message: /has been compacted/ }]);
  t.equal(ended.length, 1);
});

t.test('a watch that is not permitted is refused', async (t) => {
  const cancel_reason = 'rpc error: code = PermissionDenied desc = etcdserver: permission denied';
  await using world = await open((res) => res.write(CREATED + result({ canceled: true, cancel_reason })));
  t.match((await heardOf(world)).ended, [{ kind: 'refused', message: /: permission denied$/ }]);
});

t.test('a watch ends with its client, without a word', async (t) => {
  await using world = await open(
    (res) => res.write(CREATED + LAST),
    (res) => res.write(CREATED + LAST),
  );
  const heard = hear(world.etcd, 'p/', 1);
  await heard.until(({ revisions }) => revisions.length === 1);
  world.etcd.close();
  for (let turn = 0; turn < 20; turn++) await nextTurn();
  t.strictSame([heard.ended, world.calls()], [[], 1]);
});

t.test('a watch that is closed at once is not opened', async (t) => {
  await using world = await open((res) => res.write(CREATED));
  world.etcd.watch('p/', 1, { changes: () => t.fail(), ended: () => t.fail('without a word') }).close();
  for (let turn = 0; turn < 20; turn++) await nextTurn();
  t.equal(world.calls(), 0);
});

t.test('a watch that is closed hears nothing more, also of the same chunk', async (t) => {
  await using world = await open((res) =>
    res.end(CREATED + result({ events: [event('p/a', 2), event('p/b', 3)] }) + LAST),
  );
  const revisions: number[] = [];
  await new Promise<void>((resolve) => {
    const watch = world.etcd.watch('p/', 1, {
      changes(_, revision) {
        revisions.push(revision);
        watch.close();
        resolve();
      },
      ended: () => t.fail('without a word'),
    });
  });
  await nextTurn();
  t.strictSame(revisions, [2]);
});
