/** Chance that can be had again: used by every test and fake that draws anything. */

/** Numbers from 0 to 1, the same for the same seed (mulberry32). */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** The seed of this run, which test/runner/seed.mjs has decided. Print it with what it decides here. */
export function testSeed(): number {
  const given = process.env.FIELDPOST_TEST_SEED;
  if (given === undefined) throw new Error('FIELDPOST_TEST_SEED is not set: run tests by scripts/test');
  return Number(given);
}

/** One of these values. */
export function pick<T>(random: () => number, from: readonly T[]): T {
  return from[Math.floor(random() * from.length)] as T;
}
