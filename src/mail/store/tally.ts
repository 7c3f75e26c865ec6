/**
 * How many mails a relay has taken, and when: enough to tell how many of them fall into any window of the past, never too
 * few. It is an exponential histogram (Datar, Gionis, Indyk, Motwani 2002). It knows no window, so new settings lose
 * nothing; and no clock, so a replay gives the same. Pure.
 */
import type { Stamp } from '../../base/stamp.js';

/** Of each size there are at most so many buckets. So up to 1/31 of the mails in a window count longer than they must. */
const SIZE_MAX = 32;

/** Some mails, a power of two, and when the youngest of them was taken. */
export type Bucket = readonly [count: number, boot: string, bootMs: number];

/** The age of a stamp, never too much (stamp.ts). */
type AgeOf = (stamp: Stamp) => number;

/** The mails of one relay: 32 buckets, and some 32 more each time their number doubles. */
export class Tally {
  /** The oldest and largest first. */
  readonly #buckets: Bucket[];

  constructor(buckets: readonly Bucket[] = []) {
    this.#buckets = [...buckets];
  }

  get buckets(): readonly Bucket[] {
    return this.#buckets;
  }

  /** One more mail was taken, at this moment or before. */
  add({ boot, bootMs }: Stamp): void {
    const buckets = this.#buckets;
    buckets.push([1, boot, Math.ceil(bootMs)]);
    for (let size = 1, end = buckets.length; ; size *= 2) {
      let start = end;
      while (start > 0 && buckets[start - 1]?.[0] === size) start--;
      if (end - start <= SIZE_MAX) return;
      // Two become one, as young as the younger.
      const [, ...last] = buckets[start + 1] as Bucket;
      buckets.splice(start, 2, [2 * size, ...last]);
      end = start + 1;
    }
  }

  /** How many mails are younger than `windowMs`. */
  within(windowMs: number, ageOf: AgeOf): number {
    let sum = 0;
    this.#walk(windowMs, ageOf, (count) => {
      sum += count;
      return true;
    });
    return sum;
  }

  /** How long until at most `most` mails are younger than `windowMs`; 0 if that is so now. */
  waitMs(windowMs: number, most: number, ageOf: AgeOf): number {
    let sum = 0;
    let waitMs = 0;
    this.#walk(windowMs, ageOf, (count, ageMs) => {
      sum += count;
      if (sum > most) waitMs = windowMs - ageMs;
      return sum <= most;
    });
    return waitMs;
  }

  /** Forgets what is older than `maxMs`. */
  trim(maxMs: number, ageOf: AgeOf): void {
    let young = 0;
    this.#walk(maxMs, ageOf, () => {
      young++;
      return true;
    });
    this.#buckets.splice(0, this.#buckets.length - young);
  }

  /** From the youngest on, while they are younger than `windowMs` and `visit` says so. */
  #walk(windowMs: number, ageOf: AgeOf, visit: (count: number, ageMs: number) => boolean): void {
    let ageMs = 0;
    for (let at = this.#buckets.length - 1; at >= 0; at--) {
      const [count, boot, bootMs] = this.#buckets[at] as Bucket;
      // What came before is as old at least, also if its own age is less certain.
      ageMs = Math.max(ageMs, ageOf({ boot, bootMs }));
      if (ageMs >= windowMs || !visit(count, ageMs)) return;
    }
  }
}

/** The tallies of relays, by name. */
export type Tallies = Map<string, Tally>;

/** One more mail was taken by this relay. */
export function countSent(tallies: Tallies, relay: string, at: Stamp): void {
  const tally = tallies.get(relay) ?? new Tally();
  tallies.set(relay, tally);
  tally.add(at);
}
