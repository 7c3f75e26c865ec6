/**
 * The composition root of the daemon: builds everything, starts it in order and stops it in reverse. The cloud's side and
 * the SMTP server are loaded only if the settings have them.
 */
import { addressOf, needsToken } from '../base/config/endpoints.js';
import type { Environment, ListenConfig } from '../base/config/types.js';
import { FieldpostError } from '../base/errors.js';
import type { Http } from '../base/http/http.js';
import { RefusedTotals } from '../base/http/problem.js';
import { STOP_REQUESTS_MS } from '../base/limits.js';
import { type Listeners, openListeners } from '../base/system/listen.js';
import { secureSocket } from '../base/system/tls-door.js';
import { isoOf } from '../base/text.js';
import {
  isRelayDown,
  type LINK_STATES,
  type LinkView,
  type QueueCounts,
  type QuietView,
  type RelayView,
  type SettingsFault,
  type StorageState,
} from '../base/views.js';
import type { ShortWay } from '../mail/delivery/cloud-transport.js';
import { Delivery, type Tell } from '../mail/delivery/delivery.js';
import { inOrder, namesOf, type Reloaded, type System, storeOptions, tokenSources } from '../mail/engine.js';
import type { Address } from '../mail/message/address.js';
import type { BeginMail } from '../mail/message/message.js';
import { heloNameOf, homesOf, isOfThisDevice, mayBeFrom } from '../mail/names.js';
import { openStore, type Store } from '../mail/store/store.js';
import { type Alive, lazyAlive } from './alive.js';
import { type ApiContext, smtpSharerOf } from './api/context.js';
import { createApi } from './api/server.js';
import { AddressBook } from './book/address-book.js';
import { type LazyHistory, lazyHistory } from './history/lazy-history.js';
import type { HeartbeatReport } from './link/client.js';
import type { Link } from './link/link.js';
import type { Sync } from './link/sync.js';
import type { Notices } from './notices.js';
import type { Quiet } from './quiet.js';
import { DEVICE_SETTINGS, type DeviceConfig, exposedAdvice, type LinkConfig } from './settings.js';

/** A running daemon. */
export interface Daemon {
  /** The addresses of the local API; port 0 is replaced by the assigned port. */
  readonly addresses: readonly ListenConfig[];
  /** The same of the SMTP server. */
  readonly smtpAddresses: readonly ListenConfig[];
  status(): string;
  /**
   * Follows a new configuration without a restart, after the message being sent (within bounds). `taken`: the keys that
   * changed. `waiting`: the keys that need a restart.
   */
  reload(next: DeviceConfig): Promise<Reloaded>;
  /**
   * Finishes requests and mails under way, within bounds. Resolves when everything is on the disk. `next`: the settings
   * of the next start, if known. If they name another cloud, the present cloud is told that the device has moved.
   */
  stop(next?: DeviceConfig): Promise<void>;
}

/** The parts that build() makes. */
interface Parts {
  /** A reload changes this object, so every module reads it each time. */
  readonly live: DeviceConfig;
  readonly system: System;
  readonly store: Store;
  readonly cloud: CloudSide | null;
  readonly delivery: Delivery;
  readonly api: Http;
  /** The door for ready-made mails. */
  readonly beginMail: BeginMail;
  /** Where mail to an address goes: that to a user of this device goes to its readers. */
  readonly homesOf: (address: Address) => readonly Address[];
  readonly refused: RefusedTotals;
  readonly history: LazyHistory;
  readonly alive: Alive;
  /** Who writes the mails of the daemon itself; null until a setting asks for it. */
  readonly notices: { by: Notices | null };
  /** Retries relays and cloud at once: the network has changed, or a person wants it. */
  wake(): void;
}

/**
 * Starts the daemon. Resolves when requests are answered. Rejects with FieldpostError (`already-running`, `unavailable`)
 * or an error of the disk, with nothing left running.
 */
export async function createDaemon(config: DeviceConfig, system: System): Promise<Daemon> {
  const live = { ...config };
  const store = await openStore({ ...storeOptions(live, system), directory: live.stateDir });
  try {
    const parts = await build(live, system, store);
    const daemon = await start(parts);
    void parts.history.open();
    return daemon;
  } catch (error) {
    await store.close();
    throw error;
  }
}

/** Builds each part from those before it. */
async function build(live: DeviceConfig, system: System, store: Store): Promise<Parts> {
  const { clock, log } = system;
  const book = new AddressBook(store.book);
  const cloud = live.cloud && (await openCloud(live, live.cloud, system, store, book));
  // Without a cloud, SMS, calls and pushes wait until they expire.
  const openTokens = tokenSources(system, live.stateDir);
  const short = cloud?.short ?? null;
  const notices: Parts['notices'] = { by: null };
  const tell: Tell = (what, id) => notices.by?.tell(what, id);
  const delivery = new Delivery({ store, config: live, ...system, openTokens, short, tell });
  const wake = () => {
    delivery.wake();
    cloud?.link.wake();
  };
  const mailParts = {
    ...addressing(live, system, book),
    store,
    settings: live,
    mailLimitBytes: () => delivery.rendering.limitBytes,
    log,
    nudge(lifeMs?: number) {
      delivery.nudge(lifeMs);
      history.nudge();
    },
    accepted: { total: 0 },
  };
  const refused = new RefusedTotals();
  const link = cloud?.link ?? null;
  const history = lazyHistory({ ...system, ...mailParts, delivery, link, directory: live.stateDir });
  const alive = watchPrograms({ ...system, ...mailParts, book, delivery, directory: live.stateDir }, cloud);
  const api = createApi({
    ...mailParts,
    alive,
    book,
    refused,
    ...system,
    startedBootMs: system.clock.bootMs(),
    edited: () => cloud?.sync.edited(),
    wake() {
      wake();
      cloud?.sync.request();
    },
    syncState: () => cloud?.sync.view() ?? null,
    relayState: () => delivery.relayView(),
    tryRelays: (signal) => delivery.tryRelays(signal),
    linkState: () => linkView(cloud, delivery.waitReason),
    telling: cloud?.telling ?? null,
    mailBytes: (draft) => delivery.rendering.bytesOf(draft),
    outcomes: () => delivery.outcomes,
    history: async (step) => (await history.open()).rows(step),
    clockTrusted: () => clock.trust() !== 'wrong',
    settingsFault: system.settingsFault ?? (() => null),
    peerUid: system.peerUid ?? noUid,
  });
  // Loaded with the first mail over SMTP.
  const beginMail: BeginMail = async (terms) =>
    (await import('./api/mail-door.js')).createMailDoor(mailParts)(terms);
  const made = { live, system, store, cloud, delivery, api, beginMail, homesOf: mailParts.homesOf };
  return { ...made, refused, history, alive, notices, wake };
}

/** Makes the watch over programs that must give signs. */
function watchPrograms(
  options: Omit<Parameters<typeof lazyAlive>[0], 'hasCloud' | 'changed'>,
  cloud: CloudSide | null,
): Alive {
  const changed = () => {
    // Offline, the next heartbeat says it.
    if (cloud?.link.isOnline) void cloud.link.sayNow();
  };
  return lazyAlive({ ...options, hasCloud: cloud !== null, changed });
}

/** What is known of addresses: by the settings, the names of this device and the address book, as they are at each call. */
function addressing(live: DeviceConfig, system: System, book: AddressBook) {
  const { hostname } = system;
  return {
    hostname,
    mayBeFrom: (address: Address) => mayBeFrom(address, live, hostname),
    isOfThisDevice: (address: Address) => isOfThisDevice(address, live, namesOf(system)),
    homesOf: (address: Address) => homesOf(address, live, namesOf(system), () => book.addresses),
  };
}

/** Follows the settings of the mails of the daemon itself. Their part is loaded when the first of them is set. */
async function followNotices({ live, system, store, delivery, notices }: Parts): Promise<void> {
  if (notices.by === null && live.failuresTo === null && live.returnReport === null) return;
  const { Notices } = await import('./notices.js');
  notices.by ??= await Notices.open({ ...system, store, delivery, config: live });
  notices.by.follow();
}

async function start(parts: Parts): Promise<Daemon> {
  const { live, system, store, cloud, delivery, api, history, alive, notices, wake } = parts;
  const { log } = system;
  let isApiOpen = false;
  const smtp = await openSmtp(parts, () => isApiOpen);
  let listeners: Listeners;
  try {
    listeners = await openApi(parts, () => (isApiOpen = true));
  } catch (error) {
    await smtp?.close();
    throw error;
  }
  warnOfHanded(parts, 'listen', listeners.addresses);
  warnOfHanded(parts, 'smtpListen', smtp?.addresses ?? []);
  await followNotices(parts);
  await alive.begin();
  delivery.start();
  cloud?.start(delivery, () => lateReportOf(alive));
  const isOffline = () => isRelayDown(delivery.relayView().state) || cloud?.link.isOnline === false;
  const network = system.watchNetwork?.(() => {
    log.debug('network changed');
    wake();
  }, isOffline);
  logStart(parts, listeners, smtp);
  return {
    addresses: listeners.addresses,
    smtpAddresses: smtp?.addresses ?? [],
    status: () => statusLine(doing(parts)),
    async reload(next) {
      const { values, renewsDelivery, taken, waiting } = DEVICE_SETTINGS.changes(live, next);
      Object.assign(live, values);
      if ('cloudProxy' in values) cloud?.link.wake();
      await followNotices(parts);
      await delivery.reload(renewsDelivery);
      return { taken, waiting };
    },
    stop: (next) =>
      inOrder(log.error, [
        async () => log.info('stopping'),
        async () => network?.close(),
        // A listener closes when its last connection has closed, and the api closes the connections.
        async () => {
          const closed = [listeners.close(), smtp?.close()];
          await Promise.all([...closed, api.stop(STOP_REQUESTS_MS), smtp?.stop(STOP_REQUESTS_MS)]);
        },
        async () => void (await Promise.all([notices.by?.stop(), alive.stop(), delivery.stop()])),
        async () => cloud?.sync.stop(),
        // The goodbye is the last request to the cloud.
        async () => cloud?.link.stop(next && hasMoved(live, next) ? 'moved' : 'stopping'),
        async () => cloud?.quiet.stop(),
        async () => cloud?.close(),
        () => history.close(),
        () => store.close(),
        async () => log.info('stopped'),
      ]),
  };
}

function logStart({ system, store }: Parts, ...doors: readonly (Listeners | null)[]): void {
  const { queued, deferred, held } = store.counts();
  const [listen, smtp] = doors.map((door) => door?.addresses.map(addressOf).join(','));
  const { log, version } = system;
  log.info('started', { version, listen, smtp, queued, deferred, held: held || undefined });
}

/** Listens on the addresses of the settings, and on the sockets that systemd hands over. */
function openApi({ live, system, api }: Parts, openOverTcp: () => void): Promise<Listeners> {
  const open = system.openListeners ?? openListeners;
  const makeServer = (address: ListenConfig) => {
    if (needsToken(address) && live.apiToken === null) throw unguarded(address, '');
    if (address.kind === 'tcp') openOverTcp();
    if (address.kind === 'tcp') return api.makeServer('tcp');
    return api.makeServer(address.sendOnly ? 'send' : 'unix', address.path);
  };
  return open(
    live.listen,
    makeServer,
    system.handed?.filter(({ use }) => use !== 'smtp'),
    'FIELDPOST_LISTEN',
    system,
  );
}

/** Warns of sockets of systemd that need TLS: the check of the settings does not know them. */
function warnOfHanded(
  { live, system }: Parts,
  door: 'listen' | 'smtpListen',
  opened: readonly ListenConfig[],
): void {
  const known = live[door].map(addressOf);
  const handed = opened.filter((one) => !known.includes(addressOf(one)));
  for (const warning of exposedAdvice(door, handed, live)) system.log.warn('configuration', { warning });
}

/** True if the device reports to another cloud, under another name, or to none. */
function hasMoved({ cloud: before }: DeviceConfig, { cloud: next }: DeviceConfig): boolean {
  return before?.url !== next?.url || before?.deviceId !== next?.deviceId;
}

function doing({ system, store, cloud, delivery }: Parts): Doing {
  return {
    queue: store.counts(),
    fullReason: store.room().reason,
    relay: delivery.relayView(),
    link: linkView(cloud, delivery.waitReason) ?? { state: 'disabled', reason: null },
    storage: store.storage(),
    settings: system.settingsFault?.() ?? null,
    quiet: cloud?.quiet.view() ?? null,
  };
}

/** The check of the settings does not know the addresses of systemd's sockets. */
function unguarded(address: ListenConfig, use: '' | ' for SMTP'): FieldpostError {
  const fault =
    address.kind === 'unix'
      ? 'is no address with a port'
      : 'can be reached from other devices: that needs a token';
  const unit = use === '' ? 'fieldpost.socket' : 'fieldpost-smtp.socket';
  return new FieldpostError('bad-config', `${addressOf(address)}, handed over by systemd${use}, ${fault}`, {
    hint: `see FIELDPOST_API_TOKEN_FILE and ${unit}`,
  });
}

/** An SMTP server that listens. */
export interface SmtpSide extends Listeners {
  /** Ends the connections, within bounds. Call `close` before, and wait for it after. */
  stop(withinMs: number): Promise<void>;
}

/** What the SMTP server is made of. */
type SmtpParts = Pick<Parts, 'live' | 'system' | 'beginMail' | 'homesOf' | 'refused'>;

/**
 * Opens the listeners of FIELDPOST_SMTP_LISTEN and of fieldpost-smtp.socket; null without any. Rejects as those do.
 * `isApiOpen`: anybody on this device may do everything over the local API.
 */
export async function openSmtp(
  { live, system, beginMail, homesOf, refused }: SmtpParts,
  isApiOpen: () => boolean,
): Promise<SmtpSide | null> {
  const handed = system.handed?.filter(({ use }) => use === 'smtp') ?? [];
  if (live.smtpListen.length === 0 && handed.length === 0) return null;
  const { createSmtpServer } = await import('../mail/smtp-server/smtp-server.js');
  const { clock, log, streamed, hostname } = system;
  const { apiToken, sendToken } = live;
  const server = createSmtpServer({
    begin: beginMail,
    refused: (code) => refused.count(code),
    name: () => heloNameOf(live, hostname()),
    limitBytes: () => live.maxMessageBytes,
    homesOf,
    // Whoever may send over HTTP may send here, by the same rule.
    tokens: [apiToken, sendToken].filter((token) => token !== null),
    sendTokens: sendToken === null || sendToken === apiToken ? [] : [sendToken],
    strangersOnlySend: () => !isApiOpen(),
    sharerOf: async (ends) =>
      live.maxShare < 100 ? await smtpSharerOf(ends, system.peerUid ?? noUid) : undefined,
    tls: { identity: () => identityOf(live), secure: secureSocket },
    clock,
    log,
    streamed,
    descriptors: system.descriptors,
  });
  const makeServer = (address: ListenConfig) => {
    const isExposed = needsToken(address);
    if (address.kind === 'unix' || (isExposed && apiToken === null)) throw unguarded(address, ' for SMTP');
    return server.makeServer(isExposed);
  };
  const open = system.openListeners ?? openListeners;
  const listeners = await open(live.smtpListen, makeServer, handed, 'FIELDPOST_SMTP_LISTEN', { clock, log });
  return { ...listeners, stop: (withinMs) => server.stop(withinMs) };
}

/** Stands in for a system that does not tell. */
const noUid = async () => null;

function identityOf({ smtpCert: cert, smtpKey: key }: DeviceConfig) {
  return cert === null || key === null ? null : { cert, key };
}

/** What a heartbeat says of programs that give no sign; nothing if there is none. */
type LateReport = Pick<HeartbeatReport, 'late'>;

function lateReportOf(alive: Alive): LateReport {
  const { late } = alive.view();
  return late.length > 0 ? { late } : {};
}

/** The parts that exist if a cloud is configured. */
interface CloudSide {
  readonly link: Link;
  readonly sync: Sync;
  readonly quiet: Quiet;
  /** For the local API. */
  readonly telling: ApiContext['telling'];
  /** Sends SMS, calls and pushes. */
  readonly short: ShortWay;
  /**
   * Starts the link, which wakes the delivery when it comes online, and reports the state of its relays. `late`: the
   * programs that give no sign.
   */
  start(delivery: Pick<Delivery, 'wake' | 'relayView'>, late: () => LateReport): void;
  close(): void;
}

/** Builds the cloud's side. Nothing is sent before start(). */
async function openCloud(
  config: DeviceConfig,
  cloud: LinkConfig,
  system: System,
  store: Store,
  book: AddressBook,
): Promise<CloudSide> {
  const [{ openHttps }, { openClient }, { Link }, { Sync }, { Quiet }] = await Promise.all([
    import('../base/system/https.js'),
    import('./link/client.js'),
    import('./link/link.js'),
    import('./link/sync.js'),
    import('./quiet.js'),
  ]);
  const { version } = system;
  const { client, close } = openClient(config, { openHttps, ...system });
  const place = `${cloud.url}/devices/${cloud.deviceId}`;
  const sayNow = (word?: string) => link.sayNow(word);
  const quiet = await Quiet.open({ ...system, directory: config.stateDir, cloud: place, sayNow });
  // The delivery is built later than the link, and so is the watch over programs.
  let relayState = (): RelayView['state'] => 'unknown';
  let lateReport = (): LateReport => ({});
  const link = new Link({
    client,
    config,
    report: () => ({ ...queueReport(store), version, relay: relayState(), ...lateReport() }),
    untold: () => quiet.untold(),
    ...system,
  });
  const sync = new Sync({
    book,
    cloud: place,
    client,
    config,
    isOnline: () => link.isOnline,
    ...system,
  });
  return {
    link,
    sync,
    quiet,
    telling: { quiet, sayNow, drill: (uid, signal) => client.drill(uid, signal) },
    short: {
      send: (message, signal) => client.sendMessage(message, signal),
      sendMail: (mail, signal) => client.sendMail(mail, signal),
      isOnline: () => link.isOnline,
    },
    start(delivery, late) {
      relayState = () => delivery.relayView().state;
      lateReport = late;
      const online = () => {
        delivery.wake();
        sync.online();
      };
      link.start({ online, destinations: (etag) => sync.seen(etag) });
    },
    close,
  };
}

function queueReport(store: Store) {
  const { queued, sending, deferred, failed } = store.counts();
  return { queue: { queued: queued + sending, deferred, failed } };
}

/** The link, with the reason why messages wait although it is online. */
function linkView(cloud: CloudSide | null, waitReason: string | null): LinkView | null {
  const view = cloud?.link.view() ?? null;
  if (view === null || view.reason !== null || waitReason === null) return view;
  return { ...view, reason: `messages wait: ${waitReason}` };
}

/** Sockets from systemd replace the default of FIELDPOST_LISTEN; listeners that are set there are opened as well. */
export function withSockets(config: DeviceConfig, env: Environment, handed: System['handed']): DeviceConfig {
  const isSet = (env.FIELDPOST_LISTEN ?? '').trim() !== '';
  const isOpen = handed?.some(({ use }) => use !== 'smtp') ?? false;
  return isOpen && !isSet ? { ...config, listen: [] } : config;
}

/** What the status line tells. */
interface Doing {
  readonly queue: QueueCounts;
  /** Why the queue takes no ordinary message; null while it does. */
  readonly fullReason: string | null;
  readonly relay: Pick<RelayView, 'state' | 'reason' | 'rate'>;
  readonly link: Pick<LinkView, 'reason'> & { readonly state: (typeof LINK_STATES)[number] };
  readonly storage: Pick<StorageState, 'state' | 'reason'>;
  readonly settings: SettingsFault | null;
  /** Null, or left out: no cloud is configured. */
  readonly quiet?: Pick<QuietView, 'untilMs' | 'why'> | null;
}

const RELAY = {
  none: 'no relay',
  unknown: 'relay not tried yet',
  ok: 'relay ok',
  failing: 'relay failing',
  refusing: 'relay refusing',
};

/** The line of `systemctl status`: the queue, the relay and the link; storage and settings only with a fault. Time alone changes nothing in it. */
export function statusLine({ queue, fullReason, relay, link, storage, settings, quiet }: Doing): string {
  const untilMs = quiet?.untilMs ?? null;
  const waiting = queue.queued + queue.sending;
  const parts = [
    untilMs === null ? '' : `quiet until ${utcMinute(untilMs)}${because(quiet?.why ?? null)}`,
    settings === null ? '' : `settings refused (${settings.reason})`,
    `${waiting} queued${queue.held ? ' (on hold)' : ''}`,
    fullReason === null ? '' : `queue full (${fullReason})`,
    queue.deferred > 0 ? `${queue.deferred} deferred` : '',
    queue.failed > 0 ? `${queue.failed} failed` : '',
    `${relay.state === 'unknown' && relay.reason !== null ? 'relay has taken nothing yet' : RELAY[relay.state]}${because(relay.reason)}`,
    relay.rate === null || relay.rate.nextMs === null ? '' : 'rate of the relay used up',
    `cloud ${link.state}${link.state === 'disabled' ? '' : because(link.reason)}`,
    storage.state === 'ok' ? '' : `storage ${storage.state}${because(storage.reason)}`,
  ];
  return parts.filter((part) => part !== '').join(', ');
}

function because(reason: string | null): string {
  return reason === null ? '' : ` (${reason})`;
}

function utcMinute(wallMs: number): string {
  return `${isoOf(wallMs).slice(0, 16).replace('T', ' ')} UTC`;
}
