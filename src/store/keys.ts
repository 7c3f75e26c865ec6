/**
 * The Idempotency-Keys that the state remembers (local-api §1).
 */
import { KEYS_MEMORY_SHARE } from '../limits.js';
import { forgetOldest } from '../recent.js';
import type { KeyEntry, State } from './state.js';
import { keyWeight } from './weight.js';

/** Remembers a key. Forgets the oldest keys if there are too many, or if they take too much memory. */
export function insertKey(state: State, key: string, entry: KeyEntry): void {
  forgetKey(state, key);
  const { keys, weights, bounds } = state;
  keys.set(key, entry);
  weights.keys += keyWeight(key, entry);
  const bytesMax = bounds.memoryBytesMax * KEYS_MEMORY_SHARE;
  forgetOldest(
    keys.keys(),
    () => keys.size > bounds.keysMax || weights.keys > bytesMax,
    (oldest) => forgetKey(state, oldest),
  );
}

/** Forgets a key. */
export function forgetKey({ keys, weights }: State, key: string): void {
  const entry = keys.get(key);
  if (!entry) return;
  keys.delete(key);
  weights.keys -= keyWeight(key, entry);
}
