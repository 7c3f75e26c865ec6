/**
 * The calls for the state of the daemon: the state, the health check, and the page that shows the state to people.
 */
import { FieldpostError } from '../../base/errors.js';
import type { Exchange } from '../../base/http/exchange.js';
import { sendPage } from '../../base/http/html-page.js';
import { MINUTE_MS } from '../../base/limits.js';
import { wallMsOf } from '../../base/stamp.js';
import { isoOf, isoOrNull } from '../../base/text.js';
import type { LinkView, QueueRoom, QuietView, SettingsFault, TriedRelay } from '../../base/views.js';
import type { ApiContext } from './context.js';

/** Why the link does nothing. */
export const NO_CLOUD = 'No cloud is configured (FIELDPOST_CLOUD)';
const NEVER_SYNCED = {
  synced: false,
  lastSyncMs: null,
  reason: `${NO_CLOUD}: the address book is kept on this device alone`,
};

/** `GET /api/internal/state` */
export async function getState(exchange: Exchange, context: ApiContext): Promise<void> {
  await context.store.look();
  exchange.json(200, stateOf(context));
}

/** The state as clients see it. */
export function stateOf(context: ApiContext): object {
  const { store, clock, version } = context;
  const uptimeMs = clock.bootMs() - context.startedBootMs;
  const nowMs = clock.wallMs();
  const startedMs = nowMs - uptimeMs;
  const relay = context.relayState();
  const { lastSent } = store;
  const { synced, lastSyncMs, reason } = context.syncState() ?? NEVER_SYNCED;
  return {
    quiet: quietView(context.telling?.quiet.view() ?? NEVER_QUIET),
    device: { hostname: context.hostname(), id: context.settings.cloud?.deviceId ?? null },
    link: linkView(context.linkState(), startedMs),
    relay: {
      state: relay.state,
      since: isoOf(relay.sinceMs),
      reason: relay.reason,
      name: relay.name ?? null,
      lastSentAt: lastSent === null ? null : isoOf(wallMsOf(lastSent, clock, store.boots)),
      nextTryAt: isoOrNull(relay.nextTryMs),
      rate: relay.rate && { used: relay.rate.used, nextAt: isoOrNull(relay.rate.nextMs) },
    },
    queue: { ...store.counts(), ...roomView(store.room()) },
    destinations: {
      ...context.book.counts,
      synced,
      lastSync: isoOrNull(lastSyncMs),
      reason,
    },
    alive: context.alive.view(),
    storage: store.storage(),
    clock: { trusted: context.clockTrusted(), now: isoOf(nowMs) },
    settings: settingsView(context.settingsFault(), startedMs),
    version,
    uptimeMs,
  };
}

/** Without a cloud nobody would be told anyway. */
export const NEVER_QUIET: QuietView = { untilMs: null, why: null, by: null, isKnown: true };

/** The quiet as clients see it. */
export function quietView({ untilMs, why, by, isKnown }: QuietView): object {
  return { until: isoOrNull(untilMs), why, by, known_to_cloud: isKnown };
}

/**
 * `GET /healthz`: fails only if the daemon must be restarted or a technician must come to the device. A network fault is
 * no failure here.
 */
export async function getHealth(exchange: Exchange, { store }: ApiContext): Promise<void> {
  const reason = await store.look();
  if (reason !== null) throw new FieldpostError('unavailable', reason);
  exchange.send(200, 'text/plain', 'ok');
}

/** The longest trial of the relays. */
const TRIAL_MS = MINUTE_MS;

/** `POST /api/internal/relay/trial`: each relay, its steps, and its fault. No mail is sent. */
export async function tryRelays(exchange: Exchange, context: ApiContext): Promise<void> {
  let relays: readonly TriedRelay[] = [];
  const isDone = await exchange.poll(TRIAL_MS, async (signal) => {
    relays = await context.tryRelays(signal);
  });
  if (!isDone) throw new FieldpostError('busy', 'Too many requests wait already');
  // A relay that works now gets what waits for it.
  if (relays.some(({ fault }) => fault === null)) context.wake();
  exchange.json(200, { relays });
}

/**
 * `GET /`: the status page. It has no data in it: its program asks the other calls. It is told whether they need a token.
 */
export async function getStatusPage(exchange: Exchange, { settings }: ApiContext): Promise<void> {
  const { default: page } = await import('../../pages/status.html');
  const asksToken = settings.apiToken !== null && exchange.connection.kind === 'tcp';
  await sendPage(exchange, page, { asksToken });
}

/** Without a cloud the link is `disabled` since the start. */
function linkView(link: LinkView | null, startedMs: number): object {
  if (link === null) {
    return { state: 'disabled', since: isoOf(startedMs), lastHeartbeat: null, reason: NO_CLOUD, history: [] };
  }
  const { state, sinceMs, lastHeartbeatMs, reason, history, zone } = link;
  return {
    state,
    since: isoOf(sinceMs),
    lastHeartbeat: isoOrNull(lastHeartbeatMs),
    reason,
    ...(zone !== undefined && { zone }),
    history: history.map(({ sinceMs, ...rest }) => ({ ...rest, since: isoOf(sinceMs) })),
  };
}

function roomView({ used, limits, reason }: QueueRoom): object {
  return { used, limits, full: reason !== null, reason };
}

/** Without a fault the state is `ok`, and `since` is the start of the daemon. */
function settingsView(fault: SettingsFault | null, startedMs: number): object {
  if (fault === null) return { state: 'ok', since: isoOf(startedMs), reason: null };
  return { state: 'refused', since: isoOf(fault.sinceMs), reason: fault.reason };
}
