/** Random requests to the api, many at once. */
import type { Test } from 'tap';
import type { ApiContext } from '../../src/device/api/context.js';
import { EMAIL, startApi, type TestApi } from './api.js';
import { pick, seededRandom, testSeed } from './random.js';

export const IS_LONG = process.env.FIELDPOST_TEST_LONG === '1';
const AT_ONCE = 24;
/** Tries against one api, so that its store does not grow too large. */
const ROUND = 5_000;

export type Random = () => number;

/** An answer, and the number of messages that were queued according to it. */
export interface Heard {
  readonly status: number;
  readonly queued: number;
}

interface FuzzOptions {
  readonly settings: Partial<ApiContext['settings']>;
  readonly tries: number;
  /** Each of these must be answered at least once. */
  readonly statuses: readonly number[];
}

/** Runs `tryOne` `tries` times. No answer is 500, and the store has exactly the messages that were answered with 202. */
export async function fuzz(
  t: Test,
  { settings, tries, statuses }: FuzzOptions,
  tryOne: (api: TestApi, random: Random) => Promise<Heard[]>,
): Promise<void> {
  const seed = testSeed();
  t.comment(`FIELDPOST_TEST_SEED=${seed}`);
  const counts: Record<number, number> = {};
  let next = 0;
  while (next < tries) {
    await using api = await startApi({ settings });
    const end = Math.min(next + ROUND, tries);
    let queued = 0;
    const work = async () => {
      while (next < end) {
        // Each has a seed of its own, so that the bytes do not depend on who comes first.
        const index = next++;
        for (const heard of await tryOne(api, seededRandom(Math.imul(seed, 0x9e3779b1) + index))) {
          counts[heard.status] = (counts[heard.status] ?? 0) + 1;
          queued += heard.queued;
          const isAllowed = heard.status >= 100 && heard.status !== 500;
          if (!isAllowed) t.fail(`try ${index} was answered ${heard.status}`);
        }
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    t.equal(api.uploads, 0, 'no upload is left open');
    t.equal(api.size, queued, 'the store has what was answered with 202, no more and no less');
    t.same(api.errors, [], 'no internal error was logged');
    t.equal((await api.post([EMAIL])).status, 202, 'the api still works');
  }
  t.comment(JSON.stringify(counts));
  for (const status of statuses) t.ok(status in counts, `${status} was reached`);
}

/** The bytes with a few of them changed, lost, doubled or cut off, or with one of `pieces` in them. */
export function mutilate(random: Random, bytes: Buffer, pieces: readonly string[]): Buffer {
  let result = bytes;
  do {
    const at = Math.floor(random() * result.length);
    const length = Math.floor(random() ** 3 * 50);
    const before = result.subarray(0, at);
    const middle = result.subarray(at, at + length);
    const after = result.subarray(at + length);
    const noise = Buffer.from(Array.from({ length }, () => Math.floor(random() * 256)));
    const piece = Buffer.from(pick(random, pieces));
    const choices = [
      [before, noise, after],
      [before, after],
      [before, middle, middle, after],
      [before],
      [before, piece, middle, after],
      [before, piece, after],
    ];
    result = Buffer.concat(pick(random, choices));
  } while (random() < 0.5);
  return result;
}
