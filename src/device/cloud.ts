/**
 * The cloud's side of the daemon: the client, the link and the sync, wired to the other modules. Loaded only if a cloud is
 * configured.
 */

import type { Config } from '../base/config/settings.js';
import type { CloudConfig } from '../base/config/types.js';
import type { LinkView, RelayView } from '../base/views.js';
import type { ShortWay } from '../mail/delivery/cloud-transport.js';
import type { Delivery } from '../mail/delivery/delivery.js';
import type { System } from '../mail/engine.js';
import type { Store } from '../mail/store/store.js';
import type { AddressBook } from './book/address-book.js';
import type { Link } from './link/link.js';
import type { Sync } from './link/sync.js';

/** The parts that exist if a cloud is configured. */
export interface CloudSide {
  readonly link: Link;
  readonly sync: Sync;
  /** Sends SMS, calls and pushes. */
  readonly short: ShortWay;
  /** Starts the link, which wakes the delivery when it comes online, and reports the state of its relays. */
  start(delivery: Pick<Delivery, 'wake' | 'relayView'>): void;
  close(): void;
}

/** Builds the cloud's side. Nothing is sent before start(). */
export async function openCloud(
  config: Config,
  cloud: CloudConfig,
  system: System,
  store: Store,
  book: AddressBook,
): Promise<CloudSide> {
  const [{ openHttps }, { CloudClient }, { Link }, { Sync }] = await Promise.all([
    import('../base/system/https.js'),
    import('./link/client.js'),
    import('./link/link.js'),
    import('./link/sync.js'),
  ]);
  const { version } = system;
  const https = (system.openHttps ?? openHttps)({
    ...cloud,
    ...system,
    proxy: () => (config.cloudProxy === 'none' ? null : config.cloudProxy),
  });
  const client = new CloudClient(cloud, { send: https.send, ...system });
  // The delivery is built later than the link.
  let relayState = (): RelayView['state'] => 'unknown';
  const link = new Link({
    client,
    config,
    report() {
      const { queued, sending, deferred, failed } = store.counts();
      return { queue: { queued: queued + sending, deferred, failed }, version, relay: relayState() };
    },
    ...system,
  });
  const sync = new Sync({
    book,
    cloud: `${cloud.url}/devices/${cloud.deviceId}`,
    client,
    config,
    isOnline: () => link.isOnline,
    ...system,
  });
  return {
    link,
    sync,
    short: {
      send: (message, signal) => client.sendMessage(message, signal),
      isOnline: () => link.isOnline,
    },
    start(delivery) {
      relayState = () => delivery.relayView().state;
      const online = () => {
        delivery.wake();
        sync.online();
      };
      link.start({ online, destinations: (etag) => sync.seen(etag) });
    },
    close: () => https.close(),
  };
}

/** The link, with the reason why messages wait although it is online. */
export function linkView(cloud: CloudSide | null, waitReason: string | null): LinkView | null {
  const view = cloud?.link.view() ?? null;
  if (view === null || view.reason !== null || waitReason === null) return view;
  return { ...view, reason: `messages wait: ${waitReason}` };
}
