/**
 * The calls of the cloud's contract, which devices make.
 */

import { type Fault, FieldpostError } from '../base/errors.js';
import { readJson } from '../base/http/body.js';
import { sendTagged } from '../base/http/etag.js';
import type { Exchange } from '../base/http/exchange.js';
import type { RefusedTotals } from '../base/http/problem.js';
import { firstAsJson, type JsonObject } from '../base/json.js';
import { CLOUD_ANSWER_BYTES_MAX, CLOUD_DOCUMENT_BYTES_MAX, DAY_MS, KIB } from '../base/limits.js';
import { isoOf } from '../base/text.js';
import type { Delivery } from '../mail/delivery/delivery.js';
import type { System } from '../mail/engine.js';
import type { Store } from '../mail/store/store.js';
import type { Devices } from './devices.js';
import { type Document, misunderstood, type People } from './document.js';
import type { FleetStore } from './fleet-store.js';
import type { Mails } from './mails.js';
import type { OutageLog } from './outages.js';
import type { AcceptedMessages, Outbox } from './outbox.js';
import { type Report, SAID, type Said, statusOf } from './presence.js';
import type { CloudConfig } from './settings.js';

/** The parts of the cloud that the calls use. */
export interface CloudParts {
  readonly config: CloudConfig;
  readonly system: Pick<System, 'clock' | 'version' | 'settingsFault'>;
  /** The messages to people. */
  readonly store: Store;
  /** Of those messages. */
  readonly delivery: Pick<Delivery, 'outcomes' | 'relayView'>;
  readonly accepted: AcceptedMessages;
  readonly fleet: FleetStore;
  readonly devices: Devices;
  readonly people: Pick<People, 'count'>;
  readonly outbox: Outbox;
  readonly mails: Mails;
  readonly outages: OutageLog;
  /** Calls that were refused. */
  readonly refused: RefusedTotals;
  /** Since the start. */
  readonly totals: { heartbeats: number };
  /** On the boot's clock. */
  readonly startedMs: number;
  /** The last warnings and errors, as they are in the log. */
  readonly faults: readonly string[];
}

/** Heartbeats within a delay: two of them can be lost before people are told. */
const HEARTBEATS_PER_DELAY = 3;

/** `PUT /devices/{id}/heartbeat` */
export async function heartbeat(exchange: Exchange, parts: CloudParts): Promise<void> {
  const { id } = exchange;
  const { config, fleet, devices, totals } = parts;
  const { clock } = parts.system;
  const body = await readJson(exchange, CLOUD_BODY_BYTES_MAX, null);
  const report = parseReport((body ?? {}) as JsonObject);
  devices.admit(id);
  await fleet.watch.heard(id, report);
  totals.heartbeats++;
  const etag = fleet.documents.about(id)?.etag;
  exchange.json(200, {
    ...(etag !== undefined && { destinations: etag }),
    heartbeatMs: Math.floor(config.cloudServerDelayMs / HEARTBEATS_PER_DELAY),
    // Time from a wrong clock would confirm a wrong clock of the device.
    ...(clock.trust() !== 'wrong' && { serverTime: isoOf(clock.wallMs()) }),
  });
}

/** Heartbeats and messages are small; a document may be as large as FIELDPOST_MAX_BODY. */
export const CLOUD_BODY_BYTES_MAX = 64 * KIB;
/** A longer boot id is ignored. */
const BOOT_ID_CHARS_MAX = 64;

function parseReport(body: JsonObject): Report {
  const { state, intervalMs, bootId, uptimeMs } = body;
  const everyMs = intervalMs ?? 0;
  const faults: Fault[] = [];
  if (!SAID.includes(state as Said))
    faults.push({ pointer: '/state', detail: `must be one of ${SAID.join(', ')}` });
  if (!Number.isInteger(everyMs) || (everyMs as number) < 0 || (everyMs as number) > DAY_MS) {
    faults.push({ pointer: '/intervalMs', detail: `must be a whole number of milliseconds up to ${DAY_MS}` });
  }
  if (faults.length > 0)
    throw new FieldpostError('invalid', 'The heartbeat is not valid; see errors', { faults });
  const isTimed =
    typeof bootId === 'string' && bootId.length <= BOOT_ID_CHARS_MAX && typeof uptimeMs === 'number';
  const sent = isTimed ? { bootId, uptimeMs } : null;
  return { said: state as Said, everyMs: everyMs as number, sent, status: statusOf(body) };
}

/** `GET /devices/{id}/destinations` */
export async function getDestinations(exchange: Exchange, { fleet }: CloudParts): Promise<void> {
  const stored = await fleet.documents.read(exchange.id);
  if (stored === null) throw new FieldpostError('not-found', 'No document is stored for this device');
  sendTagged(exchange, stored.text, stored.etag);
}

/** `PUT /devices/{id}/destinations` */
export async function putDestinations(
  exchange: Exchange,
  { config, fleet, devices }: CloudParts,
): Promise<void> {
  const isShared = config.cloudServerStore !== null;
  const bytesMax = isShared ? Math.min(config.maxBodyBytes, CLOUD_DOCUMENT_BYTES_MAX) : config.maxBodyBytes;
  const body = await readJson(exchange, bytesMax);
  devices.admit(exchange.id);
  const ETag = await fleet.documents.put(exchange.id, body, exchange.req.headers);
  const faults = firstAsJson(misunderstood(body as Document), CLOUD_ANSWER_BYTES_MAX);
  if (faults.length === 0) exchange.nothing(204, { ETag });
  else exchange.send(200, 'application/json', `{"misunderstood":[${faults.join()}]}`, { ETag });
}

/** `POST /devices/{id}/messages` */
export async function postMessage(exchange: Exchange, { outbox }: CloudParts): Promise<void> {
  const key = exchange.req.headers['idempotency-key'];
  const body = await readJson(exchange, CLOUD_BODY_BYTES_MAX, null);
  exchange.json(202, { id: await outbox.take(exchange.id, key, body) });
}

/** `POST /devices/{id}/mails` */
export async function postMail(exchange: Exchange, { mails }: CloudParts): Promise<void> {
  exchange.json(202, { id: await mails.take(exchange) });
}
