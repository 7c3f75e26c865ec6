/**
 * An etcd in memory, shared by several clients, whose faults are those of a real one. It passes the same suite of behaviour
 * (test/etcd/behaviour.ts).
 *
 *   const server = new FakeEtcd(clock, random);
 *   const a = server.client('a');
 *   server.cut('a');             // its requests and watches hang, then fail
 *   server.quorum = false;       // for all
 */
import { MIB, SECOND_MS } from '../../src/base/limits.js';
import type { Clock, Timer } from '../../src/base/system/clock.js';
import {
  type Change,
  type Compare,
  type Etcd,
  EtcdError,
  type KeyValue,
  type Op,
  TXN_OPS_MAX,
  type TxnResult,
} from '../../src/cloud/etcd/etcd.js';
import { FakeClient, type FakeWatch, noLeader, unavailable } from './fake-etcd-client.js';

const REQUEST_BYTES_MAX = 1.5 * MIB;
/** A watch over a dead connection ends after this long; until then it is silent. */
const STALLED_MS = 20 * SECOND_MS;

interface Lease {
  readonly ttlS: number;
  timer: Timer;
}

type Kept = KeyValue & { readonly lease: string | undefined };

const refused = (words: string) => new EtcdError('refused', `etcd: ${words}`);
const byBytes = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b));

export class FakeEtcd {
  /** Called before and after each operation takes effect: `txn doc/a`, `txn doc/a: done`. It may throw, cut or close. */
  onOp: (client: string, description: string) => void = () => undefined;
  /** True: the operation is done, and its answer is lost. */
  losesAnswer: (client: string, description: string) => boolean = () => false;
  /** The turns that an answer takes, in which watches go on. */
  answerTurns = 1;
  revision = 1;
  compacted = 0;
  readonly clock: Clock;
  readonly random: () => number;
  readonly #keys = new Map<string, Kept>();
  readonly #leases = new Map<string, Lease>();
  readonly #history: Change[] = [];
  readonly #cut = new Map<string, Timer>();
  readonly #watches = new Set<FakeWatch>();
  /** Transactions without an answer, which are done when a quorum is back. */
  #late: (() => void)[] = [];
  #quorum = true;
  #leaseIds = 1000;

  constructor(clock: Clock, random: () => number) {
    this.clock = clock;
    this.random = random;
  }

  client(name: string): Etcd {
    return new FakeClient(this, name);
  }

  /** False: no member has a leader. Leases do not expire meanwhile, and then begin anew. */
  get quorum(): boolean {
    return this.#quorum;
  }
  set quorum(has: boolean) {
    if (this.#quorum === has) return;
    this.#quorum = has;
    for (const lease of this.#leases.values()) lease.timer.stop();
    if (has) {
      for (const [id, lease] of this.#leases) lease.timer = this.#expiry(id, lease.ttlS);
      for (const act of this.#late.splice(0)) act();
    } else for (const watch of this.#watches) if (!this.isCut(watch.client)) watch.end(noLeader());
  }

  /** Nothing comes from or to this client: its requests end at their deadline, its watches later. */
  cut(client: string): void {
    if (this.#cut.has(client)) return;
    const end = () => {
      for (const watch of this.#watches)
        if (watch.client === client) watch.end(unavailable('the connection was lost'));
    };
    this.#cut.set(client, this.clock.after(STALLED_MS, end));
  }

  heal(client: string): void {
    this.#cut.get(client)?.stop();
    this.#cut.delete(client);
    for (const watch of this.#watches) if (watch.client === client) watch.wake();
  }

  isCut(client: string): boolean {
    return this.#cut.has(client);
  }

  /** The present keys below a prefix, for a test to look at. */
  keys(prefix = ''): KeyValue[] {
    const found = [...this.#keys.values()].filter(({ key }) => key.startsWith(prefix));
    return found.sort((a, b) => byBytes(a.key, b.key)).map(({ lease: _, ...kv }) => kv);
  }

  keyOf(key: string): KeyValue | null {
    const kept = this.#keys.get(key);
    if (kept === undefined) return null;
    const { lease: _, ...kv } = kept;
    return kv;
  }

  /** A request that is done later, or never. */
  late(act: () => void): void {
    if (this.random() >= 0.5) return;
    this.#late.push(() => {
      try {
        act();
      } catch {
        // Nobody waits for the refusal.
      }
    });
  }

  txn(compares: readonly Compare[], ops: readonly Op[]): TxnResult {
    this.#check(ops);
    const succeeded = compares.every((compare) => this.#holds(compare));
    if (succeeded) this.#apply(ops);
    const [first] = compares;
    const current = succeeded || first === undefined ? null : this.keyOf(first.key);
    return { succeeded, revision: this.revision, current };
  }

  grant(ttlS: number): string {
    const id = String(++this.#leaseIds);
    this.#leases.set(id, { ttlS, timer: this.#expiry(id, ttlS) });
    return id;
  }

  keepAlive(id: string): number {
    const lease = this.#leases.get(id);
    if (lease === undefined) return 0;
    lease.timer.stop();
    lease.timer = this.#expiry(id, lease.ttlS);
    return lease.ttlS;
  }

  revoke(id: string): void {
    this.#leases.get(id)?.timer.stop();
    if (!this.#leases.delete(id)) throw refused('requested lease not found');
    const keys = [...this.#keys.values()].filter(({ lease }) => lease === id);
    this.#apply(keys.map(({ key }) => ({ delete: key })));
  }

  compact(revision: number): void {
    if (revision > this.revision) throw refused('required revision is a future revision');
    this.compacted = Math.max(this.compacted, revision);
  }

  watch(watch: FakeWatch): void {
    this.#watches.add(watch);
    if (!this.#quorum && !this.isCut(watch.client)) watch.end(noLeader());
    watch.wake();
  }

  forget(watch: FakeWatch): void {
    this.#watches.delete(watch);
  }

  /** The changes below a prefix from a revision on. */
  since(prefix: string, from: number): Change[] {
    // Nearly always a few of the last ones are asked for.
    let first = this.#history.length;
    while (first > 0 && (this.#history[first - 1] as Change).modRevision >= from) first--;
    return this.#history.slice(first).filter(({ key }) => key.startsWith(prefix));
  }

  /** A real etcd is late by up to a second. */
  #expiry(id: string, ttlS: number): Timer {
    return this.clock.after((ttlS + this.random()) * SECOND_MS, () => this.revoke(id));
  }

  #holds(compare: Compare): boolean {
    const present = this.#keys.get(compare.key);
    if ('modRevision' in compare) return (present?.modRevision ?? 0) === compare.modRevision;
    if ('createRevision' in compare) return (present?.createRevision ?? 0) === compare.createRevision;
    return present?.value === compare.value;
  }

  #check(ops: readonly Op[]): void {
    if (ops.length > TXN_OPS_MAX) throw new Error('a transaction that etcd takes');
    const puts = ops.flatMap((op) => ('put' in op ? [op] : []));
    const deletes = (key: string) => ops.some((op) => 'delete' in op && op.delete === key);
    if (new Set(puts.map(({ put }) => put)).size < puts.length || puts.some(({ put }) => deletes(put)))
      throw refused('duplicate key given in txn request');
    const bytes = puts.reduce((sum, { put, value }) => sum + Buffer.byteLength(put + value), 0);
    if (bytes > REQUEST_BYTES_MAX) throw refused('request is too large');
    if (puts.some(({ lease }) => lease !== undefined && !this.#leases.has(lease)))
      throw refused('requested lease not found');
  }

  #apply(ops: readonly Op[]): void {
    const revision = this.revision + 1;
    const changes = ops.flatMap((op): Change[] => {
      if ('put' in op) {
        const createRevision = this.#keys.get(op.put)?.createRevision ?? revision;
        const kv = { key: op.put, value: op.value, modRevision: revision, createRevision };
        this.#keys.set(op.put, { ...kv, lease: op.lease });
        return [{ kind: 'put', ...kv }];
      }
      if (!this.#keys.delete(op.delete)) return [];
      return [{ kind: 'delete', key: op.delete, value: '', modRevision: revision, createRevision: 0 }];
    });
    if (changes.length === 0) return;
    this.revision = revision;
    this.#history.push(...changes);
    for (const watch of this.#watches) watch.wake();
  }
}
