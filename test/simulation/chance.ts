/** Draws of a simulated world, all from one seed. */
import { seededRandom } from '../support/random.js';

export class Chance {
  readonly random: () => number;

  constructor(seed: number) {
    this.random = seededRandom(seed);
  }

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

  /** An independent line of chance: what is drawn there does not shift what is drawn here. */
  fork(): Chance {
    return new Chance(this.below(2 ** 32));
  }
}
