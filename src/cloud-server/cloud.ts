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
import { senderOf } from '../config/names.js';
import type { Config, ListenConfig } from '../config.js';
import { inOrder } from '../daemon/in-order.js';
import type { System } from '../daemon/system.js';
import type { Daemon } from '../daemon.js';
import { Delivery } from '../delivery/delivery.js';
import { createHttp } from '../http/http.js';
import { CLOUD_KEYS_AGE_MS, CLOUD_KEYS_MAX, STOP_REQUESTS_MS } from '../limits.js';
import type { SendShort } from '../message/short.js';
import { syncAbove } from '../store/disk-error.js';
import { openStore } from '../store/journaled-store.js';
import { openListeners } from '../system/listen.js';
import { storeMemory } from '../system/memory.js';
import { type Access, OPERATOR, openAccess } from './access.js';
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
  const { clock, log, disk } = system;
  const { cloudServerKeys: keys, cloudServerTimeZone: timeZone, cloudServerDelayMs: delayMs } = config;
  const directory = join(config.stateDir, 'cloud');
  const store = await openStore({
    ...system,
    directory: join(directory, 'outbox'),
    historyMax: config.history,
    keepFailedMs: config.keepFailedMs,
    budget: config,
    sender: () => senderOf(config, system.hostname()),
    memoryBytesMax: storeMemory(system.memoryBytes ?? Number.POSITIVE_INFINITY),
    keyAgeMs: CLOUD_KEYS_AGE_MS,
    keysMax: CLOUD_KEYS_MAX,
    // A notification is for a person's eyes: after a power cut it must not go out again.
    outcomes: 'synced',
  });
  try {
    const documents = await Documents.open(disk, join(directory, 'documents'), log);
    await keepNames(disk, directory, config.stateDir);
    const webhook = shortWay ? null : await openWebhook(config, system);
    const send = shortWay ?? webhook?.send;
    // Without a way out nothing is taken; what was taken when there was one grows old, and that is told.
    const short = send === undefined ? null : { send, isOnline: () => true };
    const delivery = new Delivery({ store, config, ...system, short });
    const nudge = () => delivery.nudge();
    const ways = { takesMail: config.relays.length > 0, takesShort: send !== undefined };
    const outbox = new Outbox({ store, documents, nudge, timeZone, ...ways, log });
    const watch = await Watch.open({
      disk,
      directory,
      clock,
      log,
      delays: { delayMs, stopDelayMs: config.cloudServerStopDelayMs },
      randomBytes: system.randomBytes,
      tell: (id, news) => outbox.tell(id, news),
    });
    const devices = new Devices({ watch, documents, log });
    const access = openAccess(keys);
    const heartbeatMs = Math.floor(delayMs / HEARTBEATS_PER_DELAY);
    const parts = {
      documents,
      watch,
      devices,
      outbox,
      clock,
      heartbeatMs,
      maxDocumentBytes: config.maxBodyBytes,
    };
    const http = createCloudHttp(parts, access, system);
    const listeners = await (system.openListeners ?? openListeners)(config.cloudServerListen, ({ kind }) =>
      http.makeServer(kind),
    );
    delivery.start();
    watch.start();
    const known = keys && [...keys.keys()].filter((name) => name !== OPERATOR).length;
    log.info('cloud ready', { listen: listeners.addresses.map(addressOf).join(','), devices: known });
    let held = config;
    return {
      addresses: listeners.addresses,
      async reload(next) {
        // With the first keys and without the last others may call: that is settled when the listeners are opened.
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
  } catch (error) {
    await store.close();
    throw error;
  }
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

function createCloudHttp(parts: CloudParts, { check }: Access, system: System) {
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
