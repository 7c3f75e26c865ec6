/**
 * The client of a real etcd, over its JSON gateway (`/v3`, etcd 3.4 and later).
 */
import { assert, systemCodeOf } from '../../base/errors.js';
import { isJsonObject } from '../../base/json.js';
import { ETCD_PAGE_BYTES, ETCD_PAGE_KEYS, ETCD_PAGE_KEYS_MAX } from '../../base/limits.js';
import { keysOf, numberOf, objectsOf, revisionOf } from './answers.js';
import {
  Endpoints,
  type EndpointsOptions,
  type EtcdAnswer,
  type EtcdRequest,
  TOO_LARGE,
} from './endpoints.js';
import {
  type Compare,
  type Etcd,
  EtcdError,
  type KeyValue,
  type Op,
  TXN_OPS_MAX,
  type TxnResult,
  type WatchListener,
} from './etcd.js';
import { base64, below, compareOf, operationOf } from './requests.js';
import { Watching } from './watch.js';

/** The next page after one that was too large has this part of its keys. */
const SMALLER = 1 / 8;
/** A page has at most this many times the keys of the page before. */
const LARGER = 8;

/** Makes a client. It connects with the first request, and closes its connections at the end. */
export function createEtcd(options: EndpointsOptions): Etcd {
  return new EtcdClient(new Endpoints(options));
}

class EtcdClient implements Etcd {
  readonly #endpoints: Endpoints;
  readonly #watches = new Set<Watching>();

  constructor(endpoints: Endpoints) {
    this.#endpoints = endpoints;
  }

  get(key: string): Promise<{ revision: number; found: KeyValue | null }> {
    const request = { path: '/v3/kv/range', body: { key: base64(key) }, kind: 'read' } as const;
    return this.#read(request, ({ answer }) => ({
      revision: revisionOf(answer),
      found: keysOf(answer)[0] ?? null,
    }));
  }

  async list(prefix: string, page: (found: readonly KeyValue[]) => void): Promise<number> {
    let revision: number | null = null;
    let after: string | null = null;
    for (let keys = ETCD_PAGE_KEYS; ; ) {
      const one = await this.#page(prefix, after, revision, keys);
      if (one === null) {
        keys = Math.max(1, Math.floor(keys * SMALLER));
        continue;
      }
      revision ??= one.revision;
      if (one.found.length > 0) page(one.found);
      const last = one.found.at(-1);
      if (!one.more || last === undefined) return revision;
      after = last.key;
      const factor = Math.min(LARGER, ETCD_PAGE_BYTES / one.bytes);
      keys = Math.min(ETCD_PAGE_KEYS_MAX, Math.max(1, Math.floor(keys * factor)));
    }
  }

  txn(compares: readonly Compare[], ops: readonly Op[], show?: string): Promise<TxnResult> {
    assert(ops.length <= TXN_OPS_MAX && compares.length <= TXN_OPS_MAX, 'a transaction that etcd takes');
    const body = {
      compare: compares.map(compareOf),
      success: ops.map(operationOf),
      failure: show === undefined ? [] : [{ request_range: { key: base64(show) } }],
    };
    return this.#read({ path: '/v3/kv/txn', body, kind: 'once' }, ({ answer }) => {
      const succeeded = answer.succeeded === true;
      const [first] = objectsOf(answer.responses);
      const shown = succeeded || show === undefined ? [] : keysOf(first?.response_range);
      return { succeeded, revision: revisionOf(answer), current: shown[0] ?? null };
    });
  }

  grant(ttlS: number): Promise<string> {
    const request = { path: '/v3/lease/grant', body: { TTL: String(ttlS) }, kind: 'again' } as const;
    return this.#read(request, ({ answer: { ID: id } }) => {
      if (typeof id !== 'string') throw new Error('no lease');
      return id;
    });
  }

  keepAlive(lease: string): Promise<number> {
    const request = { path: '/v3/lease/keepalive', body: { ID: lease }, kind: 'again' } as const;
    return this.#read(request, ({ answer: { result } }) => {
      if (!isJsonObject(result)) throw new Error('no result');
      return numberOf(result.TTL);
    });
  }

  async revoke(lease: string): Promise<void> {
    await this.#unless(/lease not found/, { path: '/v3/lease/revoke', body: { ID: lease }, kind: 'again' });
  }

  async compact(revision: number): Promise<void> {
    const body = { revision: String(revision) };
    await this.#unless(/has been compacted/, { path: '/v3/kv/compaction', body, kind: 'again' });
  }

  watch(prefix: string, fromRevision: number, listener: WatchListener): { close(): void } {
    const watching = new Watching(this.#endpoints, prefix, fromRevision, listener, () =>
      this.#watches.delete(watching),
    );
    this.#watches.add(watching);
    return watching;
  }

  close(): void {
    for (const watching of this.#watches) watching.close();
    this.#endpoints.close();
  }

  /** One page of a list at this revision, or at the present one; null if it is too large. */
  async #page(prefix: string, after: string | null, revision: number | null, keys: number) {
    const body = { ...below(prefix, after), limit: String(keys), revision: String(revision ?? 0) };
    const request = { path: '/v3/kv/range', body, kind: 'read', revision: (revision ?? 0) + 1 } as const;
    try {
      return await this.#read(request, ({ answer, bytes }) => ({
        revision: revisionOf(answer),
        found: keysOf(answer),
        more: answer.more === true,
        bytes,
      }));
    } catch (error) {
      if (keys > 1 && systemCodeOf((error as Error).cause) === TOO_LARGE) return null;
      throw error;
    }
  }

  /** Sends a request and reads its answer. */
  async #read<Result>(request: EtcdRequest, read: (got: EtcdAnswer) => Result): Promise<Result> {
    const got = await this.#endpoints.call(request);
    try {
      return read(got);
    } catch (cause) {
      const mayHaveHappened = request.kind !== 'read';
      throw new EtcdError('unavailable', "etcd: an answer that is not etcd's", { mayHaveHappened, cause });
    }
  }

  /** Sends a request whose refusal in these words means that it was done before. */
  async #unless(done: RegExp, request: EtcdRequest): Promise<void> {
    try {
      await this.#endpoints.call(request);
    } catch (error) {
      if (!(error instanceof EtcdError && error.kind === 'refused' && done.test(error.message))) throw error;
    }
  }
}
