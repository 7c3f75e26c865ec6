/**
 * The calls of the cloud's contract, and two for its operator, with a page that uses them. Used by cloud.ts.
 */
import { type Fault, FieldpostError } from '../errors.js';
import { readJson } from '../http/body.js';
import { sendTagged } from '../http/etag.js';
import type { Exchange } from '../http/exchange.js';
import { sendPage } from '../http/html-page.js';
import { firstAsJson } from '../http/page.js';
import type { Routed } from '../http/routing.js';
import type { JsonObject } from '../json.js';
import { CLOUD_ANSWER_BYTES_MAX, CLOUD_BODY_BYTES_MAX, DAY_MS } from '../limits.js';
import type { Clock } from '../system/clock.js';
import type { Devices } from './devices.js';
import { type Document, misunderstood } from './document.js';
import type { FleetDocuments, FleetWatch, Report } from './fleet-store.js';
import type { Outbox } from './outbox.js';

/** The parts of the cloud that the calls use. */
export interface CloudParts {
  readonly documents: FleetDocuments;
  readonly watch: FleetWatch;
  readonly devices: Devices;
  readonly outbox: Outbox;
  readonly clock: Clock;
  /** The heartbeat interval that devices are asked to keep. */
  readonly heartbeatMs: number;
  readonly maxDocumentBytes: number;
  /** False: any key opens every call. */
  readonly hasKeys: boolean;
}

interface CloudRoute extends Routed {
  /** `device`: the device in the path, or the operator. */
  readonly for: 'device' | 'operator' | 'anyone';
  readonly handle: (exchange: Exchange, parts: CloudParts) => void | Promise<void>;
}

export const CLOUD_ROUTES: readonly CloudRoute[] = [
  { method: 'PUT', path: '/devices/{id}/heartbeat', for: 'device', handle: heartbeat },
  { method: 'GET', path: '/devices/{id}/destinations', for: 'device', handle: getDestinations },
  { method: 'PUT', path: '/devices/{id}/destinations', for: 'device', handle: putDestinations },
  { method: 'POST', path: '/devices/{id}/messages', for: 'device', handle: postMessage },
  { method: 'GET', path: '/devices', for: 'operator', handle: listDevices },
  { method: 'DELETE', path: '/devices/{id}', for: 'operator', handle: removeDevice },
  { method: 'GET', path: '/', for: 'anyone', handle: getFleetPage },
  { method: 'GET', path: '/healthz', for: 'anyone', handle: getHealth },
];

async function heartbeat(exchange: Exchange, parts: CloudParts): Promise<void> {
  const { id } = exchange;
  const body = await readJson(exchange, CLOUD_BODY_BYTES_MAX, null);
  const report = parseReport((body ?? {}) as JsonObject);
  parts.devices.admit(id);
  parts.watch.heard(id, report);
  const etag = parts.documents.about(id)?.etag;
  exchange.json(200, {
    ...(etag !== undefined && { destinations: etag }),
    heartbeatMs: parts.heartbeatMs,
    // Time from a wrong clock would confirm a wrong clock of the device.
    ...(parts.clock.trust() !== 'wrong' && { serverTime: new Date(parts.clock.wallMs()).toISOString() }),
  });
}

/** A longer boot id is ignored. */
const BOOT_ID_CHARS_MAX = 64;
const SAID: readonly unknown[] = ['running', 'stopping', 'moved'] satisfies readonly Report['said'][];

function parseReport({ state, intervalMs, bootId, uptimeMs }: JsonObject): Report {
  const everyMs = intervalMs ?? 0;
  const faults: Fault[] = [];
  if (!SAID.includes(state)) faults.push({ pointer: '/state', detail: `must be one of ${SAID.join(', ')}` });
  if (!Number.isInteger(everyMs) || (everyMs as number) < 0 || (everyMs as number) > DAY_MS) {
    faults.push({ pointer: '/intervalMs', detail: `must be a whole number of milliseconds up to ${DAY_MS}` });
  }
  if (faults.length > 0)
    throw new FieldpostError('invalid', 'The heartbeat is not valid; see errors', { faults });
  const isTimed =
    typeof bootId === 'string' && bootId.length <= BOOT_ID_CHARS_MAX && typeof uptimeMs === 'number';
  const sent = isTimed ? { bootId, uptimeMs } : null;
  return { said: state as Report['said'], everyMs: everyMs as number, sent };
}

async function getDestinations(exchange: Exchange, { documents }: CloudParts): Promise<void> {
  const stored = await documents.read(exchange.id);
  if (stored === null) throw new FieldpostError('not-found', 'No document is stored for this device');
  sendTagged(exchange, stored.text, stored.etag);
}

async function putDestinations(
  exchange: Exchange,
  { documents, devices, maxDocumentBytes }: CloudParts,
): Promise<void> {
  const body = await readJson(exchange, maxDocumentBytes);
  devices.admit(exchange.id);
  const ETag = await documents.put(exchange.id, body, exchange.req.headers);
  const faults = firstAsJson(misunderstood(body as Document), CLOUD_ANSWER_BYTES_MAX);
  if (faults.length === 0) exchange.nothing(204, { ETag });
  else exchange.send(200, 'application/json', `{"misunderstood":[${faults.join()}]}`, { ETag });
}

async function postMessage(exchange: Exchange, { outbox }: CloudParts): Promise<void> {
  const key = exchange.req.headers['idempotency-key'];
  const body = await readJson(exchange, CLOUD_BODY_BYTES_MAX, null);
  exchange.json(202, { id: await outbox.take(exchange.id, key, body) });
}

function listDevices(exchange: Exchange, { devices }: CloudParts): void {
  const isoOf = (ms: number | null) => (ms === null ? null : new Date(ms).toISOString());
  const list = devices.list().map(({ id, state, heardMs, sinceMs, destinations }) => ({
    id,
    state,
    since: isoOf(sinceMs),
    lastHeartbeat: isoOf(heardMs),
    destinations,
  }));
  exchange.json(200, { devices: list, refused: devices.refused });
}

async function removeDevice(exchange: Exchange, { devices }: CloudParts): Promise<void> {
  await devices.remove(exchange.id);
  exchange.nothing(204, {});
}

/** The operator's page. It has no data in it: its program asks the other calls. */
async function getFleetPage(exchange: Exchange, { hasKeys }: CloudParts): Promise<void> {
  // Few clouds ever need it.
  const { default: page } = await import('../pages/fleet.html');
  sendPage(exchange, page, { asksToken: hasKeys });
}

function getHealth(exchange: Exchange, { outbox, devices }: CloudParts): void {
  const { state, reason } = outbox.storage();
  if (state !== 'ok') throw new FieldpostError('unavailable', reason ?? `storage ${state}`);
  // The cloud still serves the devices that it has admitted.
  const refused = devices.refused > 0 ? `; too many devices, ${devices.refused} calls refused` : '';
  exchange.send(200, 'text/plain', `ok${refused}`);
}
