/**
 * The calls of the cloud's contract, which devices make.
 */

import { type Fault, FieldpostError } from '../base/errors.js';
import { readJson } from '../base/http/body.js';
import { sendTagged } from '../base/http/etag.js';
import type { Exchange } from '../base/http/exchange.js';
import type { RefusedTotals } from '../base/http/problem.js';
import { firstAsJson, type JsonObject } from '../base/json.js';
import {
  CLOUD_ANSWER_BYTES_MAX,
  CLOUD_DOCUMENT_BYTES_MAX,
  DAY_MS,
  KIB,
  QUIET_MS_MAX,
  REASON_CHARS_MAX,
} from '../base/limits.js';
import { harmlessName, isoOf, oneSpaced } from '../base/text.js';
import type { Delivery } from '../mail/delivery/delivery.js';
import type { System } from '../mail/engine.js';
import type { Store } from '../mail/store/store.js';
import type { Devices } from './devices.js';
import { type Document, entriesOf, misunderstood, type People } from './document.js';
import type { FleetStore } from './fleet-store.js';
import type { Mails } from './mails.js';
import type { OutageLog } from './outages.js';
import { type AcceptedMessages, isReachable, type Outbox, type Ways } from './outbox.js';
import { type Report, SAID, type Said, statusOf } from './presence.js';
import type { CloudConfig } from './settings.js';

/** The parts of the cloud that the calls use. */
export interface CloudParts {
  readonly config: CloudConfig;
  readonly system: Pick<System, 'clock' | 'log' | 'version' | 'settingsFault'>;
  readonly ways: Ways;
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
  const { etag, delayMs = null } = fleet.documents.about(id) ?? {};
  const { cloudServerDelayMs, cloudServerTimeZone: zone } = config;
  // A device with a longer delay of its own knows by itself how often it wakes.
  const shortestMs = Math.min(cloudServerDelayMs, delayMs ?? cloudServerDelayMs);
  exchange.json(200, {
    ...(etag !== undefined && { destinations: etag }),
    heartbeatMs: Math.floor(shortestMs / HEARTBEATS_PER_DELAY),
    // A device shows with it when people would be told; most have UTC.
    ...(zone !== 'UTC' && { zone }),
    // Time from a wrong clock would confirm a wrong clock of the device.
    ...(clock.trust() !== 'wrong' && { serverTime: isoOf(clock.wallMs()) }),
  });
}

/** Heartbeats and messages are small; a document may be as large as FIELDPOST_MAX_BODY. */
export const CLOUD_BODY_BYTES_MAX = 64 * KIB;
/** A longer boot id is ignored. */
const BOOT_ID_CHARS_MAX = 64;

function parseReport(body: JsonObject): Report {
  const { state, intervalMs, bootId, uptimeMs, sequence } = body;
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
  const sent = isTimed ? { bootId, uptimeMs, ...(typeof sequence === 'number' && { sequence }) } : null;
  const quiet = isQuietMs(body.quietMs) ? { forMs: body.quietMs, why: reasonIn(body.why) } : null;
  const status = statusOf(body);
  return { said: state as Said, everyMs: everyMs as number, sent, status, quiet, last: reasonIn(body.last) };
}

function isQuietMs(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= QUIET_MS_MAX;
}

/** A text for people, in one line; null: it is none, or too long, or empty. */
function reasonIn(value: unknown): string | null {
  if (typeof value !== 'string' || value.length > REASON_CHARS_MAX) return null;
  return oneSpaced(harmlessName(value, ' ')) || null;
}

/** `PUT /devices/{id}/quiet` */
export async function putQuiet(exchange: Exchange, { fleet, system }: CloudParts): Promise<void> {
  const { id } = exchange;
  const { quietMs, why = null } = ((await readJson(exchange, CLOUD_BODY_BYTES_MAX, null)) ??
    {}) as JsonObject;
  const faults: Fault[] = [];
  if (!isQuietMs(quietMs))
    faults.push({
      pointer: '/quietMs',
      detail: `must be a whole number of milliseconds up to ${QUIET_MS_MAX}`,
    });
  if (why !== null && why !== '' && reasonIn(why) === null)
    faults.push({ pointer: '/why', detail: `must be a text of at most ${REASON_CHARS_MAX} characters` });
  if (faults.length > 0) throw new FieldpostError('invalid', 'This is no quiet; see errors', { faults });
  checkHasCalled(fleet, id);
  const forMs = quietMs as number;
  const quiet = forMs === 0 ? null : { untilMs: system.clock.wallMs() + forMs, why: reasonIn(why) };
  await fleet.watch.quiet(id, quiet);
  exchange.json(200, { until: quiet && isoOf(quiet.untilMs) });
}

/** `POST /devices/{id}/drill` */
export async function postDrill(exchange: Exchange, { fleet, ways }: CloudParts): Promise<void> {
  const { id } = exchange;
  const { uid = null } = ((await readJson(exchange, CLOUD_BODY_BYTES_MAX, null)) ?? {}) as JsonObject;
  checkHasCalled(fleet, id);
  const stored = await fleet.documents.read(id);
  const all = stored === null ? [] : entriesOf(stored.document);
  const wanted = uid === null ? all : all.filter((entry) => entry.uid === uid);
  if (uid !== null && wanted.length === 0)
    throw new FieldpostError('invalid', 'Nobody with this uid would be told', {
      faults: [{ pointer: '/uid', detail: "must be the uid of an entry of the device's document" }],
    });
  const people = wanted.filter((entry) => isReachable(entry, ways)).length;
  if (people > 0) await fleet.watch.drill(id, uid as string | null);
  exchange.json(202, { people });
}

/** Throws conflict for a device that has sent no heartbeat: nobody is told of it. */
function checkHasCalled({ watch }: CloudParts['fleet'], id: string): void {
  if (!watch.has(id)) throw new FieldpostError('conflict', `${id} has never called: nobody is told of it`);
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
