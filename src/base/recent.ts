/**
 * Memories of bounded size, which forget the oldest. Pure.
 */

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
