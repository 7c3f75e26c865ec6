/**
 * The values that may be found after a crash: one, or several before the answer. The last value was asked for last. Used
 * by book-client.ts and store-client.ts.
 */
export class Doubt<T> {
  #values: readonly T[];

  constructor(values: Iterable<T>) {
    this.#values = [...values];
  }

  get isOver(): boolean {
    return this.#values.length === 1;
  }

  allows(value: T): boolean {
    return this.#values.includes(value);
  }

  copy(): Doubt<T> {
    return new Doubt(this.#values);
  }

  /** From now on only this value is possible. */
  set(value: T): void {
    this.#values = [value];
  }

  /** All that was written is synced. */
  synced(): void {
    this.#values = this.#values.slice(-1);
  }

  /**
   * Does the work that leads to this value. Until the answer both values are possible; after it too if the outcome is only
   * `written`. A start may find a value that the disk has refused, but the next sync makes the older one sure.
   */
  async become(value: T, work: () => Promise<unknown>, outcome: 'synced' | 'written'): Promise<void> {
    const before = this.#values;
    this.#values = [...before.filter((it) => it !== value), value];
    try {
      await work();
      if (outcome === 'synced') this.set(value);
    } catch (error) {
      onlyStorage(error);
      this.#values = before.at(-1) === value ? before : [value, ...before.filter((it) => it !== value)];
    }
  }

  toString(): string {
    return this.#values.map(String).join(' or ');
  }
}

/** Throws all errors but those of a disk. */
export function onlyStorage(error: unknown): void {
  const { code = '' } = error as { code?: string };
  if (!['storage-failed', 'storage-full', 'POWERCUT'].includes(code)) throw error;
}
