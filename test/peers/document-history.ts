/**
 * Checks whether a history of PUTs and GETs of one document is linearizable.
 *
 * Each PUT brings a value of its own and replaces one ETag, so the PUTs that took effect form a chain. The history is
 * linearizable if and only if each PUT of the chain has a moment such that the moments are in order, each lies within its
 * call, and each GET overlaps the time of the value that it gave. The earliest possible moments are tried: if they fail, all
 * others do.
 */

/** One call. Moments are of one monotonic clock. */
export interface DocumentCall {
  readonly startMs: number;
  readonly endMs: number;
  readonly method: 'GET' | 'PUT';
  /** Of a PUT: the ETag in If-Match; null: If-None-Match: *. */
  readonly replaces?: string | null;
  /** Of a PUT: the new value. Of a GET: what it gave; null: there was no document. */
  readonly value: string | null;
  /** `done`: with this ETag. `failed`: 412. `unknown`: no answer or 5xx; it may happen at any later time. */
  readonly result: 'done' | 'failed' | 'unknown';
  readonly etag: string | null;
}

const before = 'before the first';

/** What is wrong; empty: the history is linearizable. GETs without an answer must be left out. */
export function faultsOfHistory(calls: readonly DocumentCall[]): string[] {
  const faults: string[] = [];
  const etags = new Map<string, string>();
  for (const { method, value, result, etag } of calls) {
    if (result !== 'done' || value === null || etag === null) continue;
    const known = etags.get(value);
    if (known !== undefined && known !== etag) faults.push(`${method} ${value}: ETag ${etag}, and ${known}`);
    etags.set(value, etag);
  }
  if (new Set(etags.values()).size < etags.size) faults.push('two values have one ETag');
  const puts = calls.filter(({ method }) => method === 'PUT');
  const wins = puts.filter(({ result, value }) => result !== 'failed' && etags.has(value ?? ''));
  const byReplaced = new Map<string, DocumentCall>();
  for (const put of wins) {
    const replaced = put.replaces ?? before;
    const other = byReplaced.get(replaced);
    if (other !== undefined) faults.push(`${other.value} and ${put.value} both replaced ${replaced}`);
    byReplaced.set(replaced, put);
  }
  for (const { method, value } of calls) {
    const isOurs = value === null || method === 'PUT' || wins.some((put) => put.value === value);
    if (!isOurs) faults.push(`GET gave ${value}, which nobody has put`);
  }
  if (faults.length > 0) return faults;
  const chain: DocumentCall[] = [];
  for (let next = byReplaced.get(before); next !== undefined && chain.length < wins.length; ) {
    chain.push(next);
    next = byReplaced.get(etags.get(next.value ?? '') ?? '');
  }
  if (chain.length < wins.length) return ['a PUT replaced what was never there'];
  return faultsOfOrder(chain, calls, etags);
}

function faultsOfOrder(
  chain: readonly DocumentCall[],
  calls: readonly DocumentCall[],
  etags: ReadonlyMap<string, string>,
): string[] {
  const faults: string[] = [];
  const gets = groups(
    calls.filter(({ method }) => method === 'GET'),
    ({ value }) => value,
  );
  const failed = groups(
    calls.filter(({ method, result }) => method === 'PUT' && result === 'failed'),
    ({ replaces }) => replaces ?? before,
  );
  let momentMs = Number.NEGATIVE_INFINITY;
  for (const [n, put] of chain.entries()) {
    const previous = chain[n - 1]?.value ?? null;
    const own = etags.get(put.value ?? '') ?? '';
    // GETs of the value before begin before this PUT happens; GETs of this value end after it.
    const starts = (gets.get(previous) ?? []).map(({ startMs }) => startMs);
    const ends = (gets.get(put.value) ?? []).map(({ endMs }) => endMs);
    // A PUT that replaces the value before fails only once that value is gone.
    const replaced = previous === null ? before : (etags.get(previous) ?? '');
    ends.push(...(failed.get(replaced) ?? []).map(({ endMs }) => endMs));
    const latest = Math.min(...ends, put.result === 'done' ? put.endMs : Number.POSITIVE_INFINITY);
    momentMs = Math.max(momentMs, put.startMs, ...starts);
    if (momentMs > latest)
      faults.push(`${put.value} (${own}) at ${momentMs} or later, and at ${latest} or before`);
  }
  const last = chain.at(-1);
  const lastEtag = last === undefined ? before : (etags.get(last.value ?? '') ?? '');
  // An unanswered PUT of which nobody has heard may have come last.
  const isReplaced = calls.some(
    ({ method, result, value, replaces }) =>
      method === 'PUT' &&
      result === 'unknown' &&
      !etags.has(value ?? '') &&
      (replaces ?? before) === lastEtag,
  );
  const never = failed.get(lastEtag) ?? [];
  if (!isReplaced && never.length > 0)
    faults.push(`${never.length} PUTs failed though what they replace was there`);
  return faults;
}

function groups<K>(calls: readonly DocumentCall[], keyOf: (call: DocumentCall) => K): Map<K, DocumentCall[]> {
  const found = new Map<K, DocumentCall[]>();
  for (const call of calls) found.set(keyOf(call), [...(found.get(keyOf(call)) ?? []), call]);
  return found;
}
