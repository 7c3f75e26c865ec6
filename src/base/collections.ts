/**
 * Collections: a Map of bounded size, which forgets the oldest entries; items in groups; octets that come in chunks. Pure.
 */
import { Buffer } from 'node:buffer';

/** A Map of the youngest `max` entries. Setting an entry makes it the youngest. */
export class Recent<K, V> extends Map<K, V> {
  readonly #max: number;

  constructor(max: number, entries: Iterable<readonly [K, V]> = []) {
    // Map's own constructor would call set() before #max is there.
    super();
    this.#max = max;
    for (const [key, value] of entries) this.set(key, value);
  }

  override set(key: K, value: V): this {
    this.delete(key);
    super.set(key, value);
    forgetOldest(
      this.keys(),
      () => this.size > this.#max,
      (oldest) => this.delete(oldest),
    );
    return this;
  }
}

/** Gives `forget` one key after another, the oldest first, while `isTooMuch` says so. `forget` may delete it. */
export function forgetOldest<K>(keys: Iterable<K>, isTooMuch: () => boolean, forget: (key: K) => void): void {
  for (const key of keys) {
    if (!isTooMuch()) return;
    forget(key);
  }
}

/** The items by their keys, each group in their order. */
export function grouped<K, T>(items: Iterable<T>, keyOf: (item: T) => K): Map<K, T[]> {
  const groups = new Map<K, T[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return groups;
}

/** The size of a block. A chunk of this size is a block of its own. */
const BLOCK_BYTES = 16 * 1024;

/**
 * The octets of one text, in the order in which they came. A peer may send each octet as a chunk of its own, and a Buffer
 * takes some 300 bytes beside its octets: so small chunks are copied into blocks. A block is never copied into a larger one:
 * until a garbage collection, both would take memory.
 */
export class Octets {
  /** Full blocks. */
  #full: Uint8Array[] = [];
  /** The block that is being filled, and how much of it is filled. */
  #block: Buffer = Buffer.alloc(0);
  #filled = 0;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** Adds a chunk. The caller must not write into it afterwards: a large one is kept as it is. */
  push(chunk: Uint8Array): void {
    const head = chunk.subarray(0, this.#block.length - this.#filled);
    this.#fill(head);
    const rest = chunk.subarray(head.length);
    if (rest.length > 0) this.#begin(rest);
    this.#length += chunk.length;
  }

  /** Gives all octets, and begins anew. */
  take(): Buffer {
    // The first block is always full.
    const isOne = this.#full.length === 0;
    const octets = isOne ? this.#block : Buffer.concat([...this.#full, this.#block], this.#length);
    this.#full = [];
    this.#setBlock(Buffer.alloc(0));
    this.#length = 0;
    return octets;
  }

  #fill(octets: Uint8Array): void {
    this.#block.set(octets, this.#filled);
    this.#filled += octets.length;
  }

  /** Begins a block with these octets: the present one is full. */
  #begin(octets: Uint8Array): void {
    if (this.#filled > 0) this.#full.push(this.#block);
    const isLarge = octets.length >= BLOCK_BYTES;
    if (isLarge) this.#full.push(octets);
    // The first one is as large as its first chunk: most texts are short.
    const bytes = isLarge ? 0 : Math.max(octets.length, Math.min(this.#length, BLOCK_BYTES));
    this.#setBlock(Buffer.allocUnsafe(bytes));
    if (!isLarge) this.#fill(octets);
  }

  #setBlock(block: Buffer): void {
    this.#block = block;
    this.#filled = 0;
  }
}
