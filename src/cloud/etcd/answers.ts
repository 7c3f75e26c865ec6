/**
 * Reads what etcd's JSON gateway answers: keys, and errors with their blame. The gateway leaves out members that are 0, ''
 * or false, and writes int64 as strings. Pure.
 */
import { Buffer } from 'node:buffer';
import { isJsonObject, type JsonObject } from '../../base/json.js';
import { EtcdError, type KeyValue } from './etcd.js';

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

/** The error in an answer; null without one. A stream gives it as an object. */
export function refusalOf(answer: JsonObject): EtcdRefusal | null {
  const { error } = answer;
  if (error === undefined) return null;
  if (isJsonObject(error)) return new EtcdRefusal(Number(error.grpc_code), String(error.message));
  return new EtcdRefusal(Number(answer.code), String(error));
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
  return UNAVAILABLE.includes(refusal.code) || Number.isNaN(refusal.code) || isUntouched(refusal);
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
export function textOf(value: unknown): string {
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
