/** The client against a real etcd: three members that are killed, stopped and cut off; TLS, users, a full quota. */
import t, { type Test } from 'tap';
import { systemClock } from '../../src/base/system/clock.js';
import { createConnect } from '../../src/base/system/connect.js';
import { type Https, openHttps } from '../../src/base/system/https.js';
import type { EtcdUser } from '../../src/cloud/etcd/client.js';
import { createEtcd } from '../../src/cloud/etcd/client.js';
import type { Etcd } from '../../src/cloud/etcd/etcd.js';
import { etcdBehaviour, failureOf, hear, listed } from '../etcd/behaviour.js';
import { type Cluster, ETCD, startEtcd } from './etcd.js';
import { skipWithout } from './peers.js';

const skip = skipWithout(ETCD, '/usr/bin/etcdctl', '/usr/sbin/nft');

/** A client, which first calls the member `first`. */
function clientOf(
  t: Test,
  { endpoints, tls }: Cluster,
  first = 0,
  user: EtcdUser | null = null,
  called: (url: string) => void = () => undefined,
  prefix = 'test/',
): Etcd {
  const clock = systemClock();
  const connect = createConnect({ clock });
  const opened = openHttps({ ca: tls?.ca ?? null, clientCertificate: tls?.client ?? null, clock, connect });
  const https: Https = {
    ...opened,
    send(request) {
      called(request.url);
      return opened.send(request);
    },
  };
  const order = endpoints.map((_, n) => endpoints[(first + n) % endpoints.length] as string);
  const etcd = createEtcd({ endpoints: order, https, user, prefix, clock });
  t.teardown(() => etcd.close());
  return etcd;
}

/**
 * A client whose connection to the member `at` has served it. A client leaves a member that refuses for a moment, such as
 * during an election on a busy machine: then it is of no use to a test that stops that member.
 */
async function clientAt(t: Test, cluster: Cluster, at: number): Promise<Etcd> {
  for (;;) {
    const called: string[] = [];
    const etcd = clientOf(t, cluster, at, null, (url) => called.push(url));
    const isServed = await survives(() => etcd.get('k'))();
    if (isServed && called.every((url) => url.startsWith(cluster.endpoints[at] as string))) return etcd;
  }
}

const put = (key: string, value = '') => ({ put: key, value });

/** Resolves when it holds. */
async function until(holds: () => Promise<boolean>): Promise<void> {
  while (!(await holds()));
}

const survives = (act: () => Promise<unknown>) => () =>
  act().then(
    () => true,
    () => false,
  );

t.test('behaviour', { skip }, async (t) => {
  const cluster = await startEtcd(t);
  let worlds = 0;
  await etcdBehaviour(t, async (t) => ({
    a: clientOf(t, cluster, 0),
    b: clientOf(t, cluster, 1),
    prefix: `${++worlds}/`,
    pass: (ms) => new Promise((resolve) => void setTimeout(resolve, ms)),
  }));
});

t.test('behaviour with TLS, a client certificate and a user', { skip }, async (t) => {
  const cluster = await startEtcd(t, { tls: true });
  for (const line of [
    'user add root:secret',
    'user grant-role root root',
    'role add fleet',
    'role grant-permission fleet --prefix=true readwrite test/',
    'user add fleet:pass:word',
    'user grant-role fleet fleet',
    'auth enable',
  ]) {
    const args = line.split(' ');
    if (line === 'user grant-role root root')
      await cluster.etcdctl('role', 'add', 'root').catch(() => undefined);
    await cluster.etcdctl(...args);
  }
  const user = { name: 'fleet', password: 'pass:word' };
  let worlds = 0;
  await etcdBehaviour(t, async (t) => ({
    a: clientOf(t, cluster, 0, user),
    b: clientOf(t, cluster, 1, user),
    prefix: `${++worlds}/`,
    pass: (ms) => new Promise((resolve) => void setTimeout(resolve, ms)),
  }));

  await t.test('what a user may not', async (t) => {
    const denied = { kind: 'refused', message: /permission denied/ } as const;
    const other = clientOf(t, cluster, 0, user, undefined, 'other/');
    t.match(await failureOf(other.txn([], [put('k')])), denied);
    t.match(await failureOf(other.get('k')), denied);
    const heard = hear(other, '', 0);
    await heard.until(({ ended }) => ended.length === 1);
    t.match(heard.ended[0], denied);
    const wrong = clientOf(t, cluster, 0, { name: 'fleet', password: 'wrong' });
    t.match(await failureOf(wrong.get('k')), { kind: 'refused', message: /invalid user ID or password/ });
    const nobody = clientOf(t, cluster);
    // Without a token the gateway's own certificate counts, whose name is no user's.
    t.match(await failureOf(nobody.get('k')), denied);
  });

  await t.test('a token that a member has forgotten is renewed', async (t) => {
    const etcd = clientOf(t, cluster, 0, user);
    const { revision } = await etcd.txn([], [put('k', 'before')]);
    // Tokens are in memory alone.
    await Promise.all(cluster.members.map((member) => member.kill()));
    for (const member of cluster.members) member.start();
    const root = clientOf(t, cluster, 0, { name: 'root', password: 'secret' });
    await until(survives(() => root.get('k')));
    const heard = hear(etcd, '', revision + 1);
    t.match(await etcd.get('k'), { value: 'before' });
    await root.txn([], [put('k', 'after')]);
    await heard.until(({ revisions, ended }) => revisions.length + ended.length > 0);
    t.match(heard.revisions, [{ changes: [{ value: 'after' }] }]);
    t.strictSame(heard.ended, []);
    heard.close();
  });

  await t.test('neither a foreign CA nor a client without a certificate', async (t) => {
    const bare = clientOf(t, { ...cluster, tls: null }, 0, user);
    t.match(await failureOf(bare.get('k')), { kind: 'unavailable', message: /certificate/ });
    const tls = { ca: cluster.tls?.ca ?? '', client: null };
    const anonymous = clientOf(t, { ...cluster, tls } as never, 0, user);
    const failure = await failureOf(anonymous.txn([], [put('none')]));
    t.match(failure, { kind: 'unavailable', message: /wants a certificate/ });
  });
});

t.test('members are stopped and killed', { skip }, async (t) => {
  const cluster = await startEtcd(t);
  const [one, two, three] = cluster.members as [
    Cluster['members'][0],
    Cluster['members'][0],
    Cluster['members'][0],
  ];
  const etcd = await clientAt(t, cluster, 0);
  const { revision } = await clientOf(t, cluster).txn([], [put('k', '1')]);

  // It accepts connections, and answers nothing.
  await one.stop();
  t.match(await failureOf(etcd.txn([], [put('k', '2')])), { kind: 'unavailable' });
  await until(survives(() => etcd.get('k')));
  one.continue();
  await cluster.ready();

  const reader = clientOf(t, cluster);
  await reader.get('k');
  await one.stop();
  // A leader may be elected meanwhile, and each try has its deadline.
  await until(survives(() => reader.get('k')));
  await until(survives(() => etcd.txn([], [put('k', '3')])));
  await one.kill();

  // Nothing listens there: also a write is tried at the next member.
  const writer = clientOf(t, cluster);
  t.match(await writer.txn([], [put('k', '4')]), { succeeded: true });
  const lease = await writer.grant(60);

  // One of three is no quorum.
  const heard = hear(clientOf(t, cluster, 2), 'k', revision);
  await heard.until(({ revisions }) => revisions.length >= 3);
  await two.kill();
  await heard.until(({ ended }) => ended.length === 1);
  t.match(heard.ended[0], { kind: 'unavailable', message: /no leader/ });
  t.match(await failureOf(writer.get('k')), { kind: 'unavailable' });
  const failure = await failureOf(writer.txn([], [put('k', 'never')]));
  t.match(failure, { kind: 'unavailable', message: /no leader/ });
  t.match(await failureOf(writer.keepAlive(lease)), { kind: 'unavailable' });
  t.match(await failureOf(writer.grant(5)), { kind: 'unavailable' });
  const late = hear(writer, 'k', revision);
  await late.until(({ ended }) => ended.length === 1);
  t.match(late.ended[0], { kind: 'unavailable', message: /no leader/ });

  two.start();
  one.start();
  await cluster.ready();
  t.match(await writer.get('k'), { value: '4' });
  t.equal(await writer.keepAlive(lease), 60);

  // The history is whole after all that.
  const whole = hear(writer, 'k', revision);
  await whole.until(({ revisions }) => revisions.at(-1)?.changes[0]?.value === '4');
  const values = whole.revisions.map(({ changes }) => changes[0]?.value);
  // '2' may have been done, but not twice. '3' was tried until it was known to be done.
  t.ok(values.filter((value) => value === '2').length <= 1);
  const sure = values.filter((value) => value !== '2');
  t.strictSame(
    sure.filter((value, n) => value !== sure[n - 1]),
    ['1', '3', '4'],
  );
  whole.close();
  await three.kill();
});

t.test('a member that is cut off has no leader, and the others go on', { skip }, async (t) => {
  const cluster = await startEtcd(t, { networked: true });
  const leader = await cluster.leader();
  const at = cluster.members.indexOf(leader);
  const inside = clientOf(t, { ...cluster, endpoints: [leader.endpoint] });
  const outside = clientOf(t, cluster, at + 1);
  const any = await clientAt(t, cluster, at);
  const { revision } = await outside.txn([], [put('k', '1')]);
  const silent = hear(inside, 'k', revision);
  const loud = hear(outside, 'k', revision);
  await Promise.all([silent, loud].map((one) => one.until(({ revisions }) => revisions.length === 1)));

  leader.cut();
  // The connection is dead: no answer, and nobody knows whether it was done.
  t.match(await failureOf(any.txn([], [put('k', 'lost')])), { kind: 'unavailable' });
  // Nor does a new connection come about: the write goes to the next member.
  await until(survives(() => outside.txn([], [put('k', '2')])));
  const fresh = clientOf(t, cluster, at);
  t.match(await fresh.txn([], [put('k', '3')]), { succeeded: true });
  await loud.until(({ revisions }) => revisions.at(-1)?.changes[0]?.value === '3');
  t.strictSame(silent.revisions.length, 1, 'the watch at the old leader hears nothing');

  leader.heal();
  await cluster.ready();
  await silent.until(
    ({ revisions, ended }) => ended.length === 1 || revisions.at(-1)?.changes[0]?.value === '3',
  );
  t.match(await inside.get('k'), { value: '3' }, 'the old leader has what the others agreed on');
  t.notOk((await listed(inside, 'k')).keys.some(({ value }) => value === 'lost'));
  loud.close();
  silent.close();
});

t.test('a member without the others ends its watches and refuses at once', { skip }, async (t) => {
  const cluster = await startEtcd(t);
  const [one, two, three] = cluster.members as [
    Cluster['members'][0],
    Cluster['members'][0],
    Cluster['members'][0],
  ];
  const inside = clientOf(t, { ...cluster, endpoints: [one.endpoint] });
  const { revision } = await inside.txn([], [put('k', '1')]);
  const heard = hear(inside, 'k', revision);
  await heard.until(({ revisions }) => revisions.length === 1);
  // They hold their connections, and say nothing: for the first it is a partition.
  await two.stop();
  await three.stop();
  await heard.until(({ ended }) => ended.length === 1);
  t.match(heard.ended[0], { kind: 'unavailable', message: /no leader/ });
  t.match(await failureOf(inside.txn([], [put('k', '2')])), { message: /no leader/ });
  // A client that knows all members must not wait for the stopped ones in vain when one can answer again.
  two.continue();
  three.continue();
  await until(survives(() => inside.txn([], [put('k', '3')])));
});

t.test('a full quota is refused in words', { skip }, async (t) => {
  const cluster = await startEtcd(t, { args: ['--quota-backend-bytes', String(2 ** 21)] });
  const etcd = clientOf(t, cluster);
  const fill = async () => {
    for (let n = 0; ; n++) await etcd.txn([], [put(`k${n}`, 'x'.repeat(2 ** 19))]);
  };
  const failure = await failureOf(fill());
  t.match(failure, { kind: 'refused', message: /NOSPACE/ });
  t.match(await etcd.get('k0'), { key: 'k0' });
});
