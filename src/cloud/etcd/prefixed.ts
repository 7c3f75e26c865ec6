/**
 * Part of an etcd, as if it were all of it: every key begins with a prefix that the caller does not see.
 */
import type { Change, Compare, Etcd, KeyValue, Op } from './etcd.js';

/** The keys of `etcd` that begin with `prefix`, without it. Closing it closes `etcd`. */
export function prefixed(etcd: Etcd, prefix: string): Etcd {
  const outer = (key: string) => `${prefix}${key}`;
  const inner = <K extends KeyValue | Change>(entry: K): K => ({
    ...entry,
    key: entry.key.slice(prefix.length),
  });
  const outerOp = (op: Op): Op => {
    if ('put' in op) return { ...op, put: outer(op.put) };
    return 'delete' in op ? { delete: outer(op.delete) } : { deletePrefix: outer(op.deletePrefix) };
  };
  return {
    async get(key) {
      const { revision, found } = await etcd.get(outer(key));
      return { revision, found: found && inner(found) };
    },
    list: (of, page) => etcd.list(outer(of), (found) => page(found.map(inner))),
    async txn(compares, ops, show) {
      const outerCompares: Compare[] = compares.map((compare) => ({ ...compare, key: outer(compare.key) }));
      const shown = show === undefined ? [] : ([outer(show)] as const);
      const { current, ...result } = await etcd.txn(outerCompares, ops.map(outerOp), ...shown);
      return { ...result, current: current && inner(current) };
    },
    grant: (ttlS) => etcd.grant(ttlS),
    keepAlive: (lease) => etcd.keepAlive(lease),
    revoke: (lease) => etcd.revoke(lease),
    watch: (of, fromRevision, listener) =>
      etcd.watch(outer(of), fromRevision, {
        changes: (changes, revision) => listener.changes(changes.map(inner), revision),
        ended: (why) => listener.ended(why),
      }),
    compact: (revision) => etcd.compact(revision),
    close: () => etcd.close(),
  };
}
