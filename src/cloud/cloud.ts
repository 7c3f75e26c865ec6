/**
 * The composition root of the reference cloud (`fieldpost-cloud serve`, and within `fieldpost dev`): builds everything,
 * starts it in order and stops it in reverse. Its files are in `cloud/` below the state directory:
 *
 *   documents/<device id>.json   the destinations documents
 *   keys.json, keys.json.1       the digests of the keys that the operator made by a call, twice
 *   presence.json                the presence of the devices, and the news that people have not been told yet
 *   outages/                     the log of outages, and of who was told
 *   relay-token.json             the refresh token that followed the one of the settings
 *   outbox/                      the store of messages to people, and the lock of the directory
 */
import { join } from 'node:path';
import { addressOf } from '../base/config/endpoints.js';
import type { ListenConfig } from '../base/config/types.js';
import { FieldpostError } from '../base/errors.js';
import { createHttp } from '../base/http/http.js';
import { RefusedTotals } from '../base/http/problem.js';
import { STOP_REQUESTS_MS } from '../base/limits.js';
import { openListeners } from '../base/system/listen.js';
import { createLog, type LogFields } from '../base/system/log.js';
import { oneLine } from '../base/text.js';
import { Delivery } from '../mail/delivery/delivery.js';
import { inOrder, type Reloaded, type System, storeOptions, tokenSources } from '../mail/engine.js';
import type { Draft, SendShort } from '../mail/message/message.js';
import { senderOf } from '../mail/names.js';
import { type KeyedContent, openStore, type Store } from '../mail/store/store.js';
import type { CloudParts } from './calls.js';
import { CLOUD_DEVICES_MAX, Devices, FLEET_DEVICES_MAX } from './devices.js';
import { People } from './document.js';
import { createEtcd } from './etcd/client.js';
import type { Etcd } from './etcd/etcd.js';
import { openEtcdFleet } from './etcd/fleet.js';
import { type FileFleetOptions, openFileFleet } from './files/fleet.js';
import type { FleetStore } from './fleet-store.js';
import { createKeyCheck, namesDevice } from './keys.js';
import { Mails } from './mails.js';
import { NO_MARKS, quietAt } from './marks.js';
import { statusLine } from './operator.js';
import { OutageLog } from './outages.js';
import { AcceptedMessages, CLOUD_KEYS_AGE_MS, CLOUD_KEYS_MAX, Outbox } from './outbox.js';
import { CLOUD_ROUTES } from './routes.js';
import { CLOUD_SETTINGS, type CloudConfig } from './settings.js';
import { Teller } from './telling.js';
import { byContent, createWebhook, isForHook } from './webhook.js';
import { Weekly } from './weekly.js';

/** A running cloud. */
export interface Cloud {
  /** The addresses it listens on; port 0 is replaced by the assigned port. */
  readonly addresses: readonly ListenConfig[];
  /** The line of `systemctl status`. */
  status(): Promise<string>;
  /** Follows the keys and the log level of a new configuration. */
  reload(next: CloudConfig): Promise<Reloaded>;
  /** Ends requests under way, within STOP_REQUESTS_MS. Resolves when everything is on the disk. */
  stop(): Promise<void>;
}

/**
 * Starts the cloud. Resolves when it answers devices. Rejects with FieldpostError (`already-running`, `unavailable`) or
 * the disk's error, with nothing left running. `shortWay` sends SMS, phone and push messages in place of the webhook; `etcd` is
 * asked in place of that of the settings.
 */
export async function createCloud(
  config: CloudConfig,
  outside: System,
  shortWay?: SendShort,
  etcd?: Etcd,
): Promise<Cloud> {
  const { system, faults } = keepingFaults(outside);
  const store = await openStore({
    ...storeOptions(config, system),
    directory: join(directoryOf(config), 'outbox'),
    keyAgeMs: CLOUD_KEYS_AGE_MS,
    keysMax: CLOUD_KEYS_MAX,
    // After a power cut no person must get a notification twice.
    outcomes: 'synced',
  });
  let parts: Parts | null = null;
  try {
    parts = await build(config, system, { store, faults }, { shortWay, etcd });
    return await start(parts);
  } catch (error) {
    // It follows etcd already.
    await parts?.fleet.stop().catch(() => undefined);
    await store.close();
    throw error;
  }
}

/** A person on call is shown so many warnings and errors. */
export const FAULTS_MAX = 10;
const FAULT_CHARS_MAX = 500;

/** The same outside; `faults` are the last warnings and errors of its log. */
function keepingFaults(system: System): { readonly system: System; readonly faults: readonly string[] } {
  const faults: string[] = [];
  const { log, clock } = system;
  const kept = createLog({
    ...{ level: 'warn', priorities: false, wallMs: () => clock.wallMs() },
    write(line) {
      if (faults.push(oneLine(line, FAULT_CHARS_MAX)) > FAULTS_MAX) faults.shift();
    },
  });
  const both = (level: 'warn' | 'error') => (event: string, fields?: LogFields) => {
    kept[level](event, fields);
    log[level](event, fields);
  };
  return { system: { ...system, log: { ...log, warn: both('warn'), error: both('error') } }, faults };
}

/** The present keys file and the check of keys. A reload replaces both. */
type Access = ReturnType<typeof accessWith>;

/** All parts, built but not started. */
type Parts = Awaited<ReturnType<typeof build>>;

/** Builds each part from those before it. */
async function build(
  config: CloudConfig,
  system: System,
  { store, faults }: { store: Store; faults: readonly string[] },
  { shortWay, etcd }: { shortWay: SendShort | undefined; etcd: Etcd | undefined },
) {
  const { clock, log } = system;
  const webhook = await openWebhooks(config, system, shortWay);
  // Without a webhook no message is accepted. Messages accepted earlier expire.
  const short = webhook === null ? null : { send: webhook.send, isOnline: () => true, isApart: isForHook };
  const openTokens = tokenSources(system, directoryOf(config));
  const delivery = new Delivery({ store, config, ...system, openTokens, short, recordsEach: true });
  const ways = {
    takesMail: config.relays.length > 0,
    takesShort: shortWay !== undefined || config.cloudServerWebhook !== null,
    takesHook: config.cloudServerHook !== null,
  };
  const texts = { timeZone: config.cloudServerTimeZone, publicUrl: config.cloudServerPublicUrl };
  const accepted = new AcceptedMessages({
    store,
    maxQueue: config.maxQueue,
    nudge: () => delivery.nudge(),
    ...ways,
  });
  const people = new People();
  const fleet: FleetStore = await openFleet(config, system, {
    people,
    accept: (...message) => accepted.accept(...message),
    tell: (news, isLast) => teller.tell(news, isLast),
    etcd,
  });
  const { documents, watch, keys } = fleet;
  const toPeople = storeOfTeller(fleet, store, accepted);
  const outages = new OutageLog({ ...system, directory: join(directoryOf(config), 'outages') });
  const teller: Teller = new Teller({
    ...{ store: toPeople, documents, people, texts, ...ways, clock, log, outages },
    quietUntilMs: (id) => quietAt(watch.sighting(id)?.marks ?? NO_MARKS, clock.wallMs())?.untilMs ?? null,
  });
  const weekly = new Weekly({ ...fleet, clock, log, store: toPeople, texts, ...ways });
  const { takeMessage } = fleet;
  const outbox = new Outbox({ takeMessage, ...ways, hourlyLimit: config.cloudServerHourlyLimit, clock, log });
  const mails = new Mails({
    ...{ store, accepted, taken: fleet.taken, clock, log, dailyLimit: config.cloudServerMails },
    sender: () => senderOf(config, system.hostname),
    limitBytes: () => delivery.rendering.limitBytes,
    nameOf: (id) => documents.about(id)?.name ?? id,
  });
  const devicesMax = config.cloudServerStore === null ? CLOUD_DEVICES_MAX : FLEET_DEVICES_MAX;
  const access = accessWith(config, keys);
  const keysFile = () => access.keysFile;
  const devices = new Devices({ watch, documents, keys, keysFile, clock, log, devicesMax });
  const counts = { refused: new RefusedTotals(), totals: { heartbeats: 0 } };
  const told = { people, faults, startedMs: clock.bootMs(), ...counts };
  const parts = { config, system, store, fleet, delivery, accepted, devices };
  const calls = { ...parts, ways, outbox, mails, outages, ...told };
  return { ...calls, weekly, webhook, access, http: createCloudHttp(calls, access, system) };
}

/** The outbox for news of devices. It takes none while another instance tells people, who would hear them twice. */
function storeOfTeller(fleet: FleetStore, store: Store, accepted: AcceptedMessages) {
  return {
    accept(draft: Draft, keyed: KeyedContent) {
      if (!fleet.office.isLeader)
        throw new FieldpostError('unavailable', 'another instance tells people now');
      return accepted.accept(draft, keyed);
    },
    recall: (key: string) => store.recall(key),
    mayTakeMore: () => fleet.office.isLeader && accepted.mayTakeMore,
    isBusy: (type: Draft['type']) => accepted.isBusy(type),
  };
}

function accessWith({ cloudServerKeys }: CloudConfig, made: FleetStore['keys']) {
  return { keysFile: cloudServerKeys, check: createKeyCheck(cloudServerKeys, made) };
}

/** What a store of the fleet hands over to this instance. */
type Handing = Pick<FileFleetOptions, 'people' | 'accept' | 'tell'> & { readonly etcd: Etcd | undefined };

/** Opens the store that the settings name. */
async function openFleet(config: CloudConfig, system: System, handing: Handing): Promise<FleetStore> {
  const delays = { delayMs: config.cloudServerDelayMs, stopDelayMs: config.cloudServerStopDelayMs };
  if (config.cloudServerStore === null) {
    return await openFileFleet({ ...system, ...handing, directory: directoryOf(config), delays });
  }
  return await openEtcdFleet({
    ...system,
    ...handing,
    delays,
    etcd: handing.etcd ?? (await connectEtcd(config, system)),
    hostname: system.hostname(),
  });
}

/** A client of the etcd of the settings. It connects with the first request. */
export async function connectEtcd(
  config: CloudConfig,
  system: Pick<System, 'clock' | 'connect' | 'openHttps'>,
): Promise<Etcd> {
  const { cloudServerStore, cloudServerStoreCert: cert, cloudServerStoreKey: key } = config;
  const { cloudServerStoreUser: name, cloudServerStorePassword: password } = config;
  const { clock, connect } = system;
  const openHttps = system.openHttps ?? (await import('../base/system/https.js')).openHttps;
  const clientCertificate = cert !== null && key !== null ? { cert, key } : null;
  return createEtcd({
    endpoints: cloudServerStore ?? [],
    https: openHttps({ ca: config.cloudServerStoreCa, clientCertificate, clock, connect }),
    user: name !== null && password !== null ? { name, password } : null,
    prefix: config.cloudServerStorePrefix,
    clock,
  });
}

async function start(parts: Parts): Promise<Cloud> {
  const { config, system, store, webhook, delivery, fleet, weekly, access, http } = parts;
  const { log } = system;
  const open = system.openListeners ?? openListeners;
  const listeners = await open(
    config.cloudServerListen,
    ({ kind }) => http.makeServer(kind),
    [],
    'FIELDPOST_CLOUD_SERVER_LISTEN',
    system,
  );
  delivery.start();
  await fleet.start();
  weekly.start();
  const { keys } = fleet;
  const { cloudServerKeys: ofFile } = config;
  const known = ofFile && new Set([...ofFile.keys(), ...keys.ids].filter(namesDevice)).size;
  log.info('cloud ready', { listen: listeners.addresses.map(addressOf).join(','), devices: known });
  let held = config;
  return {
    addresses: listeners.addresses,
    status: () => statusLine(parts),
    async reload(next) {
      // The first keys, and the removal of all, change who can call at all: that needs a restart.
      const keysFollow = (held.cloudServerKeys === null) === (next.cloudServerKeys === null);
      const { values, taken, waiting } = CLOUD_SETTINGS.changes(held, next, (member) =>
        member === 'logLevel' || (member === 'cloudServerKeys' && keysFollow) ? 'live' : 'restart',
      );
      held = { ...held, ...values };
      Object.assign(access, accessWith(held, keys));
      return { taken, waiting };
    },
    stop: () =>
      inOrder(log.error, [
        async () => log.info('cloud stopping'),
        async () => void (await Promise.all([listeners.close(), http.stop(STOP_REQUESTS_MS)])),
        () => weekly.stop(),
        () => fleet.stop(),
        () => delivery.stop(),
        async () => webhook?.close(),
        () => store.close(),
        async () => log.info('cloud stopped'),
      ]),
  };
}

/** Where the files of the cloud are. */
export function directoryOf({ stateDir }: Pick<CloudConfig, 'stateDir'>): string {
  return join(stateDir, 'cloud');
}

/** Where messages that are no mails go, with `shortWay` in place of the webhook; null: nowhere. */
async function openWebhooks(config: CloudConfig, { clock, connect }: System, shortWay?: SendShort) {
  const { cloudServerWebhook: url, cloudServerHook: hookUrl } = config;
  const ofWebhook = shortWay === undefined ? url : null;
  if (ofWebhook === null && hookUrl === null)
    return shortWay === undefined ? null : { send: shortWay, close: () => undefined };
  const { openHttps } = await import('../base/system/https.js');
  const https = openHttps({ ca: null, clientCertificate: null, clock, connect });
  const post = (to: string | null, authorization: string | null) =>
    to === null ? null : createWebhook({ url: to, authorization, send: https.send, clock });
  const webhook = shortWay ?? post(ofWebhook, config.cloudServerWebhookAuth);
  return { send: byContent(webhook, post(hookUrl, config.cloudServerHookAuth)), close: () => https.close() };
}

function createCloudHttp(parts: CloudParts, access: Access, system: System) {
  return createHttp({
    ...system,
    routes: CLOUD_ROUTES,
    logWrong: (fields) => system.log.warn('wrong keys', fields),
    guard: (exchange, route) => {
      if (route?.for === 'device') access.check(exchange, exchange.id);
      if (route?.for === 'operator') access.check(exchange, null);
    },
    handle: (route, exchange) => route.handle(exchange, parts),
    refused: (_exchange, code) => parts.refused.count(code),
  });
}
