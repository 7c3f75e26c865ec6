/**
 * Which requests have been accepted before, by their Idempotency-Key (local-api §1). Used by journaled-store.ts.
 */
import { FieldpostError } from '../errors.js';
import { IDEMPOTENCY_AGE_MS, IDEMPOTENCY_KEYS_MAX, KEYS_HELD_MAX, KEYS_MEMORY_SHARE } from '../limits.js';
import type { Stamp } from '../message/message.js';
import type { KeyEntry, State } from './state.js';
import type { KeyedContent } from './store.js';
import { keyWeight } from './weight.js';

/** How long keys are remembered, and how many of them: the oldest is dropped first. */
export interface KeyMemory {
  readonly ageMs: number;
  readonly max: number;
}

/** What local-api §1 promises. */
export const KEY_MEMORY: KeyMemory = { ageMs: IDEMPOTENCY_AGE_MS, max: IDEMPOTENCY_KEYS_MAX };

/** The keys of the state, and those of requests still under way. */
export class IdempotencyKeys {
  readonly #state: State;
  readonly #ageMs: (stamp: Stamp) => number;
  readonly #memory: KeyMemory;
  readonly #arriving = new Set<string>();

  constructor(state: State, ageMs: (stamp: Stamp) => number, memory: KeyMemory) {
    this.#state = state;
    this.#ageMs = ageMs;
    this.#memory = memory;
  }

  /** What was accepted with this key, or null if it is new. */
  recall(key: string): KeyEntry | null {
    const entry = this.#state.keys.get(key);
    return entry && !this.#isOver(entry) ? entry : null;
  }

  /** The ids that were given for this key, or null if it is new. Throws conflict and invalid as Store.accept does. */
  idsOf({ key, hash }: KeyedContent): readonly string[] | null {
    if (this.#arriving.has(key)) {
      throw new FieldpostError('conflict', 'a request with this Idempotency-Key is still under way', {
        hint: 'wait for its answer',
      });
    }
    const entry = this.recall(key);
    if (entry === null) return null;
    if (entry.hash === hash) return entry.ids;
    throw new FieldpostError('invalid', 'this Idempotency-Key was used with other content', {
      hint: 'use a new key for a new message',
    });
  }

  /** Does what the request with this key asks for; until that is done it is under way. */
  async arriving<T>({ key }: KeyedContent, work: () => Promise<T>): Promise<T> {
    this.#arriving.add(key);
    try {
      return await work();
    } finally {
      this.#arriving.delete(key);
      this.#trim();
    }
  }

  /** Forgets the keys that have served their time. */
  sweep(): void {
    for (const [key, entry] of this.#state.keys) if (this.#isOver(entry)) forgetKey(this.#state, key);
    this.#trim();
  }

  #trim(): void {
    const { keys } = this.#state;
    for (const oldest of keys.keys()) {
      if (keys.size <= this.#memory.max) break;
      forgetKey(this.#state, oldest);
    }
  }

  #isOver({ at }: KeyEntry): boolean {
    return this.#ageMs(at) > this.#memory.ageMs;
  }
}

/** Remembers a key. The oldest are forgotten where they are too many, or take too much memory. */
export function insertKey(state: State, key: string, entry: KeyEntry): void {
  state.keys.set(key, entry);
  state.weights.keys += keyWeight(key, entry);
  const bytesMax = state.bounds.memoryBytesMax * KEYS_MEMORY_SHARE;
  for (const oldest of state.keys.keys()) {
    if (state.keys.size <= KEYS_HELD_MAX && state.weights.keys <= bytesMax) return;
    forgetKey(state, oldest);
  }
}

/** Forgets a key, if it is known. */
export function forgetKey(state: State, key: string): void {
  const entry = state.keys.get(key);
  if (!entry) return;
  state.keys.delete(key);
  state.weights.keys -= keyWeight(key, entry);
}
