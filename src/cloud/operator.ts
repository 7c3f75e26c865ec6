/**
 * The calls of the operator, `GET /metrics` among them, and the page that uses them.
 */
import { type Fault, FieldpostError, wordsOf } from '../base/errors.js';
import { DEVICE_STATES, type FleetDevice } from '../base/fleet-lines.js';
import type { Exchange } from '../base/http/exchange.js';
import { sendPage } from '../base/http/html-page.js';
import { by, METRICS_TYPE, metricsText } from '../base/http/metrics-text.js';
import { invalidQuery, oneOfIn, wholeNumberIn } from '../base/http/query.js';
import { counted, isoOf, isoOrNull } from '../base/text.js';
import { queueMetrics, storageMetrics } from '../mail/metrics.js';
import type { CloudParts } from './calls.js';
import { csvOf, LIST_FORMATS, sendCsv, wantsCsv } from './csv.js';
import { CLOUD_DEVICES_MAX, type Device, type DeviceQuery, ORDERS } from './devices.js';
import { assertServing, type Office } from './fleet-store.js';
import { isDeviceId } from './keys.js';

const ORDER_NAMES = Object.keys(ORDERS) as readonly (keyof typeof ORDERS)[];

/** `GET /devices` */
export async function listDevices(exchange: Exchange, { devices }: CloudParts): Promise<void> {
  const { format, ...query } = parseQuery(exchange.query);
  const { devices: page, next, total, counts } = await devices.list(query);
  const views = page.map(viewOf);
  if (wantsCsv(format, exchange.req.headers.accept)) {
    const rows = views.map(({ queue, quiet, tags, late, ...others }) => ({
      ...{ ...others, ...queue, tags: tags.join(', '), late: late.join(', ') },
      ...{ quiet: quiet?.until, why: quiet?.why },
    }));
    sendCsv(exchange, 'devices.csv', csvOf(COLUMNS, rows), nextLink(exchange.query, next));
    return;
  }
  const pieces = views.flatMap((view, n) => (n === 0 ? JSON.stringify(view) : [',', JSON.stringify(view)]));
  const end = JSON.stringify({ next, total, counts, refused: devices.refused }).slice(1);
  exchange.send(200, 'application/json', ['{"devices":[', ...pieces, `],${end}`], { Vary: 'Accept' });
}

/** `GET /devices/{id}` */
export function getDevice(exchange: Exchange, { devices }: CloudParts): void {
  exchange.json(200, viewOf(devices.get(exchange.id)));
}

/** `DELETE /devices/{id}` */
export async function removeDevice(exchange: Exchange, { devices }: CloudParts): Promise<void> {
  await devices.remove(exchange.id);
  exchange.nothing(204, {});
}

/** `POST /devices/{id}/key` */
export async function makeKey(exchange: Exchange, { devices, config }: CloudParts): Promise<void> {
  const { id } = exchange;
  if (config.cloudServerKeys === null) {
    throw new FieldpostError('conflict', 'Any key opens every call of this cloud, so a key means nothing', {
      hint: 'a line with * and a key for the operator in FIELDPOST_CLOUD_SERVER_KEYS_FILE makes the cloud check keys',
    });
  }
  if (!isDeviceId(id)) {
    const detail = 'must be up to 128 letters, digits and . - _ : and begin with a letter or digit';
    throw new FieldpostError('invalid', 'This cannot be the id of a device', {
      faults: [{ pointer: 'id', detail }],
    });
  }
  const key = await devices.makeKey(id);
  exchange.json(201, { id, key }, { 'Cache-Control': 'no-store' });
}

/** The operator's page. It has no data in it: its program asks the other calls. */
export async function getFleetPage(exchange: Exchange, { config }: CloudParts): Promise<void> {
  // Few clouds ever need it.
  const { default: page } = await import('../pages/fleet.html');
  await sendPage(exchange, page, { asksToken: config.cloudServerKeys !== null });
}

/** `GET /healthz` */
export function getHealth(exchange: Exchange, parts: CloudParts): void {
  assertHealthy(parts);
  const { devices } = parts;
  // The cloud still serves the devices that it has admitted.
  const refused = devices.refused > 0 ? `; too many devices, ${devices.refused} calls refused` : '';
  exchange.send(200, 'text/plain', `ok${refused}`);
}

/** Throws unavailable if the cloud cannot do its work. */
function assertHealthy({ store, accepted, fleet }: CloudParts): void {
  assertServing(fleet.office);
  const { state, reason } = store.storage();
  if (state !== 'ok') throw new FieldpostError('unavailable', reason ?? `storage ${state}`);
  const { fullness } = accepted;
  if (fullness !== null) throw new FieldpostError('unavailable', fullness);
}

/** `GET /status`: what a person on call asks first. */
export async function getStatus(exchange: Exchange, parts: CloudParts): Promise<void> {
  const { config, system, store, devices, fleet, people, delivery, accepted, startedMs, faults } = parts;
  await store.look();
  const counts = await devices.count();
  const { state, sinceMs, reason, name = null } = delivery.relayView();
  const { used, limits, reason: fullness } = store.room();
  const settings = system.settingsFault?.() ?? null;
  exchange.json(200, {
    version: system.version,
    uptimeMs: system.clock.bootMs() - startedMs,
    fault: faultOf(parts),
    devices: { ...counts, refused: devices.refused },
    people: { named: people.count, untold: fleet.watch.untold },
    store: config.cloudServerStore === null ? 'files' : 'etcd',
    relay: { state, since: isoOrNull(sinceMs), reason, name },
    queue: { ...store.counts(), used, limits, full: fullness !== null, reason: fullness },
    outbox: accepted.waiting,
    storage: store.storage(),
    settings: settings === null ? null : { since: isoOrNull(settings.sinceMs), reason: settings.reason },
    faults,
  });
}

/** Why the cloud cannot do its work; null: it can. */
function faultOf(parts: CloudParts): string | null {
  try {
    assertHealthy(parts);
    return null;
  } catch (error) {
    return wordsOf(error);
  }
}

/** The line of `systemctl status`: the devices; health and settings only with a fault. Time alone changes nothing in it. */
export async function statusLine(parts: CloudParts): Promise<string> {
  const { devices, system } = parts;
  const { online, offline } = await devices.count();
  const words = [`${counted(online, 'device')} online`, `${offline} offline`];
  const fault = system.settingsFault?.() ?? null;
  if (fault !== null) words.unshift(`settings refused (${fault.reason})`);
  return [...words, faultOf(parts) ?? []].flat().join(', ');
}

const CLOUD = metricsText('fieldpost_cloud_');

/** `GET /metrics` */
export async function getMetrics(exchange: Exchange, parts: CloudParts): Promise<void> {
  await parts.store.look();
  exchange.send(200, METRICS_TYPE, (await metricsOf(parts)).join(''));
}

async function metricsOf(parts: CloudParts): Promise<string[]> {
  const { config, system, devices, fleet, store, accepted, totals, refused, delivery } = parts;
  const { gauge, counter } = CLOUD;
  const { attention, quiet, ...states } = await devices.count();
  let documentCount = 0;
  for (const _ of fleet.documents.ids) documentCount++;
  return [
    gauge('build_info', 'Always 1; the label tells the version.', [[{ version: system.version }, 1]]),
    gauge('devices', 'Devices by state.', by('state', states)),
    gauge(
      'devices_attention',
      'Devices whose relay is failing or refusing, with failed messages, or with a late program.',
      attention,
    ),
    gauge(
      'devices_quiet',
      'Devices of which nobody is told for now, because somebody asked for quiet.',
      quiet,
    ),
    gauge('documents', 'Devices with a destinations document.', documentCount),
    counter('heartbeats_total', 'Heartbeats since the start.', totals.heartbeats),
    counter('refused_total', 'Calls refused since the start, by error code.', by('code', refused.byCode)),
    counter(
      'devices_refused_total',
      'Calls of new devices refused since the start because there are too many devices.',
      devices.refused,
    ),
    ...fleetMetrics(fleet.office),
    gauge('untold_devices', 'Devices with news that people have not been told yet.', fleet.watch.untold),
    counter(
      'accepted_total',
      'Messages to people accepted since the start: notifications, and messages of devices.',
      by('kind', accepted.totals),
    ),
    gauge('outbox_messages', 'Waiting messages by part of the outbox.', by('part', accepted.waiting)),
    counter(
      'outcomes_total',
      'Outcomes of messages to people since the start, by kind; each deferral counts.',
      by('outcome', delivery.outcomes),
    ),
    gauge(
      'settings_refused',
      '1 while the cloud uses earlier settings because the latest are invalid.',
      Number((system.settingsFault?.() ?? null) !== null),
    ),
    ...queueMetrics(CLOUD, store),
    ...storageMetrics(CLOUD, store, config.minFreeBytes),
  ];
}

/** What this instance is to the others. */
export function fleetMetrics(office: Pick<Office, 'isLeader' | 'mayDecide'>): string[] {
  return [
    CLOUD.gauge('leader', '1 on the instance that tells people.', Number(office.isLeader)),
    CLOUD.gauge(
      'store_available',
      '0 while etcd cannot be reached; always 1 over files.',
      Number(office.mayDecide),
    ),
  ];
}

function viewOf({
  id,
  name,
  site,
  tags,
  state,
  sinceMs,
  heardMs,
  destinations,
  status,
  quiet,
}: Device): FleetDevice {
  return {
    ...{
      id,
      name,
      site,
      tags,
      state,
      since: isoOrNull(sinceMs),
      lastHeartbeat: isoOrNull(heardMs),
      destinations,
    },
    ...status,
    quiet: quiet && { until: isoOf(quiet.untilMs), why: quiet.why },
  };
}

/** An unknown parameter is ignored. Throws invalid. */
function parseQuery(query: string): DeviceQuery & { readonly format: (typeof LIST_FORMATS)[number] | null } {
  const given = new URLSearchParams(query);
  const faults: Fault[] = [];
  const report = (fault: Fault) => void faults.push(fault);
  const oneOf = <One extends string>(name: string, all: readonly One[]) => oneOfIn(given, name, all, report);
  const parsed = {
    state: oneOf('state', DEVICE_STATES),
    part: (given.get('q') ?? '').trim().toLowerCase(),
    site: wholeIn(given, 'site'),
    tag: wholeIn(given, 'tag'),
    version: given.get('version'),
    attention: oneOf('attention', ['true', 'false']) === 'true',
    order: oneOf('order', ORDER_NAMES) ?? 'id',
    limit: wholeNumberIn(given, 'limit', [1, CLOUD_DEVICES_MAX, CLOUD_DEVICES_MAX], report),
    after: given.get('after'),
    format: oneOf('format', LIST_FORMATS),
  };
  if (faults.length > 0) throw invalidQuery(faults);
  return parsed;
}

/** In lower case; null: it is absent. */
function wholeIn(given: URLSearchParams, name: string): string | null {
  return given.get(name)?.trim().toLowerCase() ?? null;
}

/** The Link to the next page (RFC 8288), because CSV has no place for it. */
function nextLink(query: string, next: string | null): Readonly<Record<string, string>> {
  if (next === null) return {};
  const all = new URLSearchParams(query);
  all.set('after', next);
  return { Link: `<?${all}>; rel="next"` };
}

const COLUMNS =
  'id state since lastHeartbeat version queued deferred failed relay link destinations name site tags quiet why late'.split(
    ' ',
  );
