/**
 * The behaviour of every `Etcd` without faults. The suite runs against the real etcd and against the fake one, so that a
 * test on the fake says something about a cluster.
 */
import type { Test } from 'tap';
import { MIB } from '../../src/base/limits.js';
import {
  type Change,
  type Etcd,
  EtcdError,
  type KeyValue,
  type Op,
  TXN_OPS_MAX,
} from '../../src/cloud/etcd/etcd.js';

/** Two clients of one server, and keys below a prefix that nobody else uses. */
export interface EtcdWorld {
  readonly a: Etcd;
  readonly b: Etcd;
  readonly prefix: string;
  /** Lets so much time pass. */
  pass(ms: number): Promise<void>;
}

/** A watch as a test sees it. */
export interface Heard {
  readonly revisions: { readonly revision: number; readonly changes: readonly Change[] }[];
  readonly ended: EtcdError[];
  /** Waits until it holds for what has been heard. */
  until(holds: (heard: Heard) => boolean): Promise<void>;
  close(): void;
}

/** Starts a watch. */
export function hear(etcd: Etcd, prefix: string, from: number): Heard {
  const waiting = new Set<() => void>();
  const told = () => {
    for (const look of waiting) look();
  };
  const heard: Heard = {
    revisions: [],
    ended: [],
    until: (holds) =>
      new Promise((resolve) => {
        const look = () => {
          if (!holds(heard)) return;
          waiting.delete(look);
          resolve();
        };
        waiting.add(look);
        look();
      }),
    close: () => watch.close(),
  };
  const watch = etcd.watch(prefix, from, {
    changes(changes, revision) {
      heard.revisions.push({ revision, changes });
      told();
    },
    ended(why) {
      heard.ended.push(why);
      told();
    },
  });
  return heard;
}

/** All keys below a prefix, and the sizes of the pages. */
export async function listed(etcd: Etcd, prefix: string) {
  const pages: (readonly KeyValue[])[] = [];
  const revision = await etcd.list(prefix, (found) => pages.push(found));
  return { revision, keys: pages.flat(), pages: pages.map(({ length }) => length) };
}

/** The error of a request that must fail. */
export async function failureOf(request: Promise<unknown>): Promise<EtcdError> {
  const [result] = await Promise.allSettled([request]);
  if (result?.status !== 'rejected') throw new Error('it has not failed');
  if (!(result.reason instanceof EtcdError)) throw result.reason;
  return result.reason;
}

const put = (key: string, value = ''): Op => ({ put: key, value });
const namesOf = (changes: readonly Change[]) => changes.map(({ kind, key }) => `${kind} ${key}`);

/** Runs the suite; each part asks for a world. */
export async function etcdBehaviour(t: Test, fresh: (t: Test) => Promise<EtcdWorld>): Promise<void> {
  const part = (name: string, run: (t: Test, world: EtcdWorld) => Promise<void>) =>
    t.test(name, async (t) => run(t, await fresh(t)));

  await part(
    'a key is made, read, changed and deleted, and its revisions tell',
    async (t, { a, b, prefix: p }) => {
      t.equal(await a.get(`${p}k`), null);
      const made = await a.txn([{ key: `${p}k`, modRevision: 0 }], [put(`${p}k`, 'Grüße \u{1f4ec}\n\0')]);
      t.match(made, { succeeded: true, current: null });
      const one = { key: `${p}k`, modRevision: made.revision, createRevision: made.revision };
      t.strictSame(await b.get(`${p}k`), { ...one, value: 'Grüße \u{1f4ec}\n\0' });
      const changed = await b.txn([{ key: `${p}k`, modRevision: made.revision }], [put(`${p}k`)]);
      const two = { ...one, value: '', modRevision: changed.revision };
      t.strictSame(await a.get(`${p}k`), two);
      const second = { key: `${p}none`, modRevision: 0 };
      const refused = await a.txn(
        [{ key: `${p}k`, modRevision: made.revision }, second],
        [put(`${p}k`, 'x')],
      );
      t.strictSame(refused, { succeeded: false, revision: changed.revision, current: two });
      t.strictSame(
        await a.txn([second, { key: `${p}k`, modRevision: 0 }], [put(`${p}k`, 'x')]),
        { succeeded: false, revision: changed.revision, current: null },
        'the key of the first condition is absent',
      );
      const gone = await a.txn([], [{ delete: `${p}k` }]);
      t.ok(gone.succeeded && gone.revision > changed.revision);
      t.strictSame(await a.txn([{ key: `${p}k`, modRevision: made.revision }], []), {
        succeeded: false,
        revision: gone.revision,
        current: null,
      });
      const again = await a.txn([], [{ delete: `${p}k` }]);
      t.match(again, { succeeded: true, revision: gone.revision }, 'nothing to delete: no new revision');
    },
  );

  await part('conditions: revision, birth and value, all of them', async (t, { a, prefix: p }) => {
    const { revision: born } = await a.txn([], [put(`${p}x`, 'one'), put(`${p}y`, 'two')]);
    const { revision: now } = await a.txn([], [put(`${p}x`, 'three')]);
    const holds = async (...compares: Parameters<Etcd['txn']>[0]) => (await a.txn(compares, [])).succeeded;
    t.equal(await holds({ key: `${p}x`, modRevision: now }, { key: `${p}x`, createRevision: born }), true);
    t.equal(await holds({ key: `${p}x`, createRevision: now }), false);
    t.equal(await holds({ key: `${p}x`, value: 'three' }, { key: `${p}y`, value: 'two' }), true);
    t.equal(await holds({ key: `${p}x`, value: 'three' }, { key: `${p}y`, value: 'one' }), false);
    t.equal(await holds({ key: `${p}none`, value: '' }), false, 'an absent key has no value');
    t.equal(await holds({ key: `${p}none`, createRevision: 0 }, { key: `${p}none`, modRevision: 0 }), true);
  });

  await part('of two that compare the same revision one succeeds', async (t, { a, b, prefix: p }) => {
    for (let n = 0; n < 10; n++) {
      const found = (await a.get(`${p}k`))?.modRevision ?? 0;
      const write = (etcd: Etcd, by: string) =>
        etcd.txn([{ key: `${p}k`, modRevision: found }], [put(`${p}k`, by)]);
      const [one, two] = await Promise.all([write(a, 'a'), write(b, 'b')]);
      t.equal(Number(one.succeeded) + Number(two.succeeded), 1);
      const loser = one.succeeded ? two : one;
      t.equal(loser.current?.value, one.succeeded ? 'a' : 'b', 'the loser sees what the winner wrote');
    }
  });

  await part('a transaction is whole or nothing, and so are its refusals', async (t, { a, prefix: p }) => {
    const many = (count: number) => Array.from({ length: count }, (_, n) => put(`${p}${n}`));
    t.equal((await a.txn([], many(TXN_OPS_MAX))).succeeded, true);
    t.equal((await listed(a, p)).keys.length, TXN_OPS_MAX);
    t.match(await failureOf(a.txn([], [put(`${p}x`), put(`${p}x`)])), { kind: 'refused' });
    t.match(await failureOf(a.txn([], [{ delete: `${p}x` }, put(`${p}x`)])), { kind: 'refused' });
    t.match(await failureOf(a.txn([], [put(`${p}x`), put(`${p}y`, 'x'.repeat(1.6 * MIB))])), {
      kind: 'refused',
      message: /too large/,
    });
    t.match(await failureOf(a.txn([], [put(`${p}x`, 'x'.repeat(3 * MIB))])), { kind: 'refused' });
    t.match(await failureOf(a.txn([], [put(`${p}x`), { put: `${p}y`, value: '', lease: '77' }])), {
      kind: 'refused',
      message: /lease not found/,
    });
    t.equal(await a.get(`${p}x`), null);
    const { revision } = await a.txn([], [{ delete: `${p}1` }, { delete: `${p}2` }]);
    const left = await listed(a, p);
    t.equal(left.revision, revision);
    t.equal(left.keys.length, TXN_OPS_MAX - 2);
  });

  await part('a list is in pages, in order, and of one revision', async (t, { a, b, prefix: p }) => {
    t.strictSame((await listed(a, `${p}none`)).keys, []);
    const names = Array.from({ length: 100 }, (_, n) => `${p}l/${String(n).padStart(3, '0')}`);
    await a.txn(
      [],
      [...names.map((key) => put(key, key)), put(`${p}l`), put(`${p}l0`), put(`${p}l\u{ff5e}`)],
    );
    const { revision } = await b.txn([], [put(`${p}l/ü\u{1f4ec}`, 'x'.repeat(MIB))]);
    const writes: Promise<unknown>[] = [];
    const keys: KeyValue[] = [];
    let pages = 0;
    const at = await a.list(`${p}l/`, (found) => {
      pages++;
      keys.push(...found);
      writes.push(b.txn([], [{ delete: `${p}l/099` }, put(`${p}l/zzz`)]));
    });
    await Promise.all(writes);
    t.equal(at, revision);
    t.ok(pages > 1, `${pages} pages`);
    t.strictSame(
      keys.map(({ key }) => key),
      [...names, `${p}l/ü\u{1f4ec}`],
    );
    t.strictSame(
      keys.slice(0, 100).map(({ value }) => value),
      names,
    );
    t.equal(keys.at(-1)?.value.length, MIB);
  });

  await part('a list of large values', async (t, { a, prefix: p }) => {
    for (let n = 0; n < 20; n++) await a.txn([], [put(`${p}${n}`, 'y'.repeat(n < 12 ? 1 : MIB))]);
    const { keys } = await listed(a, p);
    t.equal(keys.length, 20);
    t.equal(
      keys.reduce((sum, { value }) => sum + value.length, 0),
      12 + 8 * MIB,
    );
  });

  await part('a watch gives each revision whole and in order', async (t, { a, b, prefix: p }) => {
    const { revision: first } = await a.txn([], [put(`${p}w/1`, 'one'), put(`${p}other`)]);
    const { revision: second } = await b.txn([], [put(`${p}w/2`), put(`${p}w/1`, 'two')]);
    const heard = hear(a, `${p}w/`, first);
    await heard.until(({ revisions }) => revisions.length === 2);
    t.strictSame(heard.revisions[0], {
      revision: first,
      changes: [{ kind: 'put', key: `${p}w/1`, value: 'one', modRevision: first, createRevision: first }],
    });
    t.strictSame(namesOf(heard.revisions[1]?.changes ?? []), [`put ${p}w/2`, `put ${p}w/1`]);
    t.equal(heard.revisions[1]?.changes[1]?.createRevision, first);
    const late = hear(b, `${p}w/`, second + 1);
    const { revision: third } = await a.txn([], [{ delete: `${p}w/1` }]);
    await heard.until(({ revisions }) => revisions.length === 3);
    await late.until(({ revisions }) => revisions.length === 1);
    const deleted = { kind: 'delete', key: `${p}w/1`, value: '', modRevision: third, createRevision: 0 };
    t.strictSame(heard.revisions[2], { revision: third, changes: [deleted] });
    t.strictSame(late.revisions, [heard.revisions[2]]);
    heard.close();
    await a.txn([], [put(`${p}w/3`)]);
    await late.until(({ revisions }) => revisions.length === 2);
    late.close();
    t.equal(heard.revisions.length, 3, 'nothing after it is closed');
    t.strictSame([...heard.ended, ...late.ended], []);
  });

  await part('a watch from 0 on gives the changes to come', async (t, { a, b, prefix: p }) => {
    await a.txn([], [put(`${p}1`)]);
    const heard = hear(a, p, 0);
    // When it begins is not told: each write may be before that.
    let revision = 0;
    while (heard.revisions.length === 0) ({ revision } = await b.txn([], [put(`${p}2`)]));
    t.ok((heard.revisions[0]?.revision ?? 0) <= revision);
    t.equal(heard.revisions[0]?.changes[0]?.key, `${p}2`);
    heard.close();
  });

  await part('a watch catches up with large revisions, each whole', async (t, { a, prefix: p }) => {
    const { revision } = await listed(a, p);
    const ops = (n: number) =>
      Array.from({ length: 12 }, (_, k) => put(`${p}${n}/${k}`, `${k}`.repeat(60_000)));
    for (let n = 0; n < 6; n++) await a.txn([], ops(n));
    const heard = hear(a, p, revision + 1);
    await heard.until(({ revisions }) => revisions.length === 6);
    t.strictSame(
      heard.revisions.map(({ changes }) => namesOf(changes)),
      Array.from({ length: 6 }, (_, n) => Array.from({ length: 12 }, (_, k) => `put ${p}${n}/${k}`)),
    );
    t.ok(
      heard.revisions.every(({ revision, changes }) => changes.every((one) => one.modRevision === revision)),
    );
    heard.close();
  });

  await part('a lease ends and takes its keys along', async (t, { a, b, prefix: p, pass }) => {
    const lease = await a.grant(2);
    t.equal(await b.keepAlive(lease), 2);
    const { revision } = await a.txn(
      [],
      [
        { put: `${p}1`, value: '', lease },
        { put: `${p}2`, value: '', lease },
        { put: `${p}3`, value: '', lease },
      ],
    );
    await b.txn([], [put(`${p}3`)]);
    const heard = hear(b, p, revision + 2);
    await pass(5000);
    await heard.until(({ revisions }) => revisions.length === 1);
    t.strictSame(
      namesOf(heard.revisions[0]?.changes ?? []),
      [`delete ${p}1`, `delete ${p}2`],
      'in one revision',
    );
    heard.close();
    t.equal(await a.keepAlive(lease), 0);
    t.match(await failureOf(a.revoke(lease)), { kind: 'refused', message: /lease not found/ });
    t.strictSame(
      (await listed(a, p)).keys.map(({ key }) => key),
      [`${p}3`],
      'a put without it freed the key',
    );
  });

  await part(
    'a lease that is renewed lives, one that is revoked does not',
    async (t, { a, b, prefix: p, pass }) => {
      const [kept, revoked] = [await a.grant(3), await a.grant(60)];
      t.not(kept, revoked);
      await a.txn(
        [],
        [
          { put: `${p}kept`, value: '', lease: kept },
          { put: `${p}gone`, value: '', lease: revoked },
        ],
      );
      await a.revoke(revoked);
      for (let n = 0; n < 4; n++) {
        await pass(1000);
        t.equal(await b.keepAlive(kept), 3);
      }
      t.strictSame(
        (await listed(b, p)).keys.map(({ key }) => key),
        [`${p}kept`],
      );
      t.equal(await b.keepAlive(revoked), 0);
      await b.revoke(kept);
    },
  );

  await part('what is compacted cannot be watched', async (t, { a, b, prefix: p }) => {
    const { revision } = await a.txn([], [put(`${p}1`)]);
    const { revision: last } = await a.txn([], [put(`${p}2`)]);
    await a.compact(last);
    await b.compact(last);
    await b.compact(revision);
    const heard = hear(b, p, revision);
    await heard.until(({ ended }) => ended.length === 1);
    t.match(heard.ended, [{ kind: 'compacted' }]);
    t.ok(heard.ended[0] instanceof EtcdError);
    t.strictSame(heard.revisions, []);
    const next = hear(b, p, last);
    await next.until(({ revisions }) => revisions.length === 1);
    t.equal(next.revisions[0]?.changes[0]?.key, `${p}2`);
    next.close();
    t.strictSame(
      (await listed(b, p)).keys.map(({ key }) => key),
      [`${p}1`, `${p}2`],
    );
    t.match(await failureOf(a.compact(last + 1000)), { kind: 'refused' });
  });

  await part('a closed client rejects, and its watches are silent', async (t, { a, b, prefix: p }) => {
    const { revision } = await a.txn([], [put(`${p}1`)]);
    const [mine, other] = [hear(a, p, revision), hear(b, p, revision)];
    await Promise.all([mine, other].map((one) => one.until(({ revisions }) => revisions.length === 1)));
    a.close();
    t.match(await failureOf(a.get(`${p}1`)), { kind: 'unavailable' });
    t.match(await failureOf(a.txn([], [])), { kind: 'unavailable' });
    await b.txn([], [put(`${p}2`)]);
    await other.until(({ revisions }) => revisions.length === 2);
    t.match(mine, { revisions: { length: 1 }, ended: [] });
    other.close();
  });
}
