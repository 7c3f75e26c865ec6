/**
 * What the reference cloud needs of etcd: keys compared and swapped by revision, leases and watches. Keys and values are
 * strings of Unicode text.
 */

/** The operations of one transaction at most: etcd's own limit. */
export const TXN_OPS_MAX = 128;

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
  | { readonly delete: string }
  | { readonly deletePrefix: string };

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
   * Reads all keys below a prefix as they are at one revision, in the order of their bytes, in pages of limited size.
   * Resolves with the revision: a watch from the next one misses nothing.
   */
  list(prefix: string, page: (found: readonly KeyValue[]) => void): Promise<number>;
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
export interface EtcdFailure {
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
