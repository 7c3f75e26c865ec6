/**
 * The composition root: builds everything, starts it in order and stops it in reverse. What a room needs of
 * another is handed to it here.
 */
import { createApi } from './api/server.js';
import { changesBetween } from './config/changes.js';
import { needsToken } from './config/consistency.js';
import { addressOf } from './config/endpoints.js';
import { senderOf } from './config/names.js';
import type { Config, ListenConfig } from './config.js';
import { linkView, openCloud } from './daemon/cloud.js';
import { inOrder } from './daemon/in-order.js';
import { type Doing, statusLine } from './daemon/status-line.js';
import type { System } from './daemon/system.js';
import { Delivery } from './delivery/delivery.js';
import { FieldpostError } from './errors.js';
import { STOP_REQUESTS_MS } from './limits.js';
import { openStore } from './store/journaled-store.js';
import type { Store } from './store/store.js';
import { openListeners } from './system/listen.js';
import { storeMemory } from './system/memory.js';
import type { SettingsFault } from './views.js';

/** What is running. */
export interface Daemon {
  /** Where the local API listens; port 0 has become the port that was found. */
  readonly addresses: readonly ListenConfig[];
  /** How it is doing, in one line. */
  status(): string;
  /**
   * Follows a new configuration as far as that is possible without a restart; a message that is being sent is
   * finished first, within bounds. Gives the keys that are followed, and those that wait for a restart.
   */
  reload(next: Config): Promise<{ readonly taken: readonly string[]; readonly waiting: readonly string[] }>;
  /**
   * Finishes what is under way, within bounds, and resolves when everything is on the disk. `next`: the settings of the
   * next start, as far as they are known; where they name another cloud, this one is told that the device has moved.
   */
  stop(next?: Config): Promise<void>;
}

/**
 * Starts the daemon. Resolves when requests are answered; rejects with FieldpostError (`already-running`,
 * `unavailable`) or what the disk says, with nothing left running.
 */
export async function createDaemon(config: Config, system: System): Promise<Daemon> {
  const { clock, log, version, settingsFault = () => null } = system;
  // What reads its settings each time it needs them follows a reload through this object.
  const live = { ...config };
  const sender = () => senderOf(live, system.hostname());
  const store = await openStore({
    ...system,
    directory: config.stateDir,
    historyMax: config.history,
    keepFailedMs: config.keepFailedMs,
    budget: live,
    sender,
    memoryBytesMax: storeMemory(system.memoryBytes ?? Number.POSITIVE_INFINITY),
  });
  const cloud = config.cloud && (await openCloud(live, config.cloud, system, store));
  // Without a cloud what once was meant for one grows old, and that is told.
  const delivery = new Delivery({ store, config: live, ...system, short: cloud?.short ?? null });
  const wake = () => {
    delivery.wake();
    cloud?.link.wake();
  };
  const api = createApi({
    store,
    settings: live,
    clock,
    log,
    version,
    startedBootMs: clock.bootMs(),
    memoryBytes: system.memoryBytes,
    nudge: () => delivery.nudge(),
    edited: () => cloud?.sync.edited(),
    syncState: () => cloud?.sync.view() ?? null,
    wake() {
      wake();
      cloud?.sync.request();
    },
    relayState: () => delivery.relayView(),
    ...(system.streamed && { streamed: system.streamed }),
    ...(system.dropped && { dropped: system.dropped }),
    mailLimitBytes: () => delivery.rendering.limitBytes,
    mailBytes: (draft) => delivery.rendering.bytesOf(draft),
    linkState: () => linkView(cloud, delivery.waitReason),
    outcomes: () => delivery.outcomes,
    clockTrusted: () => clock.trust() !== 'wrong',
    settingsFault,
    peerUid: system.peerUid ?? (async () => null),
  });
  try {
    const listeners = await (system.openListeners ?? openListeners)(
      config.listen,
      (address) => {
        if (needsToken(address) && config.apiToken === null) throw unguarded(address);
        return api.makeServer(address.kind === 'unix' && address.sendOnly ? 'send' : address.kind);
      },
      system.handed,
    );
    delivery.start();
    cloud?.start(() => delivery.wake());
    const isOffline = () => delivery.relayView().state === 'failing' || cloud?.link.isOnline === false;
    const network = system.watchNetwork?.(() => {
      log.debug('network changed');
      wake();
    }, isOffline);
    const { queued, deferred, held } = store.counts();
    const listen = listeners.addresses.map(addressOf).join(',');
    log.info('started', { version, listen, queued, deferred, held: held || undefined });
    return {
      addresses: listeners.addresses,
      status: () => statusLine(doing(store, delivery, linkView(cloud, delivery.waitReason), settingsFault())),
      async reload(next) {
        const { values, renewsDelivery, taken, waiting } = changesBetween(live, next);
        Object.assign(live, values);
        await delivery.reload(renewsDelivery);
        return { taken, waiting };
      },
      stop: (next) =>
        inOrder(log.error, [
          async () => log.info('stopping'),
          async () => network?.close(),
          // A listener is closed once its last connection is; ending those is the api's part.
          async () => void (await Promise.all([listeners.close(), api.stop(STOP_REQUESTS_MS)])),
          () => delivery.stop(),
          async () => cloud?.sync.stop(),
          // The goodbye is the last that the cloud hears.
          async () => cloud?.link.stop(next && hasMoved(live, next) ? 'moved' : 'stopping'),
          async () => cloud?.close(),
          () => store.close(),
          async () => log.info('stopped'),
        ]),
    };
  } catch (error) {
    await store.close();
    throw error;
  }
}

/** True if the device reports to another cloud, under another name, or to none. */
function hasMoved({ cloud: before }: Config, { cloud: next }: Config): boolean {
  return before?.url !== next?.url || before?.deviceId !== next?.deviceId;
}

/** What is told of the daemon as a whole. */
function doing(
  store: Store,
  delivery: Delivery,
  link: Doing['link'] | null,
  settings: SettingsFault | null,
): Doing {
  return {
    queue: store.counts(),
    isFull: store.room().reason !== null,
    relay: delivery.relayView(),
    link: link ?? { state: 'disabled', reason: null },
    storage: store.storage(),
    settings,
  };
}

/** Settings are checked when they are read; where a socket of systemd's listens is only seen now. */
function unguarded(address: ListenConfig): FieldpostError {
  const words = `${addressOf(address)}, handed over by systemd, can be reached from other devices: that needs a token`;
  return new FieldpostError('bad-config', words, {
    hint: 'see FIELDPOST_API_TOKEN_FILE and fieldpost.socket',
  });
}
