/**
 * Decides what one person is told of the news of a closed batch.
 */

import type { DeviceNews } from './news.js';
import { DIGEST_DEVICES } from './texts/texts.js';
import type { Direction } from './texts/words.js';

/** One news for one person. */
export interface PlannedNews {
  readonly news: DeviceNews;
  /** True if this person has had a message of its own about it. */
  readonly isTold: boolean;
}

/** What one person is told. */
export interface Plan<T extends PlannedNews> {
  /** Each in a message of its own. */
  readonly single: readonly T[];
  readonly digests: readonly { readonly direction: Direction; readonly news: readonly T[] }[];
}

/**
 * The plan for the news of a batch, those of each device in order. A person is told at most the last news of a device, and
 * only if it differs from what this person knows: who was not told of a silence need not be told that it is over.
 */
export function planFor<T extends PlannedNews>(
  all: readonly T[],
  hasDigest: (direction: Direction) => boolean,
): Plan<T> {
  const byDevice = new Map<string, T[]>();
  for (const one of all) {
    const { device } = one.news;
    const queue = byDevice.get(device);
    if (queue === undefined) byDevice.set(device, [one]);
    else queue.push(one);
  }
  const needed = [...byDevice.values()].flatMap((queue) => lastNeeded(queue) ?? []);
  const plan = { single: [] as T[], digests: [] as { direction: Direction; news: T[] }[] };
  for (const direction of ['offline', 'back'] as const) {
    const news = needed.filter((one) => directionOf(one.news) === direction);
    if (news.length === 0 || hasDigest(direction)) continue;
    if (news.length > DIGEST_DEVICES) plan.digests.push({ direction, news });
    else plan.single.push(...news);
  }
  return plan;
}

function lastNeeded<T extends PlannedNews>(queue: readonly T[]): T | null {
  const [first] = queue as [T];
  const last = queue.at(-1) as T;
  const told = queue.findLast(({ isTold }) => isTold);
  // Before the first news the device was in the other state.
  const isOffline =
    told === undefined ? directionOf(first.news) === 'back' : directionOf(told.news) === 'offline';
  return isOffline === (directionOf(last.news) === 'offline') ? null : last;
}

function directionOf({ kind }: DeviceNews): Direction {
  return kind === 'back' ? 'back' : 'offline';
}
