/**
 * What the reference cloud needs of etcd: keys compared and swapped by revision, leases and watches. Keys and values are
 * strings of Unicode text. Below: how etcd's JSON gateway writes them. It leaves out members that are 0, '' or false, and
 * writes int64 as strings and text as base64. Pure.
 */
import { Buffer } from 'node:buffer';
import { isJsonObject, type JsonObject } from '../../base/json.js';
import { MIB, SECOND_MS } from '../../base/limits.js';

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

/** One change that a watch reports. */
export interface Change {
  readonly kind: 'put' | 'delete';
  readonly key: string;
  /** '' if the key was deleted. */
  readonly value: string;
  readonly modRevision: number;
  /** 0 if the key was deleted. */
  readonly createRevision: number;
}

/** What a transaction did. */
export interface TxnResult {
  /** True: all conditions held and all operations are done. False: nothing is changed. */
  readonly succeeded: boolean;
  /** The revision of the whole store after it; with success, the modRevision of the keys that it put. */
  readonly revision: number;
  /** If it did not succeed: the present value of the key to show; null: absent, or there is none to show. */
  readonly current: KeyValue | null;
}

/** Who hears of changes. */
export interface WatchListener {
  /** All changes of one revision below the prefix, in the order of revisions. */
  changes(changes: readonly Change[], revision: number): void;
  /** Called once, unless the watch was closed before. `why.compactedRevision` is set: list anew. */
  ended(why: EtcdError): void;
}

/** One client of etcd. Every promise rejects with an EtcdError. */
export interface Etcd {
  /** Linearizable read of one key. */
  get(key: string): Promise<{ readonly revision: number; readonly found: KeyValue | null }>;
  /**
   * Reads all keys below a prefix as they are at one revision, in the order of their bytes, in pages of limited size, each
   * after `page` has settled. Resolves with the revision: a watch from the next one misses nothing.
   */
  list(prefix: string, page: (found: readonly KeyValue[]) => unknown): Promise<number>;
  /** Does the operations (at most TXN_OPS_MAX) if all conditions hold. `show` names a key to give if they do not. */
  txn(compares: readonly Compare[], ops: readonly Op[], show?: string): Promise<TxnResult>;
  /** Makes a lease; gives its id. */
  grant(ttlS: number): Promise<string>;
  /** Renews a lease. Gives the remaining TTL in seconds; 0: the lease is gone. */
  keepAlive(lease: string): Promise<number>;
  /** Ends a lease and deletes its keys. A lease that is gone already is no error. */
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

/** How a request failed, beside its words. */
interface EtcdFailure {
  readonly mayHaveHappened?: boolean;
  readonly compactedRevision?: number | null;
  readonly cause?: unknown;
}

/** Why a request failed or a watch ended; `message` is in words, without an end. */
export class EtcdError extends Error {
  /** `unavailable`: no network, no answer in time, no quorum, too busy: try later. `refused`: etcd said no. */
  readonly kind: 'unavailable' | 'refused';
  /** True if the request may have been applied, or may still be. */
  readonly mayHaveHappened: boolean;
  /** Older revisions than this one are forgotten, among them the one asked for. */
  readonly compactedRevision: number | null;

  constructor(kind: 'unavailable' | 'refused', message: string, failure: EtcdFailure = {}) {
    super(message, failure.cause === undefined ? undefined : { cause: failure.cause });
    this.name = 'EtcdError';
    this.kind = kind;
    this.mayHaveHappened = failure.mayHaveHappened ?? false;
    this.compactedRevision = failure.compactedRevision ?? null;
  }
}

/** The keys of `etcd` that begin with `prefix`, without it. Closing it closes `etcd`. */
export function prefixed(etcd: Etcd, prefix: string): Etcd {
  const outer = (key: string) => `${prefix}${key}`;
  const inner = <K extends KeyValue | Change>(entry: K): K => ({
    ...entry,
    key: entry.key.slice(prefix.length),
  });
  const outerOp = (op: Op): Op =>
    'put' in op ? { ...op, put: outer(op.put) } : { delete: outer(op.delete) };
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

/** Text in base64. */
export function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}

/** The keys below a prefix, from `after` on (without it) if that is given. */
export function below(prefix: string, after: string | null = null): { key: string; range_end: string } {
  const end = Buffer.from(prefix);
  // No byte of UTF-8 is 0xff, so the last one can always be incremented. An end of 0 means all keys.
  if (end.length > 0) end[end.length - 1] = (end.at(-1) ?? 0) + 1;
  const rangeEnd = end.length > 0 ? end.toString('base64') : base64('\0');
  const first = after === null ? prefix || '\0' : `${after}\0`;
  return { key: base64(first), range_end: rangeEnd };
}

/** One condition of a transaction. */
export function compareOf(compare: Compare): object {
  const common = { key: base64(compare.key), result: 'EQUAL' };
  if ('modRevision' in compare)
    return { ...common, target: 'MOD', mod_revision: String(compare.modRevision) };
  if ('createRevision' in compare)
    return { ...common, target: 'CREATE', create_revision: String(compare.createRevision) };
  return { ...common, target: 'VALUE', value: base64(compare.value) };
}

/** One operation of a transaction. */
export function operationOf(op: Op): object {
  if ('put' in op) {
    const put = { key: base64(op.put), value: base64(op.value) };
    return { request_put: op.lease === undefined ? put : { ...put, lease: op.lease } };
  }
  return { request_delete_range: { key: base64(op.delete) } };
}

/** What etcd said against a request. */
export class EtcdRefusal extends Error {
  /** The code of gRPC. */
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

const EXHAUSTED = 8;
const OUT_OF_RANGE = 11;
const UNAUTHENTICATED = 16;
/** Canceled, Unknown, DeadlineExceeded, Aborted, Internal, Unavailable. */
const UNAVAILABLE: readonly number[] = [1, 2, 4, 10, 13, 14];

/** The error in an answer; null without one. A stream gives it as an object, in which etcd before 3.6 calls the code otherwise. */
export function refusalOf(answer: JsonObject): EtcdRefusal | null {
  const { message, code, grpc_code = code } = isJsonObject(answer.error) ? answer.error : answer;
  // Others write a status of HTTP there.
  const isCode = typeof grpc_code === 'number' && grpc_code <= UNAUTHENTICATED;
  return isCode && typeof message === 'string' ? new EtcdRefusal(grpc_code, message) : null;
}

/** The error of a watch that etcd has cancelled; the reason contains the name of the code. */
export function cancelOf(reason: string): EtcdRefusal {
  const code = /Unauthenticated/.test(reason) ? UNAUTHENTICATED : /PermissionDenied/.test(reason) ? 7 : 14;
  return new EtcdRefusal(code, reason.replace(/^.* desc = /, ''));
}

/** True if a new token may help. */
export function wantsToken({ code, message }: EtcdRefusal): boolean {
  return code === UNAUTHENTICATED || /revision of auth store is old/.test(message);
}

/** True if the member refused before it began: without a leader, or with too much to do. */
export function isUntouched({ code, message }: EtcdRefusal): boolean {
  return /no leader/.test(message) || (code === EXHAUSTED && /too many requests/.test(message));
}

/** True if it is about the member or the moment, not about the request. */
export function isTemporary(refusal: EtcdRefusal): boolean {
  return UNAVAILABLE.includes(refusal.code) || isUntouched(refusal);
}

/** The error for the caller. `compacted` is the revision to name if the one that was asked for is forgotten. */
export function errorOf(refusal: EtcdRefusal, place: string, compacted: number | null): EtcdError {
  const said = `etcd at ${place}: ${refusal.message.replace(/^etcdserver: /, '')}`;
  if (isTemporary(refusal))
    return new EtcdError('unavailable', said, { mayHaveHappened: !isUntouched(refusal), cause: refusal });
  const isCompacted = refusal.code === OUT_OF_RANGE && /has been compacted/.test(refusal.message);
  const hint = /space exceeded/.test(refusal.message)
    ? ' (NOSPACE: its quota is used up; compact and defragment it, then disarm the alarm)'
    : '';
  return new EtcdError('refused', `${said}${hint}`, {
    compactedRevision: isCompacted ? compacted : null,
    cause: refusal,
  });
}

/** An int64; 0 if it is left out. Throws if it is none. */
export function numberOf(value: unknown): number {
  const number = value === undefined ? 0 : Number(value);
  if (!Number.isSafeInteger(number) || Array.isArray(value) || value === null) throw new Error('no int64');
  return number;
}

/** The revision of the store in the header of an answer. Throws if there is none. */
export function revisionOf(answer: JsonObject): number {
  const { header } = answer;
  if (!isJsonObject(header)) throw new Error('no header');
  return numberOf(header.revision);
}

/** The objects of an array; none if it is left out. Throws if it is something else. */
export function objectsOf(value: unknown): readonly JsonObject[] {
  if (value === undefined) return [];
  if (!Array.isArray(value) || !value.every(isJsonObject)) throw new Error('no array of objects');
  return value;
}

/** Text in base64; '' if it is left out. */
function textOf(value: unknown): string {
  return value === undefined ? '' : Buffer.from(String(value), 'base64').toString();
}

/** The keys of a range. Throws if there is something else. */
export function keysOf(range: unknown): readonly KeyValue[] {
  if (!isJsonObject(range)) throw new Error('no range');
  return objectsOf(range.kvs).map(keyValueOf);
}

/** A key with its value and revisions. */
export function keyValueOf(kv: JsonObject): KeyValue {
  return {
    key: textOf(kv.key),
    value: textOf(kv.value),
    modRevision: numberOf(kv.mod_revision),
    createRevision: numberOf(kv.create_revision),
  };
}
