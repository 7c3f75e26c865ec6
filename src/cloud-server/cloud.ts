/**
 * The composition root of the reference cloud (`fieldpost cloud`, and within `fieldpost dev`): builds everything,
 * starts it in order and stops it in reverse. Below the state directory it keeps all it has in `cloud/`:
 *
 *   documents/<device id>.json   the destinations documents
 *   presence.json                what is known of the devices, and what people are still to be told
 *   outbox/                      the store of what is on its way to people, and the lock of all this
 */
import { dirname, join } from 'node:path';
import { createHttp } from '../api/http.js';
import type { Config, ListenConfig } from '../config.js';
import { createDelivery, inOrder, nameOf, type System } from '../daemon.js';
import { systemCodeOf } from '../errors.js';
import { CLOUD_KEYS_AGE_MS, KEYS_HELD_MAX, STOP_REQUESTS_MS } from '../limits.js';
import { openStore } from '../store/journaled-store.js';
import { openListeners } from '../system/listen.js';
import { createKeyCheck } from './access.js';
import { CLOUD_ROUTES, type CloudParts } from './calls.js';
import { Documents } from './documents.js';
import { Post } from './post.js';
import { Watch } from './watch.js';

/** Devices are to report so often within their delay: two reports may be lost without anybody being alarmed. */
const HEARTBEATS_PER_DELAY = 3;

/** A cloud that runs. */
export interface Cloud {
  /** Where it listens; port 0 has become the port that was found. */
  readonly addresses: readonly ListenConfig[];
  /** Finishes what is under way, within bounds, and resolves when everything is on the disk. */
  stop(): Promise<void>;
}

/**
 * Starts the cloud. Resolves when devices are answered; rejects with FieldpostError (`already-running`,
 * `unavailable`) or what the disk says, with nothing left running.
 */
export async function createCloud(config: Config, system: System): Promise<Cloud> {
  const { clock, log, disk } = system;
  const { listen, keys, timeZone, delayMs } = config.cloudServer;
  const directory = join(config.stateDir, 'cloud');
  const store = await openStore({
    ...system,
    directory: join(directory, 'outbox'),
    historyMax: config.history,
    keepFailedMs: config.keepFailedMs,
    budget: config,
    keys: { ageMs: CLOUD_KEYS_AGE_MS, max: KEYS_HELD_MAX },
  });
  try {
    const delivery = createDelivery(config, system, store);
    const documents = await Documents.open(disk, join(directory, 'documents'), log);
    await keepNames(disk, directory, config.stateDir);
    const post = new Post({ store, documents, nudge: () => delivery.nudge(), timeZone, log });
    const watch = await Watch.open({
      disk,
      directory,
      clock,
      log,
      delays: config.cloudServer,
      isKnown: (id) => keys?.has(id) ?? true,
      tell: (id, happening) => post.tell(id, happening),
    });
    const heartbeatMs = Math.floor(delayMs / HEARTBEATS_PER_DELAY);
    const parts = { documents, watch, post, clock, heartbeatMs, maxDocumentBytes: config.maxBodyBytes };
    const http = createCloudHttp(parts, config, system);
    const listeners = await openListeners(listen, ({ kind }) => http.makeServer(kind));
    delivery.start();
    watch.start();
    log.info('cloud ready', { listen: listeners.addresses.map(nameOf).join(','), devices: keys?.size });
    return {
      addresses: listeners.addresses,
      stop: () =>
        inOrder(log.error, [
          async () => log.info('cloud stopping'),
          async () => void (await Promise.all([listeners.close(), http.stop(STOP_REQUESTS_MS)])),
          () => watch.stop(),
          async () => void (await delivery.stop()),
          () => store.close(),
          async () => log.info('cloud stopped'),
        ]),
    };
  } catch (error) {
    await store.close();
    throw error;
  }
}

/** What lies in a directory lasts only if its own name, and those above it, do. */
async function keepNames(disk: System['disk'], directory: string, stateDir: string): Promise<void> {
  for (const path of [directory, stateDir, dirname(stateDir)]) {
    await disk.syncDirectory(path).catch((error) => {
      // What is above the directory we were given may not be ours to open, and then was there before us.
      if (systemCodeOf(error) !== 'EACCES') throw error;
    });
  }
}

function createCloudHttp(parts: CloudParts, config: Config, { clock, log }: System) {
  const check = createKeyCheck(config.cloudServer.keys);
  return createHttp({
    routes: CLOUD_ROUTES,
    guard: (exchange, route) => {
      if (route?.for === 'device') check(exchange, exchange.id);
      if (route?.for === 'operator') check(exchange, null);
    },
    handle: (route, exchange) => route.handle(exchange, parts),
    clock,
    log,
  });
}
