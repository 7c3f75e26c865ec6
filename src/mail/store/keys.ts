/**
 * The Idempotency-Keys that the state remembers. Callers who may only send have keys of their own: they can
 * neither take a key ahead of the others, nor drive out theirs, nor get their ids.
 */

import { forgetOldest } from '../../base/collections.js';
import type { Stamp } from '../../base/stamp.js';
import { type Bounds, keyWeight, type Weights } from './weight.js';

/** The part of the store's memory for Idempotency-Keys; beyond it the oldest is forgotten. */
const KEYS_MEMORY_SHARE = 1 / 4;

/** An Idempotency-Key that led to an acceptance. */
export interface KeyEntry {
  readonly hash: string;
  readonly ids: readonly string[];
  readonly at: Stamp;
  /** As in the event `accepted`. */
  readonly full?: true;
}

/** The part of the state that remembers keys. */
export interface RememberedKeys {
  /** The oldest first. */
  readonly keys: Map<string, KeyEntry>;
  /** Those of callers who may only send. */
  readonly sendKeys: Map<string, KeyEntry>;
  readonly weights: Weights;
  readonly bounds: Bounds;
}

/** Stands before such a key. No caller's key has a blank. */
const SEND = 'send ';

/** The key under which the store knows a caller's key. */
export function storedKey(key: string, onlySends: boolean): string {
  return onlySends ? SEND + key : key;
}

/** The keys of this one's kind. */
function keysLike({ keys, sendKeys }: RememberedKeys, key: string): RememberedKeys['keys'] {
  return isFullKey(key) ? keys : sendKeys;
}

/** True for the key of a caller who may do everything. */
export function isFullKey(key: string): boolean {
  return !key.startsWith(SEND);
}

/**
 * The entry of a key. A caller who may only send finds also a key that an older program took, which did not tell callers
 * apart: its first try may have been before an upgrade.
 */
export function findKey(state: RememberedKeys, key: string): KeyEntry | undefined {
  const entry = keysLike(state, key).get(key);
  if (entry || isFullKey(key)) return entry;
  const older = state.keys.get(key.slice(SEND.length));
  return older?.full ? undefined : older;
}

/**
 * Remembers a key. Forgets the oldest keys of its kind if there are too many. If all keys take too much memory, the kind
 * that takes more than half of it forgets.
 */
export function insertKey(state: RememberedKeys, key: string, entry: KeyEntry): void {
  forgetKey(state, key);
  const { weights, bounds } = state;
  const like = keysLike(state, key);
  like.set(key, entry);
  weigh(state, key, entry, 1);
  const forget = (oldest: string) => forgetKey(state, oldest);
  forgetOldest(like.keys(), () => like.size > bounds.keysMax, forget);
  const bytesMax = bounds.memoryBytesMax * KEYS_MEMORY_SHARE;
  const isTooMuch = () => weights.keys > bytesMax;
  forgetOldest(state.sendKeys.keys(), () => isTooMuch() && weights.sendKeys > bytesMax / 2, forget);
  forgetOldest(state.keys.keys(), isTooMuch, forget);
}

/** Forgets a key. */
export function forgetKey(state: RememberedKeys, key: string): void {
  const like = keysLike(state, key);
  const entry = like.get(key);
  if (!entry) return;
  like.delete(key);
  weigh(state, key, entry, -1);
}

function weigh({ weights }: RememberedKeys, key: string, entry: KeyEntry, sign: 1 | -1): void {
  const bytes = sign * keyWeight(key, entry);
  weights.keys += bytes;
  if (!isFullKey(key)) weights.sendKeys += bytes;
}
