/** What a teller answers to the news desk, as tests play it. */
import type { DeviceNews, NewsOfDevice, Settled, Telling } from '../../src/cloud/fleet-store.js';

/** Everybody has heard of the news: they are not needed any more. */
export const allTold = ({ news }: NewsOfDevice): Settled => ({
  dropped: news.map(({ news: { id } }) => id),
  marked: [],
  dueMs: Number.POSITIVE_INFINITY,
  isOwed: false,
});

/** Nobody has, and somebody is due then. */
export const notYet = (dueMs = 0): Settled => ({ dropped: [], marked: [], dueMs, isOwed: true });

/** Everybody hears of all devices but these. */
export function tellingBut(all: readonly NewsOfDevice[], isRefused: (device: string) => boolean): Telling {
  const isAny = all.some(({ device }) => isRefused(device));
  const settledOf = (one: NewsOfDevice) => (isRefused(one.device) ? notYet() : allTold(one));
  return {
    settled: new Map(all.map((one) => [one.device, settledOf(one)])),
    refusal: isAny ? new Error('the outbox is full') : null,
  };
}

/** The news of all devices. */
export const newsIn = (all: readonly NewsOfDevice[]): DeviceNews[] =>
  all.flatMap(({ news }) => news.map((one) => one.news));
