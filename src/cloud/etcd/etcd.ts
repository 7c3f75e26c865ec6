/**
 * What the reference cloud needs of etcd: keys compared and swapped by revision, leases and watches. Keys and values are
 * strings of Unicode text. Below: how etcd's JSON gateway writes them. It leaves out members that are 0, '' or false, and
 * writes int64 as strings and text as base64. Pure.
 */
import { Buffer } from 'node:buffer';
import { isJsonObject, type JsonObject, objectIn } from '../../base/json.js';
import { MIB, SECOND_MS } from '../../base/limits.js';
import { oneLine } from '../../base/text.js';

/** The operations of one transaction at most: etcd's own limit. */
export const TXN_OPS_MAX = 128;
/** One request to one member. It is below half of a lease: an instance must be able to renew it at the next member. */
export const ETCD_TIMEOUT_MS = 3 * SECOND_MS;
/** etcd takes at most 1.5 MiB in one request, so a key and its value in base64 are below this. */
export const ETCD_ANSWER_BYTES_MAX = 8 * MIB;

/** A key as it was at some revision. */
export interface KeyValue {
  readonly key: string;
  readonly value: string;
  /** The revision of its last change. */
  readonly modRevision: number;
  /** The revision that made it; another one after it was deleted and made again. */
  readonly createRevision: number;
}

/** A condition of a transaction. `modRevision: 0` or `createRevision: 0`: the key is absent. */
export type Compare =
  | { readonly key: string; readonly modRevision: number }
  | { readonly key: string; readonly createRevision: number }
  | { readonly key: string; readonly value: string };

/** One change of a transaction. A put without a lease takes the key off its lease. No key may occur in two operations. */
export type Op =
  | { readonly put: string; readonly value: string; readonly lease?: string }
  | { readonly delete: string };

/** One change that a watch reports. A key that was deleted has the value '' and the createRevision 0. */
export interface Change extends KeyValue {
  readonly kind: 'put' | 'delete';
}

/** What a transaction did. */
export interface TxnResult {
  /** True: all conditions held and all operations are done. False: nothing is changed. */
  readonly succeeded: boolean;
  /** The revision of the whole store after it; with success, the modRevision of the keys that it put. */
  readonly revision: number;
  /** If it did not succeed: what the key of the first condition has now; null: absent. */
  readonly current: KeyValue | null;
}

/** Who hears of changes. */
export interface WatchListener {
  /** All changes of one revision below the prefix, in the order of revisions. */
  changes(changes: readonly Change[], revision: number): void;
  /** Called once, unless the watch was closed before. `why.kind` is `compacted`: list anew. */
  ended(why: EtcdError): void;
}

/** One client of etcd, for the keys below a prefix of its own. Every promise rejects with an EtcdError. */
export interface Etcd {
  /** Linearizable read of one key; null: absent. */
  get(key: string): Promise<KeyValue | null>;
  /**
   * Reads all keys below a prefix as they are at one revision, in the order of their bytes, in pages of limited size, each
   * after `page` has settled. Resolves with the revision: a watch from the next one misses nothing.
   */
  list(prefix: string, page: (found: readonly KeyValue[]) => unknown): Promise<number>;
  /** Does the operations if all conditions hold: at most TXN_OPS_MAX of each. */
  txn(compares: readonly Compare[], ops: readonly Op[]): Promise<TxnResult>;
  /** Makes a lease; gives its id. */
  grant(ttlS: number): Promise<string>;
  /** Renews a lease. Gives the remaining TTL in seconds; 0: the lease is gone. */
  keepAlive(lease: string): Promise<number>;
  /** Ends a lease and deletes its keys. */
  revoke(lease: string): Promise<void>;
  /**
   * Reports the changes below `prefix` from `fromRevision` on. A watch over a dead connection may stay silent: whoever
   * must notice that writes a key of its own and waits for its change.
   */
  watch(prefix: string, fromRevision: number, listener: WatchListener): { close(): void };
  /** Forgets what was before this revision. A revision that is compacted already is no error. */
  compact(revision: number): Promise<void>;
  /** Ends the watches without a word. Requests under way reject. */
  close(): void;
}

/** Why a request failed or a watch ended; `message` is in words, without an end. */
export class EtcdError extends Error {
  /**
   * `unavailable`: no network, no answer in time, no quorum, too busy: try later. `compacted`: the revision that was asked for
   * is forgotten. `refused`: etcd said no.
   */
  readonly kind: 'unavailable' | 'compacted' | 'refused';

  /** The `cause` is an EtcdRefusal if a member has said it. */
  constructor(kind: EtcdError['kind'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'EtcdError';
    this.kind = kind;
  }
}

/** A failure of one attempt. */
export interface Failure {
  readonly error: EtcdError;
  /** What may help: the same member with a new token, or another member. */
  readonly next: 'token' | 'member' | null;
  /** True if the request may have been applied, or may still be. */
  readonly mayHaveHappened: boolean;
}

/** What a member said against a request. */
export class EtcdRefusal extends Error {
  /** The code of gRPC. */
  readonly code: number;

  constructor(code: number, message: string) {
    super(message.replace(/^etcdserver: /, ''));
    this.code = code;
  }
}

const EXHAUSTED = 8;
const OUT_OF_RANGE = 11;
const UNAUTHENTICATED = 16;
/** Canceled, Unknown, DeadlineExceeded, Aborted, Internal, Unavailable: about the member or the moment, not the request. */
const UNAVAILABLE: readonly number[] = [1, 2, 4, 10, 13, 14];

/** What a refusal of the member at `host` means. */
export function failureOf(refusal: EtcdRefusal, host: string): Failure {
  const { code, message } = refusal;
  const failure = (kind: EtcdError['kind'], next: Failure['next'], mayHaveHappened = false, hint = '') => ({
    error: new EtcdError(kind, `etcd at ${host}: ${message}${hint}`, { cause: refusal }),
    next,
    mayHaveHappened,
  });
  if (code === UNAUTHENTICATED || /revision of auth store is old/.test(message))
    return failure('refused', 'token');
  // It refused before it began.
  if (/no leader/.test(message) || (code === EXHAUSTED && /too many requests/.test(message)))
    return failure('unavailable', 'member');
  if (UNAVAILABLE.includes(code)) return failure('unavailable', 'member', true);
  if (code === OUT_OF_RANGE && /has been compacted/.test(message)) return failure('compacted', null);
  return failure('refused', null, false, /space exceeded/.test(message) ? NOSPACE : '');
}

const NOSPACE = ' (NOSPACE: its quota is used up; compact and defragment it, then disarm the alarm)';

/** The bytes of a foreign answer that an error shows. */
const SAID_BYTES = 200;

/** One answer. Throws EtcdRefusal for an error, and SyntaxError for an answer that is not etcd's. */
export function answerIn(octets: Buffer, status = 200): JsonObject {
  const answer = objectIn(octets);
  // A stream gives an error as an object, in which etcd before 3.6 calls the code otherwise.
  const { message, code, grpc_code = code } = isJsonObject(answer?.error) ? answer.error : (answer ?? {});
  // Others write a status of HTTP there.
  const isCode = typeof grpc_code === 'number' && grpc_code <= UNAUTHENTICATED;
  if (isCode && typeof message === 'string') throw new EtcdRefusal(grpc_code, message);
  if (answer !== null && status === 200) return answer;
  throw new SyntaxError(`${FOREIGN} (${status}) ${oneLine(octets.toString('utf8', 0, SAID_BYTES))}`);
}

/** Throws an EtcdRefusal if etcd has cancelled the watch; the reason contains the name of the code. */
export function assertGoesOn({ canceled, cancel_reason, compact_revision }: JsonObject): void {
  if (numberOf(compact_revision) > 0) throw new EtcdRefusal(OUT_OF_RANGE, 'the revision has been compacted');
  if (canceled !== true) return;
  const reason = String(cancel_reason ?? 'the watch has been cancelled');
  const code = /Unauthenticated/.test(reason) ? UNAUTHENTICATED : /PermissionDenied/.test(reason) ? 7 : 14;
  throw new EtcdRefusal(code, reason.replace(/^.* desc = /, ''));
}

const FOREIGN = "an answer that is not etcd's";

function assertEtcds(holds: unknown): asserts holds {
  if (!holds) throw new SyntaxError(FOREIGN);
}

// These throw SyntaxError for what etcd does not write there.

/** An object. */
export function objectOf(value: unknown): JsonObject {
  assertEtcds(isJsonObject(value));
  return value;
}

/** The objects of an array; none if it is left out. */
export function objectsOf(value: unknown = []): readonly JsonObject[] {
  assertEtcds(Array.isArray(value));
  return value.map(objectOf);
}

/** Text as it is. */
export function stringOf(value: unknown): string {
  assertEtcds(typeof value === 'string');
  return value;
}

/** An int64; 0 if it is left out. */
export function numberOf(value: unknown = 0): number {
  const number = typeof value === 'string' ? Number(value) : value;
  assertEtcds(Number.isSafeInteger(number));
  return number as number;
}

/** The revision of the store in the header of an answer. */
export function revisionOf({ header }: JsonObject): number {
  return numberOf(objectOf(header).revision);
}

const base64 = (text: string) => Buffer.from(text).toString('base64');
const textOf = (value: unknown = '') => Buffer.from(stringOf(value), 'base64').toString();

/** The keys that begin with a prefix, as the gateway writes them. Callers have them without the prefix. */
export class Keyspace {
  readonly #prefix: string;

  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  /** The name of a key. */
  name(key: string): string {
    return base64(`${this.#prefix}${key}`);
  }

  /** The keys that begin with `of`, from `after` on (without it) if that is given. */
  below(of: string, after: string | null = null): { key: string; range_end: string } {
    const end = Buffer.from(`${this.#prefix}${of}`);
    // No byte of UTF-8 is 0xff, so the last one can always be incremented.
    end[end.length - 1] = (end.at(-1) ?? 0) + 1;
    return { key: this.name(after === null ? of : `${after}\0`), range_end: end.toString('base64') };
  }

  /** One condition of a transaction. */
  compare(compare: Compare): object {
    const common = { key: this.name(compare.key), result: 'EQUAL' };
    if ('modRevision' in compare)
      return { ...common, target: 'MOD', mod_revision: String(compare.modRevision) };
    if ('createRevision' in compare)
      return { ...common, target: 'CREATE', create_revision: String(compare.createRevision) };
    return { ...common, target: 'VALUE', value: base64(compare.value) };
  }

  /** One operation of a transaction. */
  operation(op: Op): object {
    if ('delete' in op) return { request_delete_range: { key: this.name(op.delete) } };
    const { put, value, lease } = op;
    return { request_put: { key: this.name(put), value: base64(value), lease } };
  }

  /** What a range has: the keys that were found, and whether there are more of them. */
  range(value: unknown): { revision: number; found: readonly KeyValue[]; more: boolean } {
    const range = objectOf(value);
    const found = objectsOf(range.kvs).map((kv) => this.#keyValue(kv));
    return { revision: revisionOf(range), found, more: range.more === true && found.length > 0 };
  }

  /** An event of a watch. */
  change({ type, kv }: JsonObject): Change {
    return { kind: type === 'DELETE' ? 'delete' : 'put', ...this.#keyValue(objectOf(kv)) };
  }

  #keyValue(kv: JsonObject): KeyValue {
    return {
      key: textOf(kv.key).slice(this.#prefix.length),
      value: textOf(kv.value),
      modRevision: numberOf(kv.mod_revision),
      createRevision: numberOf(kv.create_revision),
    };
  }
}
