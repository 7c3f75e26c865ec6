/**
 * The composition root of the reference cloud (`fieldpost cloud`, and within `fieldpost dev`): builds everything,
 * starts it in order and stops it in reverse. Its files are in `cloud/` below the state directory:
 *
 *   documents/<device id>.json   the destinations documents
 *   keys.json                    the digests of the keys that the operator made by a call
 *   presence.json                the presence of the devices, and the news that people have not been told yet
 *   relay-token.json             the refresh token that followed the one of the settings
 *   outbox/                      the store of messages to people, and the lock of the directory
 *
 * Used by main.ts.
 */
import { dirname, join } from 'node:path';
import { changesBetween } from '../config/changes.js';
import { addressOf } from '../config/endpoints.js';
import type { Config, ListenConfig } from '../config.js';
import { inOrder } from '../daemon/in-order.js';
import { tokenSources } from '../daemon/relay-tokens.js';
import { storeOptions } from '../daemon/store-options.js';
import type { System } from '../daemon/system.js';
import type { Daemon } from '../daemon.js';
import { Delivery } from '../delivery/delivery.js';
import { createHttp, type Http } from '../http/http.js';
import { RefusedTotals } from '../http/problem.js';
import { CLOUD_KEYS_AGE_MS, CLOUD_KEYS_MAX, STOP_REQUESTS_MS } from '../limits.js';
import type { SendShort } from '../message/short.js';
import { syncAbove } from '../store/disk-error.js';
import { openStore } from '../store/journaled-store.js';
import type { Store } from '../store/store.js';
import { openListeners } from '../system/listen.js';
import { type CheckKey, createKeyCheck, OPERATOR } from './access.js';
import type { CloudParts } from './calls.js';
import { Devices } from './devices.js';
import { Documents } from './documents.js';
import { FileKeys } from './keys.js';
import { Outbox } from './outbox.js';
import { CLOUD_ROUTES } from './routes.js';
import { Watch } from './watch.js';
import { createWebhook } from './webhook.js';

/** Heartbeats within a delay: two of them can be lost before people are told. */
const HEARTBEATS_PER_DELAY = 3;

/** A running cloud. */
export interface Cloud {
  /** The addresses it listens on; port 0 is replaced by the assigned port. */
  readonly addresses: readonly ListenConfig[];
  /** Follows the keys and the log level of a new configuration. */
  readonly reload: Daemon['reload'];
  /** Ends requests under way, within STOP_REQUESTS_MS. Resolves when everything is on the disk. */
  stop(): Promise<void>;
}

/**
 * Starts the cloud. Resolves when it answers devices. Rejects with FieldpostError (`already-running`, `unavailable`) or
 * the disk's error, with nothing left running. `shortWay` sends SMS, phone and push messages in place of the webhook.
 */
export async function createCloud(config: Config, system: System, shortWay?: SendShort): Promise<Cloud> {
  const store = await openStore({
    ...storeOptions(config, system),
    directory: join(directoryOf(config), 'outbox'),
    keyAgeMs: CLOUD_KEYS_AGE_MS,
    keysMax: CLOUD_KEYS_MAX,
    // After a power cut no person must get a notification twice.
    outcomes: 'synced',
  });
  try {
    return await start(await build(config, system, store, shortWay));
  } catch (error) {
    await store.close();
    throw error;
  }
}

/** The check of the present keys. A reload replaces it. */
interface Access {
  check: CheckKey;
}

/** All parts, built but not started. */
interface Parts {
  readonly config: Config;
  readonly system: System;
  readonly store: Store;
  readonly webhook: Awaited<ReturnType<typeof openWebhook>>;
  readonly delivery: Delivery;
  readonly watch: Watch;
  readonly keys: FileKeys;
  readonly access: Access;
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
  // Without a webhook no message is accepted. Messages accepted earlier expire.
  const short = send === undefined ? null : { send, isOnline: () => true };
  const openTokens = tokenSources(system, directory);
  const delivery = new Delivery({ store, config, ...system, openTokens, short, recordsEach: true });
  const nudge = () => delivery.nudge();
  const ways = { takesMail: config.relays.length > 0, takesShort: short !== null };
  const outbox = new Outbox({ store, documents, nudge, timeZone, ...ways, log });
  const watch = await Watch.open({
    ...{ disk, directory, clock, log, randomBytes },
    delays: { delayMs, stopDelayMs: config.cloudServerStopDelayMs },
    tell: (id, news) => outbox.tell(id, news),
  });
  const keys = await FileKeys.open({ disk, directory, randomBytes, log });
  const devices = new Devices({ watch, documents, keys, clock, log });
  const access = { check: createKeyCheck(config.cloudServerKeys, keys) };
  const heartbeatMs = Math.floor(delayMs / HEARTBEATS_PER_DELAY);
  const maxDocumentBytes = config.maxBodyBytes;
  const hasKeys = config.cloudServerKeys !== null;
  const calls = {
    ...{ documents, watch, devices, outbox, clock, heartbeatMs, maxDocumentBytes, hasKeys, store },
    minFreeBytes: config.minFreeBytes,
    outcomes: () => delivery.outcomes,
    version: system.version,
    refused: new RefusedTotals(),
    totals: { heartbeats: 0 },
  };
  const http = createCloudHttp(calls, access, system);
  return { config, system, store, webhook, delivery, watch, keys, access, http };
}

async function start(parts: Parts): Promise<Cloud> {
  const { config, system, store, webhook, delivery, watch, keys, access, http } = parts;
  const { log } = system;
  const open = system.openListeners ?? openListeners;
  const listeners = await open(
    config.cloudServerListen,
    ({ kind }) => http.makeServer(kind),
    [],
    'FIELDPOST_CLOUD_SERVER_LISTEN',
  );
  delivery.start();
  watch.start();
  const { cloudServerKeys: ofFile } = config;
  const known = ofFile && new Set([...ofFile.keys(), ...keys.ids].filter((name) => name !== OPERATOR)).size;
  log.info('cloud ready', { listen: listeners.addresses.map(addressOf).join(','), devices: known });
  let held = config;
  return {
    addresses: listeners.addresses,
    async reload(next) {
      // The first keys, and the removal of all, change who can call at all: that needs a restart.
      const keysFollow = (held.cloudServerKeys === null) === (next.cloudServerKeys === null);
      const { values, taken, waiting } = changesBetween(held, next, (member) =>
        member === 'logLevel' || (member === 'cloudServerKeys' && keysFollow) ? 'live' : 'restart',
      );
      held = { ...held, ...values };
      access.check = createKeyCheck(held.cloudServerKeys, keys);
      return { taken, waiting };
    },
    stop: () =>
      inOrder(log.error, [
        async () => log.info('cloud stopping'),
        async () => void (await Promise.all([listeners.close(), http.stop(STOP_REQUESTS_MS)])),
        () => watch.stop(),
        () => keys.stop(),
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

/** Null without a webhook; then its modules are not loaded. */
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

/** Syncs the directories above: without their names the files in them are lost. */
async function keepNames(disk: System['disk'], directory: string, stateDir: string): Promise<void> {
  await disk.syncDirectory(directory);
  await disk.syncDirectory(stateDir);
  await syncAbove(disk, dirname(stateDir));
}

function createCloudHttp(parts: CloudParts, access: Access, system: System) {
  return createHttp({
    ...system,
    routes: CLOUD_ROUTES,
    guard: (exchange, route) => {
      if (route?.for === 'device') access.check(exchange, exchange.id);
      if (route?.for === 'operator') access.check(exchange, null);
    },
    handle: (route, exchange) => route.handle(exchange, parts),
    refused: (_exchange, code) => parts.refused.count(code),
  });
}
