/**
 * The history of a daemon, loaded after its start, and what it looks at.
 */
import { startMsOf } from '../../base/stamp.js';
import { isRelayDown } from '../../base/views.js';
import type { Delivery } from '../../mail/delivery/delivery.js';
import type { Store } from '../../mail/store/store.js';
import type { Link } from '../link/link.js';
import type { History, HistoryOptions, PeerSight, Sight } from './history.js';

/** What the history is given. */
interface LazyHistoryOptions extends Omit<HistoryOptions, 'look'> {
  readonly store: Pick<Store, 'counts'>;
  readonly delivery: Pick<Delivery, 'outcomes' | 'relayView'>;
  /** Null: no cloud is configured. */
  readonly link: Pick<Link, 'view'> | null;
  readonly accepted: { readonly total: number };
}

/** The history; it begins with the first `open`. */
export interface LazyHistory {
  open(): Promise<History>;
  /** A message was accepted. */
  nudge(): void;
  /** Never rejects. */
  close(): Promise<void>;
}

/** Makes it. Nothing is loaded before `open`. */
export function lazyHistory(options: LazyHistoryOptions): LazyHistory {
  let opened: Promise<History> | null = null;
  let history: History | null = null;
  const open = async () => {
    const { openHistory } = await import('./history.js');
    history = await openHistory({ ...options, look: () => sightOf(options) });
    return history;
  };
  return {
    open: () => (opened ??= open()),
    nudge: () => history?.nudge(),
    close: async () => (await opened)?.close(),
  };
}

function sightOf({ store, delivery, link, accepted, clock }: LazyHistoryOptions): Sight {
  const { queued, sending, deferred, oldestAgeMs } = store.counts();
  const { sent, failed, expired } = delivery.outcomes;
  const startMs = startMsOf(clock);
  const peer = (isUp: boolean, isDown: boolean, sinceMs: number): PeerSight => ({
    isUp: isUp || (isDown ? false : null),
    sinceMs: sinceMs - startMs,
  });
  const relay = delivery.relayView();
  const cloud = link?.view();
  const isOnline = cloud?.state === 'online' || cloud?.state === 'unsteady';
  return {
    accepted: accepted.total,
    sent,
    failed: failed + expired,
    waiting: queued + sending + deferred,
    oldestAgeMs,
    relay: peer(relay.state === 'ok', isRelayDown(relay.state), relay.sinceMs),
    link: peer(isOnline, cloud?.state === 'offline', cloud?.sinceMs ?? startMs),
  };
}
