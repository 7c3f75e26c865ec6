/**
 * The composition root of the reference cloud (`fieldpost cloud`, and within `fieldpost dev`): builds everything,
 * starts it in order and stops it in reverse. Below the state directory it keeps all it has in `cloud/`:
 *
 *   documents/<device id>.json   the destinations documents
 *   presence.json                what is known of the devices, and what people are still to be told
 *   outbox/                      the store of what is on its way to people, and the lock of all this
 */
import { dirname, join } from 'node:path';
import { changesBetween } from '../config/changes.js';
import { addressOf } from '../config/endpoints.js';
import type { Config, ListenConfig } from '../config.js';
import { inOrder } from '../daemon/in-order.js';
import { storeOptions } from '../daemon/store-options.js';
import type { System } from '../daemon/system.js';
import type { Daemon } from '../daemon.js';
import { Delivery } from '../delivery/delivery.js';
import { createHttp, type Http } from '../http/http.js';
import { CLOUD_KEYS_AGE_MS, CLOUD_KEYS_MAX, STOP_REQUESTS_MS } from '../limits.js';
import type { SendShort } from '../message/short.js';
import { syncAbove } from '../store/disk-error.js';
import { openStore } from '../store/journaled-store.js';
import type { Store } from '../store/store.js';
import { openListeners } from '../system/listen.js';
import { type KeyAccess, OPERATOR, openAccess } from './access.js';
import { CLOUD_ROUTES, type CloudParts } from './calls.js';
import { Devices } from './devices.js';
import { Documents } from './documents.js';
import { Outbox } from './outbox.js';
import { Watch } from './watch.js';
import { createWebhook } from './webhook.js';

/** Devices are to report so often within their delay: two reports may be lost without anybody being alarmed. */
const HEARTBEATS_PER_DELAY = 3;

/** A cloud that runs. */
export interface Cloud {
  /** Where it listens; port 0 has become the port that was found. */
  readonly addresses: readonly ListenConfig[];
  /** Follows the keys of a new configuration; gives the settings that are followed, and those that wait for a restart. */
  readonly reload: Daemon['reload'];
  /** Finishes what is under way, within bounds, and resolves when everything is on the disk. */
  stop(): Promise<void>;
}

/**
 * Starts the cloud. Resolves when devices are answered; rejects with FieldpostError (`already-running`,
 * `unavailable`) or what the disk says, with nothing left running. `shortWay` takes SMS, phone and push messages in
 * place of the webhook of the configuration.
 */
export async function createCloud(config: Config, system: System, shortWay?: SendShort): Promise<Cloud> {
  const store = await openStore({
    ...storeOptions(config, system),
    directory: join(directoryOf(config), 'outbox'),
    keyAgeMs: CLOUD_KEYS_AGE_MS,
    keysMax: CLOUD_KEYS_MAX,
    // A person reads notifications: after a power cut none must go out again.
    outcomes: 'synced',
  });
  try {
    return await start(await build(config, system, store, shortWay));
  } catch (error) {
    await store.close();
    throw error;
  }
}

/** Everything that is built; nothing of it runs yet. */
interface Parts {
  readonly config: Config;
  readonly system: System;
  readonly store: Store;
  readonly webhook: Awaited<ReturnType<typeof openWebhook>>;
  readonly delivery: Delivery;
  readonly watch: Watch;
  readonly access: KeyAccess;
  readonly http: Http;
}

/** Builds each part from those before it. */
async function build(config: Config, system: System, store: Store, shortWay?: SendShort): Promise<Parts> {
  const { clock, log, disk, randomBytes } = system;
  const { cloudServerTimeZone: timeZone, cloudServerDelayMs: delayMs } = config;
  const directory = directoryOf(config);
  const documents = await Documents.open(disk, join(directory, 'documents'), log);
  await keepNames(disk, directory, config.stateDir);
  const webhook = shortWay ? null : await openWebhook(config, system);
  const send = shortWay ?? webhook?.send;
  // Without a way out no message is taken; those taken when there was one grow old, and people are told so.
  const short = send === undefined ? null : { send, isOnline: () => true };
  const delivery = new Delivery({ store, config, ...system, short });
  const nudge = () => delivery.nudge();
  const ways = { takesMail: config.relays.length > 0, takesShort: short !== null };
  const outbox = new Outbox({ store, documents, nudge, timeZone, ...ways, log });
  const watch = await Watch.open({
    ...{ disk, directory, clock, log, randomBytes },
    delays: { delayMs, stopDelayMs: config.cloudServerStopDelayMs },
    tell: (id, news) => outbox.tell(id, news),
  });
  const devices = new Devices({ watch, documents, log });
  const access = openAccess(config.cloudServerKeys);
  const heartbeatMs = Math.floor(delayMs / HEARTBEATS_PER_DELAY);
  const maxDocumentBytes = config.maxBodyBytes;
  const calls = { documents, watch, devices, outbox, clock, heartbeatMs, maxDocumentBytes };
  const http = createCloudHttp(calls, access, system);
  return { config, system, store, webhook, delivery, watch, access, http };
}

/** Starts all in order. */
async function start(parts: Parts): Promise<Cloud> {
  const { config, system, store, webhook, delivery, watch, access, http } = parts;
  const { log } = system;
  const open = system.openListeners ?? openListeners;
  const listeners = await open(config.cloudServerListen, ({ kind }) => http.makeServer(kind));
  delivery.start();
  watch.start();
  const { cloudServerKeys: keys } = config;
  const known = keys && [...keys.keys()].filter((name) => name !== OPERATOR).length;
  log.info('cloud ready', { listen: listeners.addresses.map(addressOf).join(','), devices: known });
  let held = config;
  return {
    addresses: listeners.addresses,
    async reload(next) {
      // The first keys, and the end of the last, change who else may call: that is decided where it listens.
      const keysFollow = (held.cloudServerKeys === null) === (next.cloudServerKeys === null);
      const { values, taken, waiting } = changesBetween(held, next, (member) =>
        member === 'logLevel' || (member === 'cloudServerKeys' && keysFollow) ? 'live' : 'restart',
      );
      held = { ...held, ...values };
      access.change(held.cloudServerKeys);
      return { taken, waiting };
    },
    stop: () =>
      inOrder(log.error, [
        async () => log.info('cloud stopping'),
        async () => void (await Promise.all([listeners.close(), http.stop(STOP_REQUESTS_MS)])),
        () => watch.stop(),
        () => delivery.stop(),
        async () => webhook?.close(),
        () => store.close(),
        async () => log.info('cloud stopped'),
      ]),
  };
}

function directoryOf({ stateDir }: Config): string {
  return join(stateDir, 'cloud');
}

/** Null where none is configured; then nothing of it is loaded either. */
async function openWebhook(
  { cloudServerWebhook: url, cloudServerWebhookAuth: webhookAuth }: Config,
  { clock, connect }: System,
) {
  if (url === null) return null;
  const { openHttps } = await import('../system/https.js');
  const https = openHttps({ ca: null, clientCertificate: null, clock, connect });
  return {
    send: createWebhook({ url, authorization: webhookAuth, send: https.send, clock }),
    close: () => https.close(),
  };
}

/** What lies in a directory lasts only if its own name, and those above it, do. */
async function keepNames(disk: System['disk'], directory: string, stateDir: string): Promise<void> {
  await disk.syncDirectory(directory);
  await disk.syncDirectory(stateDir);
  await syncAbove(disk, dirname(stateDir));
}

function createCloudHttp(parts: CloudParts, { check }: KeyAccess, system: System) {
  return createHttp({
    ...system,
    routes: CLOUD_ROUTES,
    guard: (exchange, route) => {
      if (route?.for === 'device') check(exchange, exchange.id);
      if (route?.for === 'operator') check(exchange, null);
    },
    handle: (route, exchange) => route.handle(exchange, parts),
  });
}
