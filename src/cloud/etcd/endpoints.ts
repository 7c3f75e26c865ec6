/**
 * Sends a request to a member of etcd that answers. It remembers the member that worked last, and goes on to the next one
 * where that cannot do harm. It logs in, and renews its token.
 */
import type { Buffer } from 'node:buffer';
import { setMaxListeners } from 'node:events';
import { assert, systemCodeOf } from '../../base/errors.js';
import { type JsonObject, objectIn } from '../../base/json.js';
import { ETCD_ANSWER_BYTES_MAX, ETCD_TIMEOUT_MS } from '../../base/limits.js';
import { requestWordsOf } from '../../base/retry/request-error.js';
import type { Clock } from '../../base/system/clock.js';
import type { HttpAnswer, Https } from '../../base/system/https.js';
import { oneLine } from '../../base/text.js';
import { EtcdRefusal, errorOf, isTemporary, isUntouched, refusalOf, wantsToken } from './answers.js';
import { EtcdError } from './etcd.js';

/** A user of etcd's own authentication. */
export interface EtcdUser {
  readonly name: string;
  readonly password: string;
}

/** Where the members are, and how they are reached. */
export interface EndpointsOptions {
  /** `https://host:port`, at least one; `http:` to loopback only. */
  readonly endpoints: readonly string[];
  readonly https: Https;
  readonly user: EtcdUser | null;
  readonly clock: Clock;
}

/** One request. */
export interface EtcdRequest {
  /** From `/v3` on. */
  readonly path: string;
  readonly body: object;
  /** `read`: it changes nothing. `again`: it may be done twice. `once`: it must not be done twice. */
  readonly kind: 'read' | 'again' | 'once';
  /** A revision that is asked for: named in the error if it is forgotten. */
  readonly revision?: number;
}

/** One answer and its size. */
export interface EtcdAnswer {
  readonly answer: JsonObject;
  readonly bytes: number;
}

/** An error, and whether another member may be asked, or the same one with a new token. */
export interface Failed {
  readonly error: EtcdError;
  readonly next: 'member' | 'token' | null;
}

/** The code of an error if the answer is larger than it may be. */
export const TOO_LARGE = 'TOO_LARGE';

/** The bytes of a foreign answer that an error shows. */
const SAID_BYTES = 200;

// A member that has lost the leader says so at once, and ends its watches. Without this it lets them wait.
const HAS_LEADER = { 'Grpc-Metadata-hasleader': 'true' };

/** All members. */
export class Endpoints {
  readonly #options: EndpointsOptions;
  readonly #closing = new AbortController();
  /** The index of the member that worked last. */
  #at = 0;
  #token: string | null = null;
  #login: Promise<string> | null = null;

  constructor(options: EndpointsOptions) {
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

const LOGIN = '/v3/auth/authenticate';
