/**
 * The client of a real etcd, over its JSON gateway (`/v3`, etcd 3.4 and later): sends each request to a member that answers,
 * logs in, and follows watches.
 */
import type { Buffer } from 'node:buffer';
import { setMaxListeners } from 'node:events';
import { Octets } from '../../base/collections.js';
import { assert, systemCodeOf } from '../../base/errors.js';
import { isJsonObject, type JsonObject, objectIn } from '../../base/json.js';
import { MIB } from '../../base/limits.js';
import { requestWordsOf } from '../../base/retry/call-error.js';
import type { Clock } from '../../base/system/clock.js';
import type { HttpAnswer, Https } from '../../base/system/https.js';
import { oneLine } from '../../base/text.js';
import {
  base64,
  below,
  type Change,
  type Compare,
  cancelOf,
  compareOf,
  ETCD_ANSWER_BYTES_MAX,
  ETCD_TIMEOUT_MS,
  type Etcd,
  EtcdError,
  EtcdRefusal,
  errorOf,
  isTemporary,
  isUntouched,
  type KeyValue,
  keysOf,
  keyValueOf,
  numberOf,
  type Op,
  objectsOf,
  operationOf,
  refusalOf,
  revisionOf,
  TXN_OPS_MAX,
  type TxnResult,
  type WatchListener,
  wantsToken,
} from './etcd.js';

/** The size of a page of a list that is aimed at, and the keys in it at first and at most. */
const PAGE_BYTES = MIB;
const PAGE_KEYS = 16;
const PAGE_KEYS_MAX = 1024;

/** The next page after one that was too large has this part of its keys. */
const SMALLER = 1 / 8;
/** A page has at most this many times the keys of the page before. */
const LARGER = 8;

/** Makes a client. It connects with the first request, and closes its connections at the end. */
export function createEtcd(options: EtcdOptions): Etcd {
  return new EtcdClient(new Endpoints(options));
}

class EtcdClient implements Etcd {
  readonly #endpoints: Endpoints;

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

  async list(prefix: string, page: (found: readonly KeyValue[]) => unknown): Promise<number> {
    let revision: number | null = null;
    let after: string | null = null;
    for (let keys = PAGE_KEYS; ; ) {
      const one = await this.#page(prefix, after, revision, keys);
      if (one === null) {
        keys = Math.max(1, Math.floor(keys * SMALLER));
        continue;
      }
      revision ??= one.revision;
      if (one.found.length > 0) await page(one.found);
      const last = one.found.at(-1);
      if (!one.more || last === undefined) return revision;
      after = last.key;
      const factor = Math.min(LARGER, PAGE_BYTES / one.bytes);
      keys = Math.min(PAGE_KEYS_MAX, Math.max(1, Math.floor(keys * factor)));
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
    return new Watching(this.#endpoints, prefix, fromRevision, listener);
  }

  close(): void {
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

const LINE_FEED = 0x0a;

/**
 * One watch: a POST whose answer goes on, one JSON object a line. etcd sends large batches in fragments; each revision is
 * handed over whole. It opens at the next member if one fails.
 */
class Watching {
  readonly #endpoints: Endpoints;
  readonly #listener: WatchListener;
  readonly #request: EtcdRequest;
  #isClosed = false;
  /** Ends the present attempt. */
  #attemptEnd = new AbortController();
  /** True once etcd has begun: from then on a failure ends the watch. */
  #isCreated = false;
  /** What etcd said at the end. */
  #failed: Failed | null = null;
  readonly #rest = new Octets();
  /** The changes of the last revision so far, while more fragments are to come. */
  #pending: Change[] = [];

  constructor(endpoints: Endpoints, prefix: string, from: number, listener: WatchListener) {
    this.#endpoints = endpoints;
    this.#listener = listener;
    const range = { ...below(prefix), start_revision: String(from), fragment: true };
    this.#request = { path: '/v3/watch', body: { create_request: range }, kind: 'read' };
    void this.#run();
  }

  get #isOver(): boolean {
    return this.#isClosed || this.#endpoints.isClosed;
  }

  /** Ends it without a word. */
  close(): void {
    this.#isClosed = true;
    this.#attemptEnd.abort();
  }

  async #run(): Promise<void> {
    let error: unknown;
    try {
      await this.#endpoints.eachMember<never>(
        (endpoint) => this.#attempt(endpoint),
        () => !this.#isCreated && !this.#isOver,
      );
    } catch (thrown) {
      error = thrown;
    }
    if (this.#isOver) return;
    this.close();
    if (!(error instanceof EtcdError)) throw error;
    this.#listener.ended(error);
  }

  /** Watches at one member until that ends. A watch always ends in an error. */
  async #attempt(endpoint: string): Promise<Failed> {
    this.#failed = null;
    this.#rest.take();
    this.#pending = [];
    const end = new AbortController();
    this.#attemptEnd = end;
    const chunk = (bytes: Buffer) => {
      if (end.signal.aborted || this.#isOver) return;
      this.#read(bytes, endpoint);
      if (this.#failed !== null) end.abort();
    };
    try {
      const { status } = await this.#endpoints.send(endpoint, this.#request, { chunk, signal: end.signal });
      if (this.#failed === null && this.#rest.length > 0) this.#line(this.#rest.take(), endpoint);
      return this.#failed ?? this.#endpoints.malformed(endpoint, `the watch has ended (${status})`);
    } catch (thrown) {
      return this.#failed ?? this.#endpoints.thrown(thrown, endpoint);
    }
  }

  /** Splits the bytes into lines. */
  #read(bytes: Buffer, endpoint: string): void {
    let from = 0;
    for (let end = bytes.indexOf(LINE_FEED); end >= 0; end = bytes.indexOf(LINE_FEED, from)) {
      this.#rest.push(bytes.subarray(from, end));
      from = end + 1;
      this.#line(this.#rest.take(), endpoint);
      // The listener may have closed it.
      if (this.#failed !== null || this.#isOver) return;
    }
    if (from === bytes.length) return;
    this.#rest.push(bytes.subarray(from));
    if (this.#rest.length > ETCD_ANSWER_BYTES_MAX)
      this.#failed = this.#endpoints.malformed(endpoint, 'a line of its watch is too long');
  }

  #line(line: Buffer, endpoint: string): void {
    if (line.length === 0) return;
    const answer = objectIn(line);
    const refusal = answer === null ? null : refusalOf(answer);
    if (refusal !== null) this.#failed = this.#endpoints.refused(refusal, endpoint, null);
    else {
      const found = readResult(answer?.result);
      if (found === null) this.#failed = this.#endpoints.malformed(endpoint, "an answer that is not etcd's");
      else this.#take(found, endpoint);
    }
  }

  #take({ isCanceled, reason, compacted, isCreated, changes, isFragment }: Result, endpoint: string): void {
    if (compacted > 0) {
      const words = `etcd at ${new URL(endpoint).host}: the revision has been compacted`;
      this.#failed = { error: new EtcdError('refused', words, { compactedRevision: compacted }), next: null };
    } else if (isCanceled) this.#failed = this.#endpoints.refused(cancelOf(reason), endpoint, null);
    else {
      if (isCreated) this.#isCreated = true;
      for (const change of changes) {
        if (this.#pending[0] !== undefined && this.#pending[0].modRevision !== change.modRevision)
          this.#deliver();
        if (this.#isOver) return;
        this.#pending.push(change);
      }
      if (!isFragment) this.#deliver();
    }
  }

  #deliver(): void {
    const changes = this.#pending;
    this.#pending = [];
    if (changes[0] !== undefined) this.#listener.changes(changes, changes[0].modRevision);
  }
}

type Result = NonNullable<ReturnType<typeof readResult>>;

/** One object of the stream; null: it is not etcd's. */
function readResult(result: unknown) {
  if (!isJsonObject(result)) return null;
  try {
    return {
      isCreated: result.created === true,
      isCanceled: result.canceled === true,
      reason: String(result.cancel_reason ?? 'the watch has been cancelled'),
      compacted: numberOf(result.compact_revision),
      isFragment: result.fragment === true,
      changes: objectsOf(result.events).map(changeOf),
    };
  } catch {
    return null;
  }
}

function changeOf({ type, kv }: JsonObject): Change {
  if (!isJsonObject(kv)) throw new Error('no key');
  return { kind: type === 'DELETE' ? 'delete' : 'put', ...keyValueOf(kv) };
}

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
  readonly clock: Clock;
}

/** One request. */
interface EtcdRequest {
  /** From `/v3` on. */
  readonly path: string;
  readonly body: object;
  /** `read`: it changes nothing. `again`: it may be done twice. `once`: it must not be done twice. */
  readonly kind: 'read' | 'again' | 'once';
  /** A revision that is asked for: named in the error if it is forgotten. */
  readonly revision?: number;
}

/** One answer and its size. */
interface EtcdAnswer {
  readonly answer: JsonObject;
  readonly bytes: number;
}

/** An error, and whether another member may be asked, or the same one with a new token. */
interface Failed {
  readonly error: EtcdError;
  readonly next: 'member' | 'token' | null;
}

/** The code of an error if the answer is larger than it may be. */
const TOO_LARGE = 'TOO_LARGE';

const LOGIN = '/v3/auth/authenticate';

/** The bytes of a foreign answer that an error shows. */
const SAID_BYTES = 200;

// A member that has lost the leader says so at once, and ends its watches. Without this it lets them wait.
const HAS_LEADER = { 'Grpc-Metadata-hasleader': 'true' };

/** All members. */
class Endpoints {
  readonly #options: EtcdOptions;
  readonly #closing = new AbortController();
  /** The index of the member that worked last. */
  #at = 0;
  #token: string | null = null;
  #login: Promise<string> | null = null;

  constructor(options: EtcdOptions) {
    assert(options.endpoints.length > 0, 'an endpoint');
    this.#options = options;
    // One for each request under way.
    setMaxListeners(0, this.#closing.signal);
  }

  /** Sends a request. Rejects with an EtcdError. */
  async call(request: EtcdRequest): Promise<EtcdAnswer> {
    const { kind } = request;
    let mayHaveHappened = false;
    try {
      return await this.eachMember<EtcdAnswer>(
        (endpoint) => this.#try(endpoint, request),
        (error) => {
          mayHaveHappened ||= error.mayHaveHappened && kind !== 'read';
          return !mayHaveHappened || kind !== 'once';
        },
      );
    } catch (thrown) {
      if (!(thrown instanceof EtcdError)) throw thrown;
      // It may have happened at a member before the last one.
      throw new EtcdError(thrown.kind, thrown.message, { ...thrown, cause: thrown.cause, mayHaveHappened });
    }
  }

  /**
   * Tries one member after the other, the one that worked last first, until one does not fail, or `goesOn` is false after
   * a failure.
   */
  async eachMember<Done extends object>(
    attempt: (endpoint: string) => Promise<Done | Failed>,
    goesOn: (error: EtcdError) => boolean,
  ): Promise<Done> {
    const { endpoints } = this.#options;
    let isRenewed = false;
    let said: EtcdError | null = null;
    for (let tries = 1; ; tries++) {
      const at = this.#at;
      const done = await attempt(endpoints[at] as string);
      if (!('error' in done)) return done;
      const { error, next } = done;
      const mayGoOn = goesOn(error);
      // What a member says, such as that there is no leader, tells more than that another one cannot be reached.
      if (error.cause instanceof EtcdRefusal) said = error;
      if (next === 'token' && !isRenewed && mayGoOn) {
        isRenewed = true;
        tries--;
        continue;
      }
      // Unless another request has gone on meanwhile.
      if (next === 'member' && this.#at === at) this.#at = (at + 1) % endpoints.length;
      if (next !== 'member' || !mayGoOn || tries >= endpoints.length || this.isClosed)
        throw error.kind === 'unavailable' ? (said ?? error) : error;
    }
  }

  /** Sends a request to this member, as it is; with `stream` hands its answer over as it comes. */
  async send(
    endpoint: string,
    { path, body, kind }: EtcdRequest,
    stream: { readonly chunk: (bytes: Buffer) => void; readonly signal: AbortSignal } | null = null,
  ): Promise<HttpAnswer> {
    const { https, user } = this.#options;
    const isLogin = path === LOGIN;
    const token = user === null || isLogin ? null : (this.#token ?? (await this.#logIn(user)));
    return await https.send({
      method: 'POST',
      url: endpoint + path,
      headers: { ...HAS_LEADER, ...(token !== null && { Authorization: token }) },
      body: JSON.stringify(body),
      timeoutMs: ETCD_TIMEOUT_MS,
      answerBytesMax: ETCD_ANSWER_BYTES_MAX,
      isOnce: kind === 'once',
      signal: stream?.signal ?? this.#closing.signal,
      ...(stream !== null && { stream: stream.chunk }),
    });
  }

  /** What to do about a request that threw. */
  thrown(thrown: unknown, endpoint: string): Failed {
    // The log-in that the request needs has tried all members.
    if (thrown instanceof EtcdError) return { error: thrown, next: null };
    const { host } = new URL(endpoint);
    const code = systemCodeOf(thrown);
    const words =
      code === 'STALE'
        ? `${host}: the connection was lost`
        : requestWordsOf(thrown, host, this.#options.clock.wallMs(), {});
    const mayHaveHappened = (thrown as { isReached?: boolean }).isReached === true;
    return {
      error: new EtcdError('unavailable', `etcd at ${words}`, { mayHaveHappened, cause: thrown }),
      next: code === TOO_LARGE ? null : 'member',
    };
  }

  /** What to do about a request that etcd refused. `compacted`: the revision to name if it is forgotten. */
  refused(refusal: EtcdRefusal, endpoint: string, compacted: number | null): Failed {
    const error = errorOf(refusal, new URL(endpoint).host, compacted);
    if (this.#options.user !== null && wantsToken(refusal)) {
      this.#token = null;
      return { error, next: 'token' };
    }
    return { error, next: isTemporary(refusal) || isUntouched(refusal) ? 'member' : null };
  }

  /** What to do about an answer that is not etcd's. */
  malformed(endpoint: string, words: string): Failed {
    const { host } = new URL(endpoint);
    const error = new EtcdError('unavailable', `etcd at ${host}: ${words}`, { mayHaveHappened: true });
    return { error, next: 'member' };
  }

  get isClosed(): boolean {
    return this.#closing.signal.aborted;
  }

  close(): void {
    this.#closing.abort();
    this.#options.https.close();
  }

  async #try(endpoint: string, request: EtcdRequest): Promise<EtcdAnswer | Failed> {
    let sent: HttpAnswer;
    try {
      sent = await this.send(endpoint, request);
    } catch (thrown) {
      return this.thrown(thrown, endpoint);
    }
    const { status, body } = sent;
    const answer = objectIn(body);
    const refusal = answer === null ? null : refusalOf(answer);
    if (refusal !== null) return this.refused(refusal, endpoint, request.revision ?? null);
    if (answer === null || status !== 200)
      return this.malformed(
        endpoint,
        `an answer that is not etcd's (${status}) ${oneLine(body.toString('utf8', 0, SAID_BYTES))}`,
      );
    return { answer, bytes: body.length };
  }

  /** Gets a token; requests that need one at the same time share it. */
  async #logIn(user: EtcdUser): Promise<string> {
    this.#login ??= this.call({ path: LOGIN, body: user, kind: 'read' })
      .then(({ answer: { token } }) => {
        if (typeof token !== 'string') throw new EtcdError('unavailable', 'etcd: a log-in without a token');
        this.#token = token;
        return token;
      })
      .finally(() => {
        this.#login = null;
      });
    return await this.#login;
  }
}
