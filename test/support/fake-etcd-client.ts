/** The clients and watches of the fake etcd. */
import { setMaxListeners } from 'node:events';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { SECOND_MS } from '../../src/base/limits.js';
import {
  type Compare,
  ETCD_TIMEOUT_MS,
  type Etcd,
  EtcdError,
  EtcdRefusal,
  type KeyValue,
  type Op,
  type TxnResult,
  type WatchListener,
} from '../../src/cloud/etcd/etcd.js';
import type { FakeEtcd } from './fake-etcd.js';

const PAGE_KEYS_MAX = 4;

/** An error of the network or of a cluster without a quorum. */
export const unavailable = (words: string) => new EtcdError('unavailable', `etcd: ${words}`);

/** What a member without a leader says. */
export const noLeader = () =>
  new EtcdError('unavailable', 'etcd: no leader', { cause: new EtcdRefusal(14, 'no leader') });

const compactedError = () => new EtcdError('compacted', 'etcd: the revision has been compacted');

/** A watch hears of each revision in a turn of its own. */
export class FakeWatch {
  readonly client: string;
  readonly #server: FakeEtcd;
  readonly #prefix: string;
  readonly #listener: WatchListener;
  #next: number;
  #isAwake = false;
  #isOver = false;

  constructor(server: FakeEtcd, client: string, prefix: string, from: number, listener: WatchListener) {
    this.#server = server;
    this.client = client;
    this.#prefix = prefix;
    // From 0 on: the changes to come.
    this.#next = from === 0 ? server.revision + 1 : from;
    this.#listener = listener;
  }

  wake(): void {
    if (!this.#isAwake) void this.#run();
  }

  /** Ends it with a word. */
  end(why: EtcdError): void {
    if (this.#isOver) return;
    this.close();
    void nextTurn().then(() => this.#listener.ended(why));
  }

  close(): void {
    this.#isOver = true;
    this.#server.forget(this);
  }

  async #run(): Promise<void> {
    this.#isAwake = true;
    for (;;) {
      await nextTurn();
      if (this.#isOver || this.#server.isCut(this.client)) break;
      const { compacted } = this.#server;
      if (this.#next <= compacted - 1) return this.end(compactedError());
      const changes = this.#server.since(this.#prefix, this.#next);
      const [first] = changes;
      if (first === undefined) {
        this.#next = Math.max(this.#next, this.#server.revision + 1);
        break;
      }
      this.#next = first.modRevision + 1;
      this.#listener.changes(
        changes.filter(({ modRevision }) => modRevision === first.modRevision),
        first.modRevision,
      );
    }
    this.#isAwake = false;
  }
}

/** One client, whose requests take a turn each way. */
export class FakeClient implements Etcd {
  readonly #server: FakeEtcd;
  readonly #name: string;
  readonly #watches = new Set<FakeWatch>();
  readonly #closing = new AbortController();

  constructor(server: FakeEtcd, name: string) {
    this.#server = server;
    this.#name = name;
    setMaxListeners(0, this.#closing.signal);
  }

  get(key: string): Promise<KeyValue | null> {
    return this.#call(`get ${key}`, false, () => this.#server.keyOf(key));
  }

  async list(prefix: string, page: (found: readonly KeyValue[]) => unknown): Promise<number> {
    const server = this.#server;
    const read = () => ({ revision: server.revision, found: server.keys(prefix) });
    const { revision, found } = await this.#call(`list ${prefix}`, false, read);
    while (found.length > 0) {
      await page(found.splice(0, 1 + Math.floor(server.random() * PAGE_KEYS_MAX)));
      if (found.length === 0) break;
      await this.#call(`list ${prefix} on`, false, () => {
        if (server.compacted > revision) throw compactedError();
      });
    }
    return revision;
  }

  txn(compares: readonly Compare[], ops: readonly Op[]): Promise<TxnResult> {
    const keys = ops.map((op) => ('put' in op ? op.put : op.delete));
    return this.#call(`txn ${keys.join(' ')}`, true, () => this.#server.txn(compares, ops));
  }

  grant(ttlS: number): Promise<string> {
    return this.#call('grant', true, () => this.#server.grant(ttlS));
  }

  keepAlive(lease: string): Promise<number> {
    return this.#call('keepAlive', true, () => this.#server.keepAlive(lease));
  }

  revoke(lease: string): Promise<void> {
    return this.#call('revoke', true, () => this.#server.revoke(lease));
  }

  compact(revision: number): Promise<void> {
    return this.#call('compact', true, () => this.#server.compact(revision));
  }

  watch(prefix: string, fromRevision: number, listener: WatchListener): { close(): void } {
    const watch = new FakeWatch(this.#server, this.#name, prefix, fromRevision, listener);
    this.#watches.add(watch);
    this.#server.watch(watch);
    return watch;
  }

  close(): void {
    this.#closing.abort();
    for (const watch of this.#watches) watch.close();
  }

  async #call<Result>(what: string, isWrite: boolean, act: () => Result): Promise<Result> {
    const server = this.#server;
    await this.#turn();
    server.onOp(this.#name, what);
    if (server.isCut(this.#name)) return await this.#silence();
    if (!server.quorum) {
      if (!isWrite || server.random() < 0.5) throw noLeader();
      server.late(act);
      return await this.#silence(noLeader());
    }
    const result = act();
    server.onOp(this.#name, `${what}: done`);
    for (let turns = server.answerTurns; turns > 0; turns--) await this.#turn();
    if (server.isCut(this.#name)) return await this.#silence();
    if (server.losesAnswer(this.#name, what)) throw unavailable('the connection was lost');
    return result;
  }

  async #turn(): Promise<void> {
    await nextTurn();
    if (this.#closing.signal.aborted) throw unavailable('given up');
  }

  /** No answer comes until the deadline. */
  #silence(said: EtcdError | null = null): Promise<never> {
    return new Promise((_resolve, reject) => {
      const { signal } = this.#closing;
      const giveUp = () => {
        timer.stop();
        reject(unavailable('given up'));
      };
      const timer = this.#server.clock.after(ETCD_TIMEOUT_MS, () => {
        signal.removeEventListener('abort', giveUp);
        reject(said ?? unavailable(`no answer within ${ETCD_TIMEOUT_MS / SECOND_MS} s`));
      });
      signal.addEventListener('abort', giveUp);
    });
  }
}
