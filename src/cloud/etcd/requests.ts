/**
 * Writes conditions and operations as etcd's JSON gateway takes them: text in base64, int64 as strings. Pure.
 */
import { Buffer } from 'node:buffer';
import type { Compare, Op } from './etcd.js';

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
  const range = 'delete' in op ? { key: base64(op.delete) } : below(op.deletePrefix);
  return { request_delete_range: range };
}
