/**
 * What may be found after a crash: one value, or several while nobody was told. The last is the one that was asked for
 * last. Used by store-client.ts and book-client.ts.
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

  /** Only this is possible any more. */
  set(value: T): void {
    this.#values = [value];
  }

  /** All that was written is synced. */
  synced(): void {
    this.#values = this.#values.slice(-1);
  }

  /**
   * Does what makes this of it. Until that is answered, both are possible; afterwards too where the outcome is only
   * `written`. What the disk has refused may yet be found, but the next sync makes sure what was before.
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

/** Lets pass what a disk may do to a store. */
export function onlyStorage(error: unknown): void {
  const { code = '' } = error as { code?: string };
  if (!['storage-failed', 'storage-full', 'POWERCUT'].includes(code)) throw error;
}
