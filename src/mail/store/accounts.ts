/**
 * Amounts of the quota, and the accounts of callers: what waits of one, and what waits of all who may only send. An account
 * lives as long as there is something on it. Pure.
 */

/** Messages in the queue, bytes in the state directory, and bytes of memory (weight.ts). */
export interface Amounts {
  readonly count: number;
  readonly bytes: number;
  readonly memoryBytes: number;
}

export const NOTHING: Amounts = { count: 0, bytes: 0, memoryBytes: 0 };

/** The sum of both. */
export function plus(one: Amounts, other: Amounts): Amounts {
  return {
    count: one.count + other.count,
    bytes: one.bytes + other.bytes,
    memoryBytes: one.memoryBytes + other.memoryBytes,
  };
}

/** What is on each account, by its name. */
export type Accounts = Map<string, Amounts>;

/** The account of all callers who may only send; the others are named after their caller. */
export const SENDERS = 'callers who may only send';

const NONE: readonly string[] = [];

/** The accounts of a message, or of whoever asks; of most there are none. */
export function accountsOf(
  of: { readonly onlySends?: boolean; readonly caller?: string | undefined } | undefined,
): readonly string[] {
  if (!of?.onlySends && of?.caller === undefined) return NONE;
  return [...(of.onlySends ? [SENDERS] : []), ...(of.caller === undefined ? [] : [of.caller])];
}

/** Adds to each of these accounts; negative amounts take away. */
export function enterInto(accounts: Accounts, names: readonly string[], by: Amounts): void {
  for (const name of names) {
    const sum = plus(accounts.get(name) ?? NOTHING, by);
    if (sum.count || sum.bytes || sum.memoryBytes) accounts.set(name, sum);
    else accounts.delete(name);
  }
}
