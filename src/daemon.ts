/**
 * The composition root: builds everything, starts it in order and stops it in reverse. What a room needs of
 * another is handed to it here.
 */
import { createApi } from './api/server.js';
import { changesBetween } from './config/changes.js';
import { needsToken } from './config/consistency.js';
import { addressOf } from './config/endpoints.js';
import { heloNameOf, senderOf } from './config/names.js';
import type { Config, ListenConfig } from './config.js';
import { linkView, openCloud } from './daemon/cloud.js';
import { inOrder } from './daemon/in-order.js';
import { Mails } from './daemon/mails.js';
import { type Doing, statusLine } from './daemon/status-line.js';
import type { System } from './daemon/system.js';
import { Gateway } from './delivery/gateway.js';
import { Delivery } from './delivery/loop.js';
import { OutcomeWriter } from './delivery/outcome-writer.js';
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
  const mails = new Mails(live, sender, store, system);
  const writer = new OutcomeWriter(
    { store, clock, log },
    {
      deferred(id) {
        delivery.deferred(id);
        gateway.deferred(id);
      },
      relieved() {
        delivery.relieved();
        gateway.relieved();
      },
    },
  );
  let delivery = createDelivery(live, system, store, writer, mails);
  const wake = () => {
    delivery.wake();
    gateway.wake();
  };
  const cloud = config.cloud && (await openCloud(live, config.cloud, system, store));
  const gateway = new Gateway({
    store,
    writer,
    config: live,
    ...system,
    // Without a cloud what once was meant for one grows old, and that is told.
    send: cloud?.send ?? (() => Promise.reject(new Error('there is no cloud'))),
    isOnline: () => cloud?.link.isOnline ?? false,
  });
  const wakeAll = () => {
    wake();
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
    nudge() {
      delivery.nudge();
      gateway.nudge();
    },
    edited: () => cloud?.sync.edited(),
    syncState: () => cloud?.sync.view() ?? null,
    wake() {
      wakeAll();
      cloud?.sync.request();
    },
    relayState: () => delivery.relayState(),
    ...(system.streamed && { streamed: system.streamed }),
    ...(system.dropped && { dropped: system.dropped }),
    mailLimitBytes: () => mails.limitBytes,
    mailBytes: (draft) => mails.bytesOf(draft),
    linkState: () => linkView(cloud, gateway),
    outcomes: () => writer.outcomes,
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
    gateway.start();
    cloud?.start(wake);
    const isOffline = () => delivery.relayState().state === 'failing' || cloud?.link.isOnline === false;
    const network = system.watchNetwork?.(() => {
      log.debug('network changed');
      wakeAll();
    }, isOffline);
    const { queued, deferred, held } = store.counts();
    const listen = listeners.addresses.map(addressOf).join(',');
    log.info('started', { version, listen, queued, deferred, held: held || undefined });
    return {
      addresses: listeners.addresses,
      status: () => statusLine(doing(store, delivery, linkView(cloud, gateway), settingsFault())),
      async reload(next) {
        const { values, renewsDelivery, taken, waiting } = changesBetween(live, next);
        Object.assign(live, values);
        if (renewsDelivery) {
          await delivery.stop();
          delivery = createDelivery(live, system, store, writer, mails);
          delivery.start();
          gateway.reloaded();
        }
        return { taken, waiting };
      },
      stop: (next) =>
        inOrder(log.error, [
          async () => log.info('stopping'),
          async () => network?.close(),
          // A listener is closed once its last connection is; ending those is the api's part.
          async () => void (await Promise.all([listeners.close(), api.stop(STOP_REQUESTS_MS)])),
          async () => void (await Promise.all([delivery.stop(), gateway.stop()])),
          () => writer.stop(),
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

/** Delivery of what is in `store`, through the relays of the configuration. */
export function createDelivery(
  config: Config,
  system: System,
  store: Store,
  writer: OutcomeWriter,
  mails = new Mails(config, () => senderOf(config, system.hostname()), store, system),
): Delivery {
  const { clock, connect } = system;
  const session = {
    password: config.relayPassword,
    ca: config.relayCa,
    timeoutMs: config.smtpTimeoutMs,
    clock,
    connect,
  };
  return new Delivery({
    store,
    writer,
    config,
    ...system,
    open: async (relay) => {
      // Loaded with the first connection: a daemon that waits for a link need not carry TLS about.
      const open = system.openSession ?? (await import('./delivery/smtp-session.js')).openSession;
      const opened = await open({ relay, ...session, helo: heloNameOf(config, system.hostname()) });
      mails.heard(relay, opened.sizeLimit);
      return opened;
    },
    render: (...mail) => mails.parcel(...mail),
    sender: () => senderOf(config, system.hostname()),
  });
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
    relay: delivery.relayState(),
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
