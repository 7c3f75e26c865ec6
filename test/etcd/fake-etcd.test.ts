/** The fake etcd behaves as the real one, which passes the same suite in test/peers/etcd.test.ts; and its faults. */
import t from 'tap';
import { ETCD_TIMEOUT_MS } from '../../src/cloud/etcd/etcd.js';
import { FakeClock, settled } from '../support/clock.js';
import { FakeEtcd } from '../support/fake-etcd.js';
import { seededRandom, testSeed } from '../support/random.js';
import { etcdBehaviour, failureOf, hear } from './behaviour.js';

const seed = testSeed();
t.comment(`FIELDPOST_TEST_SEED=${seed}`);

function fake() {
  const clock = new FakeClock();
  const server = new FakeEtcd(clock, seededRandom(seed));
  return { clock, server, a: server.client('a'), b: server.client('b') };
}

const put = (key: string) => ({ put: key, value: '' });

t.test('behaviour', async (t) => {
  await etcdBehaviour(t, async () => {
    const { clock, a, b } = fake();
    return { a, b, prefix: 'test/', pass: (ms) => clock.advance(ms) };
  });
});

t.test('a client that is cut off waits for its deadline, and its watches stall', async (t) => {
  const { clock, server, a, b } = fake();
  const heard = hear(a, 'k', 1);
  server.cut('a');
  const read = failureOf(a.get('k'));
  const write = failureOf(a.txn([], [put('k')]));
  await b.txn([], [put('k1')]);
  await clock.advance(ETCD_TIMEOUT_MS);
  t.match(await read, { kind: 'unavailable' });
  t.match(await write, { kind: 'unavailable' });
  t.equal(server.keyOf('k'), null);
  t.strictSame(heard.revisions, []);
  server.heal('a');
  await heard.until(({ revisions }) => revisions.length === 1);
  server.cut('a');
  await clock.advance(60_000);
  t.match(heard.ended, [{ kind: 'unavailable' }]);
});

t.test('without a quorum everything fails, watches end, and leases live', async (t) => {
  const { clock, server, a } = fake();
  const lease = await a.grant(2);
  await a.txn([], [{ put: 'l', value: '', lease }]);
  const heard = hear(a, '', 1);
  server.quorum = false;
  await heard.until(({ ended }) => ended.length === 1);
  t.match(await failureOf(a.get('k')), { kind: 'unavailable', message: /no leader/ });
  /** Those that fail at once cannot be done later. */
  const refused = new Set<number>();
  const writes = Array.from({ length: 40 }, (_, n) =>
    failureOf(a.txn([], [put(`k${n}`)])).then(() => refused.add(n)),
  );
  await settled();
  t.ok(refused.size > 0 && refused.size < writes.length);
  const atOnce = new Set(refused);
  await clock.advance(60_000);
  await Promise.all(writes);
  t.strictSame(server.keys('k'), []);
  server.quorum = true;
  const done = server.keys('k').map(({ key }) => Number(key.slice(1)));
  t.ok(done.length > 0 && !done.some((n) => atOnce.has(n)), 'some are done after all');
  t.not(server.keyOf('l'), null);
  await clock.advance(5000);
  t.equal(server.keyOf('l'), null);
});

t.test('an answer is lost after the transaction, and a hook acts between any two', async (t) => {
  const { server, a } = fake();
  const seen: string[] = [];
  server.onOp = (client, what) => seen.push(`${client} ${what}`);
  server.losesAnswer = (_client, what) => what === 'txn lost';
  t.match(await failureOf(a.txn([], [put('lost')])), { kind: 'unavailable', message: /connection was lost/ });
  t.not(server.keyOf('lost'), null);
  t.strictSame(seen, ['a txn lost', 'a txn lost: done']);
  server.onOp = () => a.close();
  t.match(await failureOf(a.txn([], [put('closed')])), { message: /given up/ });
  await settled();
  t.not(server.keyOf('closed'), null);
});
