/**
 * The client of a real etcd, over its JSON gateway (`/v3`, etcd 3.4 and later): sends each request to a member that answers,
 * logs in, and follows watches.
 */
import type { Buffer } from 'node:buffer';
import { setMaxListeners } from 'node:events';
import { Octets } from '../../base/collections.js';
import { assert, systemCodeOf } from '../../base/errors.js';
import type { JsonObject } from '../../base/json.js';
import { MIB } from '../../base/limits.js';
import { requestWordsOf } from '../../base/retry/call-error.js';
import type { Clock } from '../../base/system/clock.js';
import type { HttpAnswer, HttpRequest, Https } from '../../base/system/https.js';
import {
  answerIn,
  assertGoesOn,
  type Change,
  type Compare,
  ETCD_ANSWER_BYTES_MAX,
  ETCD_TIMEOUT_MS,
  type Etcd,
  EtcdError,
  EtcdRefusal,
  type Failure,
  failureOf,
  Keyspace,
  type KeyValue,
  numberOf,
  type Op,
  objectOf,
  objectsOf,
  revisionOf,
  stringOf,
  TXN_OPS_MAX,
  type TxnResult,
  type WatchListener,
} from './etcd.js';

/** A user of etcd's own authentication. */
export interface EtcdUser {
  readonly name: string;
  readonly password: string;
}

/** Where the members are, and how they are reached. */
interface EtcdOptions {
  /** `https://host:port`, at least one; `http:` to loopback only. */
  readonly endpoints: readonly string[];
  readonly https: Https;
  readonly user: EtcdUser | null;
  /** All keys begin with it; not empty. */
  readonly prefix: string;
  readonly clock: Clock;
}

/** The size of a page of a list that is aimed at, and the keys in it at first and at most. */
const PAGE_BYTES = MIB;
const PAGE_KEYS = 16;
const PAGE_KEYS_MAX = 1024;

/** Makes a client. It connects with the first request, and closes its connections at the end. */
export function createEtcd(options: EtcdOptions): Etcd {
  return new EtcdClient(options);
}

class EtcdClient implements Etcd {
  readonly #members: Members;
  readonly #keys: Keyspace;

  constructor(options: EtcdOptions) {
    this.#members = new Members(options);
    this.#keys = new Keyspace(options.prefix);
  }

  get(key: string): Promise<KeyValue | null> {
    const request = { path: '/v3/kv/range', body: { key: this.#keys.name(key) } };
    return this.#members.call(request, (answer) => this.#keys.range(answer).found[0] ?? null);
  }

  async list(prefix: string, page: (found: readonly KeyValue[]) => unknown): Promise<number> {
    let revision = 0;
    let after: string | null = null;
    for (let keys = PAGE_KEYS; ; ) {
      const one = await this.#page(prefix, after, revision, keys);
      revision ||= one.revision;
      if (one.found.length > 0) await page(one.found);
      if (!one.more) return revision;
      after = one.found.at(-1)?.key ?? after;
      keys = Math.min(PAGE_KEYS_MAX, Math.max(1, Math.floor((keys * PAGE_BYTES) / one.bytes)));
    }
  }

  txn(compares: readonly Compare[], ops: readonly Op[]): Promise<TxnResult> {
    assert(ops.length <= TXN_OPS_MAX && compares.length <= TXN_OPS_MAX, 'a transaction that etcd takes');
    const body = {
      compare: compares.map((compare) => this.#keys.compare(compare)),
      success: ops.map((op) => this.#keys.operation(op)),
      failure: compares.slice(0, 1).map(({ key }) => ({ request_range: { key: this.#keys.name(key) } })),
    };
    return this.#members.call({ path: '/v3/kv/txn', body, isOnce: true }, (answer) => {
      const succeeded = answer.succeeded === true;
      const [first] = objectsOf(answer.responses);
      const shown = succeeded ? [] : this.#keys.range(first?.response_range).found;
      return { succeeded, revision: revisionOf(answer), current: shown[0] ?? null };
    });
  }

  grant(ttlS: number): Promise<string> {
    const request = { path: '/v3/lease/grant', body: { TTL: String(ttlS) } };
    return this.#members.call(request, ({ ID }) => stringOf(ID));
  }

  keepAlive(lease: string): Promise<number> {
    const request = { path: '/v3/lease/keepalive', body: { ID: lease } };
    return this.#members.call(request, ({ result }) => numberOf(objectOf(result).TTL));
  }

  async revoke(lease: string): Promise<void> {
    await this.#members.call({ path: '/v3/lease/revoke', body: { ID: lease } });
  }

  async compact(revision: number): Promise<void> {
    try {
      await this.#members.call({ path: '/v3/kv/compaction', body: { revision: String(revision) } });
    } catch (error) {
      if (!(error instanceof EtcdError && error.kind === 'compacted')) throw error;
    }
  }

  watch(prefix: string, fromRevision: number, listener: WatchListener): { close(): void } {
    return new Watching(this.#members, this.#keys, prefix, fromRevision, listener);
  }

  close(): void {
    this.#members.close();
  }

  /** One page of a list at this revision, at 0 at the present one. A page that is too large has no keys. */
  async #page(prefix: string, after: string | null, revision: number, keys: number) {
    const range = this.#keys.below(prefix, after);
    const body = { ...range, limit: String(keys), revision: String(revision) };
    try {
      return await this.#members.call({ path: '/v3/kv/range', body }, (answer, bytes) => ({
        ...this.#keys.range(answer),
        bytes,
      }));
    } catch (error) {
      if (keys === 1 || systemCodeOf((error as Error).cause) !== TOO_LARGE) throw error;
      return { revision, found: [], more: true, bytes: ETCD_ANSWER_BYTES_MAX };
    }
  }
}

const LINE_FEED = 0x0a;

/**
 * One watch: a POST whose answer goes on, one JSON object a line. etcd sends large batches in fragments; each revision is
 * handed over whole. It opens at the next member if one fails.
 */
class Watching {
  readonly #members: Members;
  readonly #keys: Keyspace;
  readonly #listener: WatchListener;
  #isClosed = false;
  /** Ends the present attempt. */
  #attemptEnd = new AbortController();
  /** True once a member has begun: from then on a failure ends the watch. */
  #hasBegun = false;
  readonly #rest = new Octets();
  /** The changes of the last revision so far, while more fragments are to come. */
  #pending: Change[] = [];

  constructor(members: Members, keys: Keyspace, prefix: string, from: number, listener: WatchListener) {
    this.#members = members;
    this.#keys = keys;
    this.#listener = listener;
    const range = { ...keys.below(prefix), start_revision: String(from), fragment: true };
    void this.#run({ path: '/v3/watch', body: { create_request: range } });
  }

  get #isOver(): boolean {
    return this.#isClosed || this.#members.isClosed;
  }

  /** Ends it without a word. */
  close(): void {
    this.#isClosed = true;
    this.#attemptEnd.abort();
  }

  async #run(request: EtcdRequest): Promise<void> {
    try {
      await this.#members.each(
        request,
        (send) => this.#attempt(send),
        () => !this.#hasBegun && !this.#isOver,
      );
    } catch (error) {
      if (this.#isOver) return;
      if (!(error instanceof EtcdError)) throw error;
      this.#listener.ended(error);
    }
  }

  /** Watches at one member until that ends: a watch always ends in an error. */
  async #attempt(send: Send): Promise<never> {
    const end = new AbortController();
    this.#attemptEnd = end;
    if (this.#isOver) end.abort();
    this.#rest.take();
    let failed: unknown = null;
    const stream = (bytes: Buffer) => {
      if (end.signal.aborted) return;
      try {
        this.#read(bytes);
      } catch (thrown) {
        failed = thrown;
        end.abort();
      }
    };
    try {
      const { status } = await send({ stream, signal: end.signal });
      this.#line(this.#rest.take());
      throw new SyntaxError(`the watch has ended (${status})`);
    } catch (thrown) {
      throw failed ?? thrown;
    }
  }

  /** Splits the bytes into lines. */
  #read(bytes: Buffer): void {
    let from = 0;
    for (let end = bytes.indexOf(LINE_FEED); end >= 0; end = bytes.indexOf(LINE_FEED, from)) {
      this.#rest.push(bytes.subarray(from, end));
      from = end + 1;
      this.#line(this.#rest.take());
    }
    this.#rest.push(bytes.subarray(from));
    if (this.#rest.length > ETCD_ANSWER_BYTES_MAX) throw new SyntaxError('a line of its watch is too long');
  }

  #line(line: Buffer): void {
    if (line.length === 0) return;
    const result = objectOf(answerIn(line).result);
    assertGoesOn(result);
    this.#hasBegun = true;
    for (const change of objectsOf(result.events).map((event) => this.#keys.change(event))) {
      if (this.#pending[0]?.modRevision !== change.modRevision) this.#deliver();
      this.#pending.push(change);
    }
    if (result.fragment !== true) this.#deliver();
  }

  #deliver(): void {
    const changes = this.#pending;
    this.#pending = [];
    // The listener may have closed it.
    if (changes[0] !== undefined && !this.#isOver) this.#listener.changes(changes, changes[0].modRevision);
  }
}

/** One request. */
interface EtcdRequest {
  /** From `/v3` on. */
  readonly path: string;
  readonly body: object;
  /** True: it must not be done twice. */
  readonly isOnce?: boolean;
}

/** Sends a request to one member. */
type Send = (how?: Pick<HttpRequest, 'stream' | 'signal'>) => Promise<HttpAnswer>;

/** The code of an error if the answer is larger than it may be. */
const TOO_LARGE = 'TOO_LARGE';

const LOGIN = '/v3/auth/authenticate';

// A member that has lost the leader says so at once, and ends its watches. Without this it lets them wait.
const HAS_LEADER = { 'Grpc-Metadata-hasleader': 'true' };

/** All members. */
class Members {
  readonly #options: EtcdOptions;
  readonly #closing = new AbortController();
  /** The index of the member that worked last. */
  #at = 0;
  /** Requests that need it at the same time share the log-in. */
  #token: Promise<string> | null = null;

  constructor(options: EtcdOptions) {
    assert(options.endpoints.length > 0, 'an endpoint');
    this.#options = options;
    // One for each request under way.
    setMaxListeners(0, this.#closing.signal);
  }

  /** Sends a request, and reads its answer of so many bytes. Rejects with an EtcdError. */
  call<Result>(
    request: EtcdRequest,
    read: (answer: JsonObject, bytes: number) => Result = () => undefined as Result,
  ): Promise<Result> {
    return this.each(request, async (send) => {
      const { status, body } = await send();
      return read(answerIn(body, status), body.length);
    });
  }

  /**
   * Asks one member after the other, the one that worked last first, until an attempt does not fail, or `goesOn` is false after
   * a failure. Rejects with an EtcdError.
   */
  async each<Result>(
    { path, body, isOnce = false }: EtcdRequest,
    attempt: (send: Send) => Promise<Result>,
    goesOn = () => true,
  ): Promise<Result> {
    const { endpoints, https } = this.#options;
    const left = { token: 1, member: endpoints.length - 1 };
    let said: EtcdError | null = null;
    for (;;) {
      const at = this.#at;
      const endpoint = endpoints[at] as string;
      const login = path === LOGIN ? null : this.#logIn();
      const token = await login;
      const request: HttpRequest = {
        method: 'POST',
        url: endpoint + path,
        headers: { ...HAS_LEADER, ...(token !== null && { Authorization: token }) },
        body: JSON.stringify(body),
        timeoutMs: ETCD_TIMEOUT_MS,
        answerBytesMax: ETCD_ANSWER_BYTES_MAX,
        isOnce,
        signal: this.#closing.signal,
      };
      try {
        return await attempt((how) => https.send({ ...request, ...how }));
      } catch (thrown) {
        const { error, next, mayHaveHappened } = this.#failureOf(thrown, new URL(endpoint).host);
        // What a member says, such as that there is no leader, tells more than that another one cannot be reached.
        if (error.cause instanceof EtcdRefusal) said = error;
        // Unless another request has a new token, or has gone on, meanwhile.
        if (next === 'token' && this.#token === login) this.#token = null;
        if (next === 'member' && this.#at === at) this.#at = (at + 1) % endpoints.length;
        if (next === null || left[next]-- === 0 || (isOnce && mayHaveHappened) || !goesOn())
          throw error.kind === 'unavailable' ? (said ?? error) : error;
      }
    }
  }

  get isClosed(): boolean {
    return this.#closing.signal.aborted;
  }

  close(): void {
    this.#closing.abort();
    this.#options.https.close();
  }

  #failureOf(thrown: unknown, host: string): Failure {
    if (thrown instanceof EtcdRefusal) return failureOf(thrown, host);
    const isForeign = thrown instanceof SyntaxError;
    const words = isForeign
      ? `${host}: ${thrown.message}`
      : requestWordsOf(thrown, host, this.#options.clock.wallMs(), {});
    return {
      error: new EtcdError('unavailable', `etcd at ${words}`, { cause: thrown }),
      next: systemCodeOf(thrown) === TOO_LARGE ? null : 'member',
      mayHaveHappened: isForeign || (thrown as { isReached?: boolean }).isReached === true,
    };
  }

  /** Gives a token; null without a user. */
  #logIn(): Promise<string> | null {
    const { user } = this.#options;
    if (user === null) return null;
    this.#token ??= this.call({ path: LOGIN, body: user }, ({ token }) => stringOf(token)).catch((error) => {
      this.#token = null;
      throw error;
    });
    return this.#token;
  }
}
