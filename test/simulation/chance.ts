/**
 * Random draws of a simulated world, all from one seed. Each machine, relay and person draws from its own line. Every
 * step of a world restarts all lines: leaving out a step shifts no draw of a later one.
 */

/** Draws after a start that are thrown away, because they depend on a part of the state only. */
const WARM_UP = 8;

export class Chance {
  readonly #seed: number;
  readonly #lines: Chance[] = [];
  // The state of the generator sfc32. It is large because many starts of a small one soon draw the same numbers.
  #a = 0;
  #b = 0;
  #c = 0;
  #count = 1;

  constructor(seed: number) {
    this.#seed = seed >>> 0;
    this.#begin(0);
  }

  /** A number from 0 to below 1. It works without `this`. */
  readonly random = (): number => {
    const drawn = (((this.#a + this.#b) | 0) + this.#count) | 0;
    this.#count = (this.#count + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = (((this.#c << 21) | (this.#c >>> 11)) + drawn) | 0;
    return (drawn >>> 0) / 2 ** 32;
  };

  /** True once in `1 / odds`. */
  is(odds: number): boolean {
    return this.random() < odds;
  }

  /** A whole number from 0 to below `end`. */
  below(end: number): number {
    return Math.floor(this.random() * end);
  }

  /** From `low` to `high`, small ones as likely as large ones. */
  span(low: number, high: number): number {
    return low * (high / low) ** this.random();
  }

  one<T>(of: readonly T[]): T {
    const found = of[this.below(of.length)];
    if (found === undefined) throw new Error('nothing to draw from');
    return found;
  }

  /** At least one of them, in any order. */
  some<T>(of: readonly T[]): T[] {
    const left = [...of];
    const count = 1 + this.below(left.length);
    return Array.from({ length: count }, () => left.splice(this.below(left.length), 1)[0] as T);
  }

  /** A key, as often as its weight says. */
  weighted<K extends string>(weights: Readonly<Record<K, number>>): K {
    const entries = Object.entries(weights) as [K, number][];
    let left = this.random() * entries.reduce((sum, [, weight]) => sum + weight, 0);
    for (const [key, weight] of entries) {
      left -= weight;
      if (left < 0) return key;
    }
    return (entries[0] as [K, number])[0];
  }

  bytes(count: number): Buffer {
    return Buffer.from(Uint8Array.from({ length: count }, () => this.below(256)));
  }

  /** A separate line: its draws do not shift those of this line. */
  fork(): Chance {
    const line = new Chance(this.below(2 ** 32));
    this.#lines.push(line);
    return line;
  }

  /** Restarts this line and its forks: their next draws depend only on their seeds and on `step`. */
  restart(step: number): void {
    this.#begin(step);
    for (const line of this.#lines) line.restart(step);
  }

  #begin(step: number): void {
    this.#a = this.#seed;
    this.#b = step | 0;
    this.#c = 0;
    this.#count = 1;
    for (let i = 0; i < WARM_UP; i++) this.random();
  }
}
