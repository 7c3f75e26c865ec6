/**
 * What people are told of a device, as operations of the transaction that decides it. Pure.
 */

import type { Log } from '../../base/system/log.js';
import type { Presence } from '../presence.js';
import type { Happening } from '../texts/texts.js';
import type { Op } from './etcd.js';
import type { LastTold, Seen } from './seen.js';

/** The most news kept of one device while nobody can be told. */
const NEWS_MAX = 4;

interface Undecided {
  readonly id: string;
  readonly presence: Presence;
  readonly seen: Seen;
  readonly told: LastTold | undefined;
  /** The names of its news that people are not told yet, the oldest first. */
  readonly news: readonly string[];
  /** Draws the id of news. */
  readonly newId: () => string;
}

interface Decision {
  readonly told: LastTold;
  readonly ops: readonly Op[];
  /** Called when it holds. */
  readonly logTo: (log: Pick<Log, 'info'>) => void;
}

const ONLINE: LastTold = { isOffline: false, heardMs: null };

/** The decision about a device whose state differs from what people were told. */
export function decisionOf(device: Undecided): Decision {
  const { id, presence, seen, told, news } = device;
  if (presence.said === 'moved') {
    const ops = news.map((name) => ({ delete: `outbox/${name}` }));
    return { told: ONLINE, ops, logTo: (log) => log.info('device moved', { device: id }) };
  }
  if (presence.state === 'offline') {
    const stopped = presence.said === 'stopping';
    const ops = newsOps(device, { kind: stopped ? 'stopped' : 'silent', sinceMs: seen.atMs });
    const next = { isOffline: true, heardMs: seen.atMs };
    return { told: next, ops, logTo: (log) => log.info('device offline', { device: id, stopped }) };
  }
  const heardMs = told?.heardMs ?? null;
  const lastedMs = heardMs === null || seen.atMs === null ? null : Math.max(0, seen.atMs - heardMs);
  const ops = newsOps(device, { kind: 'back', sinceMs: seen.atMs, lastedMs });
  const fields = { device: id, offlineMs: lastedMs ?? undefined };
  return { told: ONLINE, ops, logTo: (log) => log.info('device online', fields) };
}

function newsOps({ id, news, newId }: Undecided, happening: Happening): Op[] {
  // Drop a pair in the middle: the first may be told already, and the last is the present state.
  const dropped = news.length >= NEWS_MAX ? news.slice(1, 3) : [];
  return [
    { put: `outbox/${id}/${newId()}`, value: JSON.stringify(happening) },
    ...dropped.map((name) => ({ delete: `outbox/${name}` })),
  ];
}
